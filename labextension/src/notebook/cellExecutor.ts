/** Runs cells as JupyterLab does, after what must happen first: there is a kernel, and their code is saved before it gets it. */
import type { INotebookCellExecutor, INotebookModel } from '@jupyterlab/notebook';

type RunOptions = INotebookCellExecutor.IRunCellOptions;

/** not-connected: no runtime was started, and the user knows why; too-late: it took too long; stopped: by somebody else. */
export type NotRunReason = 'not-connected' | 'too-late' | 'stopped';

/** Thrown by a gate: the cell must not run, and neither must those that wait behind it. */
export class NotRun extends Error {
  constructor(readonly reason: NotRunReason) {
    super(reason);
  }
}

/** Something that must happen before a code cell runs. A failure other than NotRun does not keep the cell from running. */
export type RunGate = (options: RunOptions) => Promise<unknown>;

/** What other plugins want to happen before a code cell runs. */
export class RunGates {
  /** Store in cells when they ran, also if JupyterLab's own setting does not. */
  recordTiming = false;

  /** Add a gate. Gates are passed one after another, in the order in which they were added. */
  add(gate: RunGate): void {
    this._gates.push(gate);
  }

  /** Wait for all gates. Throws NotRun. */
  async pass(options: RunOptions): Promise<void> {
    for (const gate of this._gates) {
      try {
        await gate(options);
      } catch (reason) {
        if (reason instanceof NotRun) {
          throw reason;
        }
        console.error('ownlab: a cell runs although something failed that should happen before', reason);
      }
    }
  }

  private readonly _gates: RunGate[] = [];
}

/** What became of a request that JupyterLab has cancelled. unsent: no runtime has got it; stopped: its runtime was stopped elsewhere. */
export type Fate = 'unsent' | 'stopped' | 'cancelled';

export interface ICellExecutorOptions {
  gates: RunGates;
  /** Whether a cell waits for a person, who is then shown where: running it again would hide the question, and wait behind it. */
  isAsking: (options: RunOptions) => boolean;
  /** Called when a cell is run, before it waits for anything. */
  called: (options: RunOptions) => void;
  /** JupyterLab's own function. */
  run: (options: RunOptions) => Promise<boolean>;
  /** Called when a cell was sent; the returned function is called if JupyterLab cancels it. */
  watch: (options: RunOptions) => () => Fate;
  /** Called once for all cells of a notebook that were not run. */
  report: (reason: NotRunReason, options: RunOptions) => void;
}

/** How often a cell is sent to a runtime that has just been stopped. */
const MAX_SENDS = 3;

export class CellExecutor implements INotebookCellExecutor {
  constructor(private readonly _options: ICellExecutorOptions) {}

  /** Run a cell. Cells of one notebook reach the kernel in the order of the calls, as Run All needs it. */
  async runCell(options: RunOptions): Promise<boolean> {
    const { run, watch } = this._options;
    if (options.cell.model.type !== 'code') {
      return run(options);
    }
    if (this._options.isAsking(options)) {
      return false;
    }
    this._options.called(options);
    for (let sends = 1; ; sends += 1) {
      if (!(await this._passGates(options)) || options.cell.isDisposed) {
        return false;
      }
      const running = run(options);
      const fate = watch(options);
      if (await succeeds(running, options)) {
        return true;
      }
      const cancelled = options.cell.isDisposed ? 'cancelled' : fate();
      if (cancelled === 'stopped') {
        this._report('stopped', options);
      }
      if (cancelled !== 'unsent' || sends === MAX_SENDS) {
        return false;
      }
    }
  }

  /** Return whether the cell may run now. If it may not, those that were run before this is known do not run either. */
  private async _passGates(options: RunOptions): Promise<boolean> {
    const queue = this._queues.get(options.notebook) ?? { last: Promise.resolve(), called: 0, refused: 0 };
    this._queues.set(options.notebook, queue);
    const number = ++queue.called;
    const passed = queue.last.then(async () => {
      if (number <= queue.refused) {
        return false;
      }
      try {
        await this._options.gates.pass(options);
        return true;
      } catch (reason) {
        queue.refused = queue.called;
        this._report(reason instanceof NotRun ? reason.reason : 'too-late', options);
        return false;
      }
    });
    queue.last = passed;
    return passed;
  }

  private _report(reason: NotRunReason, options: RunOptions): void {
    this._options.report(reason, options);
  }

  private readonly _queues = new WeakMap<INotebookModel, IQueue>();
}

/**
 * Return what JupyterLab's function does. It also rejects where a cell fails that is tagged as one which may; Run All would then take
 * the marks of all cells behind it, although they are in the kernel's queue and run.
 */
async function succeeds(running: Promise<boolean>, { cell }: RunOptions): Promise<boolean> {
  try {
    return await running;
  } catch (reason) {
    const tags: unknown = cell.model.getMetadata('tags');
    if (Array.isArray(tags) && tags.includes('raises-exception')) {
      return true;
    }
    throw reason;
  }
}

/** The cells of a notebook that have been run. */
interface IQueue {
  /** When the one that was run last has passed its gates. */
  last: Promise<unknown>;
  /** How many there were. */
  called: number;
  /** The number of the last one that must not run. */
  refused: number;
}
