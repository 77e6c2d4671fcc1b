/** Notifications about limits: a warning before one ends a runtime, the reason afterwards; and that a runtime was stopped elsewhere. */
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { formatDuration, notebookName } from '../formatting';
import type { Runtime, Snapshot } from '../records';
import type { OwnShutdowns } from '../session/ownShutdowns';
import { sentences, text } from '../text';
import { type LiveSnapshot, panelOf } from './liveSnapshot';

/** A runtime that disappears this long before its end was probably ended by the limit: snapshots are seconds apart. */
const TOLERANCE_SECONDS = 3;

/** A runtime that reappears within this time was not stopped. */
const STOP_NOTICE_DELAY_MS = 3_000;

interface IOpenNotebook {
  panel: NotebookPanel;
  session: string;
}

export class LimitNotices {
  constructor(
    private readonly _live: LiveSnapshot,
    private readonly _ownShutdowns: OwnShutdowns,
    private readonly _notebooks: INotebookTracker,
    private readonly _extend: (id: string) => void
  ) {}

  /** Called with each snapshot. */
  update(): void {
    const snapshot = this._live.current;
    if (!snapshot || snapshot === this._previous) {
      return;
    }
    const own = snapshot.runtimes.filter(runtime => runtime.person === snapshot.person);
    for (const runtime of own) {
      if (runtime.warned && runtime.ends_at !== null && runtime.state === 'running') {
        this._warn(runtime, runtime.ends_at);
      } else {
        this._dismiss(runtime.id);
      }
      const panel = panelOf(runtime, this._notebooks);
      const session = panel?.sessionContext.session?.id;
      if (panel && session) {
        this._openNotebooks.set(runtime.id, { panel, session });
      }
    }
    this._reportEnded(snapshot);
    this._previous = snapshot;
  }

  private _warn(runtime: Runtime, endsAt: number): void {
    const notebook = notebookName(runtime.notebook);
    const duration = formatDuration(endsAt - this._live.now());
    const reason = runtime.ends_why;
    const message = reason
      ? text('The runtime of {notebook} ends in {duration}: {reason}.', { notebook, duration, reason })
      : text('The runtime of {notebook} ends in {duration}.', { notebook, duration });
    const shown = this._warnings.get(runtime.id);
    if (shown === undefined) {
      const actions = runtime.may_extend ? [{ label: text('Extend'), callback: () => this._extend(runtime.id) }] : [];
      this._warnings.set(runtime.id, { id: Notification.warning(message, { autoClose: false, actions }), message });
    } else if (shown.message !== message) {
      shown.message = message;
      Notification.update({ id: shown.id, message }); // has no effect if the user closed it
    }
  }

  private _dismiss(id: string): void {
    const shown = this._warnings.get(id);
    if (shown !== undefined) {
      Notification.dismiss(shown.id);
      this._warnings.delete(id);
    }
  }

  private _reportEnded(snapshot: Snapshot): void {
    const present = new Set(snapshot.runtimes.map(runtime => runtime.id));
    for (const ended of this._previous?.runtimes ?? []) {
      if (ended.person !== snapshot.person || present.has(ended.id)) {
        continue;
      }
      this._dismiss(ended.id);
      if (ended.ends_at !== null && ended.ends_at <= snapshot.at + TOLERANCE_SECONDS) {
        Notification.info(describeEnded(ended), { autoClose: false });
      } else {
        const open = this._openNotebooks.get(ended.id);
        window.setTimeout(() => open && this._reportStopped(ended, open), STOP_NOTICE_DELAY_MS);
      }
      this._openNotebooks.delete(ended.id);
    }
  }

  /** Notify, unless this page stopped the runtime or the notebook has another one. */
  private _reportStopped(ended: Runtime, { panel, session }: IOpenNotebook): void {
    const runtimes = this._live.current?.runtimes ?? [];
    const continues = runtimes.some(runtime => runtime.id === ended.id || (runtime.person === ended.person && runtime.notebook === ended.notebook));
    if (!panel.isDisposed && !continues && !this._ownShutdowns.has(ended.id) && !this._ownShutdowns.has(session)) {
      Notification.info(text('The runtime of {notebook} was stopped.', { notebook: notebookName(ended.notebook) }), { autoClose: false });
    }
  }

  /** Runtime -> its notebook, if that is open in this page. */
  private readonly _openNotebooks = new Map<string, IOpenNotebook>();
  /** Runtime -> its warning. */
  private readonly _warnings = new Map<string, { id: string; message: string }>();
  private _previous: Snapshot | null = null;
}

function describeEnded(runtime: Runtime): string {
  const notebook = notebookName(runtime.notebook);
  const reason = runtime.ends_why;
  return sentences(
    reason
      ? text('The runtime of {notebook} was ended: {reason}.', { notebook, reason })
      : text('The runtime of {notebook} was ended.', { notebook }),
    text('Its variables are lost. The notebook and your files are kept.')
  );
}
