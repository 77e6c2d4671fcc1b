/** Before a limit ends a runtime: a warning, with one click for more time; after it: why it was ended. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { LiveSnapshot } from '../live';
import type { Runtime, Snapshot } from '../records';
import { commandIds, ILiveSnapshot } from '../tokens';
import { duration, notebookName } from '../words';

/** A runtime that vanished this long before its end may have been ended by it: snapshots are some seconds apart. */
const TOLERANCE_SECONDS = 3;

export const warnings: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:warnings',
  description: 'Warns before a limit ends a runtime, and says so when it did.',
  autoStart: true,
  requires: [ILiveSnapshot],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot) => {
    const warner = new Warner(live, id => void app.commands.execute(commandIds.extendRuntime, { id }));
    live.changed.connect(() => warner.look());
  }
};

class Warner {
  constructor(
    private readonly _live: LiveSnapshot,
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
      }
    }
  }

  /** Runtime -> its warning. */
  private readonly _shown = new Map<string, { id: string; message: string }>();
  private _before: Snapshot | null = null;
}

function because(why: string): string {
  return why ? `: ${why}` : '';
}
