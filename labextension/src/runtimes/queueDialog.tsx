/** Where no card is free: who has them, and what can be done instead of waiting. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import * as React from 'react';
import { cardName, notebookName, runtimeName } from '../formatting';
import type { CardState, Runtime, Snapshot } from '../records';
import { commandIds, ILiveSnapshot } from '../tokens';
import { holderWords } from './cards';
import { type LiveSnapshot, LiveWidget, panelOf, runtimeOf } from './liveSnapshot';

/** A runtime is in the queue for a moment even where its card is free. */
const MOMENT_SECONDS = 1;

export const queue: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:queue',
  description: 'Asks what to do where a notebook’s runtime has to wait.',
  autoStart: true,
  requires: [ILiveSnapshot, INotebookTracker],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, notebooks: INotebookTracker) => {
    const desk = new QueueDesk(app, live, notebooks);
    live.changed.connect(() => desk.look());
  }
};

class QueueDesk {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _live: LiveSnapshot,
    private readonly _notebooks: INotebookTracker
  ) {}

  /** Called with each snapshot. */
  look(): void {
    this._tellStarted();
    if (this._dialog !== null) {
      if (this._live.runtime(this._dialogFor)?.state !== 'waiting') {
        this._dialog.dispose(); // it has started meanwhile, or is gone
      }
      return;
    }
    const waiting = this._notebooks.find(panel => this._isToBeAsked(runtimeOf(panel, this._live)));
    const runtime = waiting && runtimeOf(waiting, this._live);
    if (waiting && runtime) {
      void this._ask(waiting, runtime);
    }
  }

  private _isToBeAsked(runtime: Runtime | undefined): boolean {
    return (
      runtime?.state === 'waiting' &&
      runtime.place !== null &&
      this._live.now() - runtime.queued_at > MOMENT_SECONDS &&
      !this._asked.has(runtime.id)
    );
  }

  private async _ask(panel: NotebookPanel, runtime: Runtime): Promise<void> {
    this._asked.add(runtime.id);
    this._dialogFor = runtime.id;
    const cpu = this._cpuFor(runtime);
    const dialog = new Dialog({
      title: `${notebookName(runtime.notebook)} has to wait for a card`,
      body: new QueueBody(this._live, runtime.id),
      buttons: [
        ...(cpu ? [Dialog.cancelButton({ label: 'Use the CPU', actions: ['cpu'] })] : []),
        Dialog.cancelButton({ label: 'Another type…', actions: ['type'] }),
        Dialog.cancelButton({ label: 'Leave the queue', actions: ['leave'] }),
        Dialog.okButton({ label: `Wait in the queue (place ${runtime.place})` })
      ],
      defaultButton: -1
    });
    this._dialog = dialog;
    let action: string | undefined;
    try {
      action = (await dialog.launch()).button.actions[0];
    } catch {
      return; // disposed: there is nothing to decide any more
    } finally {
      this._dialog = null;
    }
    if (action === 'cpu' && cpu) {
      await this._said(panel.sessionContext.changeKernel({ name: cpu }));
    } else if (action === 'leave') {
      await this._said(panel.sessionContext.shutdown());
    } else if (action === 'type') {
      this._app.shell.activateById(panel.id);
      if ((await this._app.commands.execute(commandIds.changeType)) !== true) {
        this._asked.delete(runtime.id); // where it still waits, it is asked again
        this.look();
      }
    }
  }

  /** The type without a card in the same environment. */
  private _cpuFor(runtime: Runtime): string | undefined {
    const environment = this._live.type(runtime.type)?.environment;
    return this._live.current?.types.find(type => type.kind === null && type.environment === environment)?.name;
  }

  private async _said(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (reason) {
      Notification.error(`The runtime was not changed: ${String(reason)}`, { autoClose: false });
    }
  }

  /** Those that were waited for, and have their card now. */
  private _tellStarted(): void {
    for (const id of this._asked) {
      const runtime = this._live.runtime(id);
      if (!runtime) {
        this._asked.delete(id);
      } else if (runtime.state === 'running') {
        this._asked.delete(id);
        const panel = panelOf(runtime, this._notebooks);
        Notification.success(`${notebookName(runtime.notebook)} has its ${runtime.cards.length > 1 ? 'cards' : 'card'}: ${runtimeName(runtime, this._live)}.`, {
          autoClose: 15_000,
          actions: panel ? [{ label: 'Show', callback: () => this._app.shell.activateById(panel.id) }] : []
        });
      }
    }
  }

  /** Runtimes whose people were asked, and that are still waiting or about to start. */
  private readonly _asked = new Set<string>();
  private _dialog: Dialog<unknown> | null = null;
  private _dialogFor = '';
}

export class QueueBody extends LiveWidget {
  constructor(
    live: LiveSnapshot,
    private readonly _runtimeId: string
  ) {
    super(live);
    this.addClass('ownlab-Queue');
  }

  protected render(): React.JSX.Element | null {
    const snapshot = this.live.current;
    const runtime = this.live.runtime(this._runtimeId);
    if (!snapshot || !runtime) {
      return null;
    }
    const type = this.live.type(runtime.type);
    const cards = snapshot.cards.filter(card => card.name === type?.kind);
    const free = (runtime.place ?? 1) > 1 ? 'free, but kept for those before you' : `free (${type?.cards ?? 1} needed)`;
    return (
      <>
        <p>
          <strong>{runtimeName(runtime, this.live)}</strong> is not free.
          {runtime.place !== null && ` This notebook is number ${runtime.place} in the queue.`}
        </p>
        <ul className="ownlab-Queue-cards">
          {cards.map(card => (
            <li key={card.uuid}>
              <span className="ownlab-Queue-card">
                Card {card.index}, {cardName(card.name)}
              </span>
              <span>{whoHas(card, snapshot, this.live.now()) || free}</span>
            </li>
          ))}
        </ul>
        {cards.length === 0 && <p>{runtime.why}</p>}
        <p className="ownlab-Queue-hint">If you wait, it starts by itself as soon as it can; you may close this page meanwhile.</p>
      </>
    );
  }
}

function whoHas(card: CardState, snapshot: Snapshot, now: number): string {
  const yours = new Set(snapshot.runtimes.filter(one => one.person === snapshot.person).map(one => one.id));
  const words = [...card.holders.map(holder => holderWords(holder, yours.has(holder.runtime), now)), ...card.strangers];
  return words.join('; ');
}
