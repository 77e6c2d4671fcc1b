/** Reports which executions of a notebook run to the page's prompts. */
import type { CodeCell, ICellModel } from '@jupyterlab/cells';
import type { RunStates } from '../cells/runStates';

/** A cell may get another model meanwhile: its deletion was undone, or the notebook was loaded again. */
const CHECK_MS = 1_000;

interface IRun {
  at: number;
  find: () => CodeCell | undefined;
  model: ICellModel | undefined;
}

export class RunTimes {
  constructor(private readonly _states: RunStates) {}

  /** A cell started. `find` returns its widget, which may change. */
  start(execution: string, at: number, find: () => CodeCell | undefined): void {
    this._running.set(execution, { at, find, model: undefined });
    this._timer ||= window.setInterval(() => this._check(), CHECK_MS);
    this._check();
  }

  /** `at`: when it ended; null: that is not known. */
  stop(execution: string, at: number | null): void {
    const model = this._running.get(execution)?.model;
    this._running.delete(execution);
    if (model) {
      this._states.stop(model, at);
    }
    if (this._running.size === 0) {
      window.clearInterval(this._timer);
      this._timer = 0;
    }
  }

  /** Stop all: the kernel or the notebook is gone. */
  clear(): void {
    [...this._running.keys()].forEach(execution => this.stop(execution, null));
  }

  private _check(): void {
    for (const run of this._running.values()) {
      const model = run.find()?.model;
      if (model !== run.model) {
        if (run.model) {
          this._states.stop(run.model, null);
        }
        run.model = model;
        if (model) {
          this._states.start(model, run.at);
        }
      }
    }
  }

  private readonly _running = new Map<string, IRun>();
  private _timer = 0;
}
