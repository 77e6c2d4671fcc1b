/**
 * Lets a cell wait until it can be sent to a kernel, and connects its notebook if it has none.
 *
 * JupyterLab drops a cell that is run while its kernel is being started, refuses one while a kernel is being shut down, and
 * asks which kernel to start if there is none.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { INotebookCellExecutor, INotebookModel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { NotRun } from './cellExecutor';

const CHECK_MS = 50;
/** For a kernel that is being restarted, replaced or shut down. Starting one takes as long as it takes. */
const MAX_WAIT_MS = 60_000;

/** Statuses in which a kernel is about to be replaced: JupyterLab forgets what is sent to it. */
const PASSING = ['restarting', 'autorestarting', 'terminating'];

/** Starts the runtime of a notebook; returns false if there is still none. */
export type Connect = (sessionContext: ISessionContext, model: INotebookModel) => Promise<boolean>;

export class KernelGate {
  /**
   * `isDying`: whether this page knows that a kernel has died or was stopped, and nothing about the next one.
   * `initialized`: resolved when it is known whether a notebook has a kernel.
   */
  constructor(
    private readonly _isDying: (kernel: Kernel.IKernelConnection) => boolean,
    private readonly _connect: Connect,
    private readonly _initialized: (sessionContext: ISessionContext) => Promise<void>
  ) {}

  /** Wait until the notebook of a cell has a kernel that takes requests; start one if there is none. Throws NotRun if that fails. */
  readonly pass = async ({ cell, notebook, sessionContext }: INotebookCellExecutor.IRunCellOptions): Promise<void> => {
    if (!sessionContext || this._canRun(sessionContext)) {
      return;
    }
    (cell as CodeCell).model.executionState = 'running'; // shows [*]
    let end = Date.now() + MAX_WAIT_MS;
    let isInitialized = false;
    void this._initialized(sessionContext).then(() => (isInitialized = true));
    while (!this._canRun(sessionContext) && !sessionContext.isDisposed && !cell.isDisposed && Date.now() < end) {
      if (isInitialized && needsKernel(sessionContext)) {
        if (!(await this._connect(sessionContext, notebook))) {
          break;
        }
        end = Date.now() + MAX_WAIT_MS;
      }
      await new Promise(done => window.setTimeout(done, CHECK_MS));
    }
    if (!cell.isDisposed && !this._canRun(sessionContext)) {
      (cell as CodeCell).model.executionState = 'idle';
      throw new NotRun(Date.now() < end ? 'not-connected' : 'too-late');
    }
  };

  private _canRun({ session, isTerminating, isRestarting, pendingInput }: ISessionContext): boolean {
    const kernel = session?.kernel;
    if (!kernel || isTerminating || isRestarting) {
      return false;
    }
    // A cell that asks for input: JupyterLab says so.
    return pendingInput || (kernel.status !== 'dead' && !PASSING.includes(kernel.status) && !kernel.isDisposed && !this._isDying(kernel));
  }
}

/** Return whether there is no kernel, and nobody starts one. */
function needsKernel({ session, hasNoKernel, isTerminating, isRestarting, kernelDisplayStatus }: ISessionContext): boolean {
  const isDead = session?.kernel?.status === 'dead' || session?.kernel?.isDisposed === true;
  // While its type is being changed, a notebook still has the old kernel, which is dead.
  const isChanging = isDead && kernelDisplayStatus === 'starting';
  return !isTerminating && !isRestarting && !isChanging && (hasNoKernel || isDead);
}
