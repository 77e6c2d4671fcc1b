/** Before a limit ends a runtime: a warning, with one click for more time; after it: why it was ended; and that one was stopped from elsewhere. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { duration, notebookName } from '../formatting';
import type { Runtime, Snapshot } from '../records';
import type { OwnEnds } from '../session/ownShutdowns';
import { commandIds, ILiveSnapshot, IOwnEnds } from '../tokens';
import { type LiveSnapshot, panelOf } from './liveSnapshot';

/** A runtime that vanished this long before its end may have been ended by it: snapshots are some seconds apart. */
const TOLERANCE_SECONDS = 3;

/** A runtime that is back within this time was not stopped. */
const SHORT_ABSENCE = 3_000;

interface IOpenNotebook {
  panel: NotebookPanel;
  session: string;
}

export const warnings: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:warnings',
  description: 'Warns before a limit ends a runtime, and says so when it did, or somebody elsewhere.',
  autoStart: true,
  requires: [ILiveSnapshot, IOwnEnds, INotebookTracker],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, ends: OwnEnds, notebooks: INotebookTracker) => {
    const warner = new Warner(live, ends, notebooks, id => void app.commands.execute(commandIds.extendRuntime, { id }));
    live.changed.connect(() => warner.look());
  }
};

class Warner {
  constructor(
    private readonly _live: LiveSnapshot,
    private readonly _ends: OwnEnds,
    private readonly _notebooks: INotebookTracker,
    private readonly _extend: (id: string) => void
  ) {}

  /** Called with each snapshot. */
  look(): void {
    const snapshot = this._live.current;
    if (!snapshot || snapshot === this._before) {
      return;
    }
    const yours = snapshot.runtimes.filter(one => one.person === snapshot.person);
    for (const runtime of yours) {
      if (runtime.warned && runtime.ends_at !== null && runtime.state === 'running') {
        this._warn(runtime, runtime.ends_at);
      } else {
        this._unwarn(runtime.id);
      }
      const panel = panelOf(runtime, this._notebooks);
      const session = panel?.sessionContext.session?.id;
      if (panel && session) {
        this._open.set(runtime.id, { panel, session });
      }
    }
    this._sayGone(snapshot);
    this._before = snapshot;
  }

  private _warn(runtime: Runtime, endsAt: number): void {
    const name = notebookName(runtime.notebook);
    const message = `The runtime of ${name} ends in ${duration(endsAt - this._live.now())}${because(runtime.ends_why)}.`;
    const shown = this._shown.get(runtime.id);
    if (shown === undefined) {
      const actions = runtime.may_extend ? [{ label: 'Extend', callback: () => this._extend(runtime.id) }] : [];
      this._shown.set(runtime.id, { id: Notification.warning(message, { autoClose: false, actions }), message });
    } else if (shown.message !== message) {
      shown.message = message;
      Notification.update({ id: shown.id, message }); // where it was closed by hand it stays closed
    }
  }

  private _unwarn(id: string): void {
    const shown = this._shown.get(id);
    if (shown !== undefined) {
      Notification.dismiss(shown.id);
      this._shown.delete(id);
    }
  }

  private _sayGone(snapshot: Snapshot): void {
    const still = new Set(snapshot.runtimes.map(one => one.id));
    for (const gone of this._before?.runtimes ?? []) {
      if (gone.person !== snapshot.person || still.has(gone.id)) {
        continue;
      }
      this._unwarn(gone.id);
      if (gone.ends_at !== null && gone.ends_at <= snapshot.at + TOLERANCE_SECONDS) {
        const name = notebookName(gone.notebook);
        Notification.info(
          `The runtime of ${name} was ended${because(gone.ends_why)}. Its variables are gone; the notebook and your files are kept.`,
          { autoClose: false }
        );
      } else {
        const open = this._open.get(gone.id);
        window.setTimeout(() => open && this._sayStopped(gone, open), SHORT_ABSENCE);
      }
      this._open.delete(gone.id);
    }
  }

  /** Not by this page, and not for another runtime of the same notebook. */
  private _sayStopped(gone: Runtime, { panel, session }: IOpenNotebook): void {
    const runtimes = this._live.current?.runtimes ?? [];
    const goesOn = runtimes.some(one => one.id === gone.id || (one.person === gone.person && one.notebook === gone.notebook));
    if (!panel.isDisposed && !goesOn && !this._ends.has(gone.id) && !this._ends.has(session)) {
      Notification.info(`The runtime of ${notebookName(gone.notebook)} was stopped.`, { autoClose: false });
    }
  }

  /** Runtime -> the notebook that has it, where that is open in this page. */
  private readonly _open = new Map<string, IOpenNotebook>();
  /** Runtime -> its warning. */
  private readonly _shown = new Map<string, { id: string; message: string }>();
  private _before: Snapshot | null = null;
}

function because(why: string): string {
  return why ? `: ${why}` : '';
}
