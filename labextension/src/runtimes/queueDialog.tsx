/** The dialog that is shown if a notebook's runtime must wait for a card: who uses the cards, and what to do instead. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, Notification } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import * as React from 'react';
import { reportFailure } from '../failures';
import { cardName, formatDuration, notebookName, runtimeName } from '../formatting';
import type { CardState, Runtime, Snapshot } from '../records';
import { plural, text, textNodes } from '../text';
import { commandIds } from '../tokens';
import { describeHolder } from './cards';
import { type LiveSnapshot, LiveWidget, panelOf, runtimeOf } from './liveSnapshot';

/** A runtime is in the queue for a moment even if its card is free. */
const MIN_WAIT_SECONDS = 1;

export class QueueDialogs {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _live: LiveSnapshot,
    private readonly _notebooks: INotebookTracker
  ) {}

  /** Called with each snapshot. */
  update(): void {
    this._reportStarted();
    if (this._dialog !== null) {
      if (this._live.runtime(this._dialogRuntime)?.state !== 'waiting') {
        this._dialog.dispose(); // it has started or ended
      }
      return;
    }
    const waiting = this._notebooks.find(panel => this._needsDialog(runtimeOf(panel, this._live)));
    const runtime = waiting && runtimeOf(waiting, this._live);
    if (waiting && runtime) {
      void this._openDialog(waiting, runtime);
    }
  }

  private _needsDialog(runtime: Runtime | undefined): boolean {
    return (
      runtime?.state === 'waiting' &&
      runtime.place !== null &&
      this._live.now() - runtime.queued_at > MIN_WAIT_SECONDS &&
      !this._prompted.has(runtime.id)
    );
  }

  private async _openDialog(panel: NotebookPanel, runtime: Runtime): Promise<void> {
    this._prompted.add(runtime.id);
    this._dialogRuntime = runtime.id;
    const cpu = this._cpuTypeFor(runtime);
    const dialog = new Dialog({
      title: text('{notebook} has to wait for a card', { notebook: notebookName(runtime.notebook) }),
      body: new QueueDialogBody(this._live, runtime.id, id => void this._app.commands.execute(commandIds.stopRuntime, { id, confirmed: true })),
      buttons: [
        ...(cpu ? [Dialog.cancelButton({ label: text('Use the CPU'), actions: ['cpu'] })] : []),
        Dialog.cancelButton({ label: text('Another type…'), actions: ['type'] }),
        Dialog.cancelButton({ label: text('Leave the queue'), actions: ['leave'] }),
        Dialog.okButton({ label: text('Wait in the queue (place {place})', { place: runtime.place ?? '–' }) })
      ],
      defaultButton: -1
    });
    this._dialog = dialog;
    let action: string | undefined;
    try {
      action = (await dialog.launch()).button.actions[0];
    } catch {
      return; // disposed: the runtime has started or ended
    } finally {
      this._dialog = null;
    }
    if (action === 'cpu' && cpu) {
      await reportFailure(panel.sessionContext.changeKernel({ name: cpu }), notChanged);
    } else if (action === 'leave') {
      await reportFailure(panel.sessionContext.shutdown(), notChanged);
    } else if (action === 'type') {
      this._app.shell.activateById(panel.id);
      if ((await this._app.commands.execute(commandIds.changeType)) !== true) {
        this._prompted.delete(runtime.id); // ask again if it still waits
        this.update();
      }
    }
  }

  /** Return the type without a card in the same environment. */
  private _cpuTypeFor(runtime: Runtime): string | undefined {
    const environment = this._live.type(runtime.type)?.environment;
    return this._live.current?.types.find(type => type.kind === null && type.environment === environment)?.name;
  }

  /** Notify of runtimes that have waited and now have their cards. */
  private _reportStarted(): void {
    for (const id of this._prompted) {
      const runtime = this._live.runtime(id);
      if (!runtime) {
        this._prompted.delete(id);
      } else if (runtime.state === 'running') {
        this._prompted.delete(id);
        const panel = panelOf(runtime, this._notebooks);
        const values = { notebook: notebookName(runtime.notebook), type: runtimeName(runtime, this._live) };
        const message =
          runtime.cards.length > 1 ? text('{notebook} has its cards: {type}.', values) : text('{notebook} has its card: {type}.', values);
          Notification.success(message, {
            autoClose: 15_000,
          actions: panel ? [{ label: text('Show'), callback: () => this._app.shell.activateById(panel.id) }] : []
        });
      }
    }
  }

  /** Waiting runtimes for which the dialog was shown. */
  private readonly _prompted = new Set<string>();
  private _dialog: Dialog<unknown> | null = null;
  private _dialogRuntime = '';
}

function notChanged(error: string): string {
  return text('The runtime was not changed: {error}', { error });
}

class QueueDialogBody extends LiveWidget {
  constructor(
    live: LiveSnapshot,
    private readonly _runtimeId: string,
    private readonly _stop: (id: string) => void
  ) {
    super(live);
    this.addClass('ownlab-Queue');
  }

  /** The user's own runtimes that do nothing with a card of this kind: stopping one may be faster than waiting. */
  private _renderIdle(snapshot: Snapshot, cards: readonly CardState[]): React.JSX.Element | null {
    const holders = new Set(cards.flatMap(card => card.holders.map(holder => holder.runtime)));
    const idle = snapshot.runtimes
      .filter(runtime => runtime.mine && runtime.person === snapshot.person && holders.has(runtime.id) && !runtime.busy && runtime.state === 'running')
      .sort((first, second) => first.changed_at - second.changed_at);
    if (idle.length === 0) {
      return null;
    }
    const now = this.live.now();
    return (
      <section className="ownlab-Queue-idle" aria-label={text('Your idle runtimes')}>
        <p>{text('These runtimes of yours are idle. Stopping one releases its cards; its variables are lost, its notebook and files are kept.')}</p>
        <ul>
          {idle.map(runtime => (
            <li key={runtime.id}>
              <span className="ownlab-Queue-card">{notebookName(runtime.notebook)}</span>
              <span>{text('{type}, idle for {duration}', { type: runtimeName(runtime, this.live), duration: formatDuration(now - runtime.changed_at) })}</span>
              <button
                className="ownlab-Button ownlab-mod-danger"
                disabled={this._stopped.has(runtime.id)}
                aria-label={text('Stop the runtime of {notebook}', { notebook: notebookName(runtime.notebook) })}
                onClick={() => this._stopIdle(runtime.id)}
              >
                {this._stopped.has(runtime.id) ? text('Stopping…') : text('Stop')}
              </button>
            </li>
          ))}
        </ul>
      </section>
    );
  }

  private _stopIdle(id: string): void {
    this._stopped.add(id);
    this.update();
    this._stop(id);
  }

  private readonly _stopped = new Set<string>();

  protected render(): React.JSX.Element | null {
    const snapshot = this.live.current;
    const runtime = this.live.runtime(this._runtimeId);
    if (!snapshot || !runtime) {
      return null;
    }
    const type = this.live.type(runtime.type);
    const cards = snapshot.cards.filter(card => card.name === type?.kind);
    const free =
      (runtime.place ?? 1) > 1
        ? text('free, but reserved for runtimes before you in the queue')
        : plural(type?.cards ?? 1, 'free (one card needed)', 'free ({n} cards needed)');
    return (
      <>
        <p>
          {textNodes('{type} is not free.', { type: <strong>{runtimeName(runtime, this.live)}</strong> })}
          {runtime.place !== null && ` ${text('This notebook is number {place} in the queue.', { place: runtime.place })}`}
        </p>
        <ul className="ownlab-Queue-cards">
          {cards.map(card => (
            <li key={card.uuid}>
              <span className="ownlab-Queue-card">{text('Card {index}, {name}', { index: card.index, name: cardName(card.name) })}</span>
              <span>{describeHolders(card, snapshot, this.live.now()) || free}</span>
            </li>
          ))}
        </ul>
        {cards.length === 0 && <p>{runtime.why}</p>}
        {this._renderIdle(snapshot, cards)}
        <p className="ownlab-Queue-hint">
          {text('If you wait, the runtime starts automatically as soon as it can. You can close this page meanwhile.')}
        </p>
      </>
    );
  }
}

function describeHolders(card: CardState, snapshot: Snapshot, now: number): string {
  const own = new Set(snapshot.runtimes.filter(runtime => runtime.person === snapshot.person).map(runtime => runtime.id));
  const holders = card.holders.map(holder => describeHolder(holder, own.has(holder.runtime), now));
  return [...holders, ...card.strangers].join('; ');
}
