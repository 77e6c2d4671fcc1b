/** What becomes of a cell after it was sent, if its runtime is stopped by another page, the command line or a limit. */
import { Notification } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { INotebookCellExecutor, INotebookModel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import type { ConnectionStates } from '../session/connectionState';
import type { OwnShutdowns } from '../session/ownShutdowns';
import { text } from '../text';
import type { Fate, NotRunReason } from './cellExecutor';

type RunOptions = INotebookCellExecutor.IRunCellOptions;

/** Called right after JupyterLab has sent a cell. Return a function that says what became of it, once it was cancelled. */
export function watchSentCell({ cell, sessionContext }: RunOptions, connections: ConnectionStates, ownShutdowns: OwnShutdowns): () => Fate {
  const session = sessionContext?.session;
  const kernel = session?.kernel;
  const future = (cell as CodeCell).outputArea.future;
  const state = kernel && connections.find(kernel.id, kernel.clientId);
  if (!sessionContext || !kernel || !state || !future) {
    return () => 'cancelled';
  }
  let started = false;
  const hook = (message: KernelMessage.IIOPubMessage): boolean => {
    started ||= message.header.msg_type === 'execute_input';
    return true;
  };
  if (!future.isDisposed) {
    future.registerMessageHook(hook);
  }
  const request = future.msg.header.msg_id;
  return () => {
    const isGone = kernel.status === 'dead' || kernel.isDisposed;
    const isChanged = sessionContext.kernelDisplayStatus === 'starting'; // to another type, by this page
    if (!isGone || isChanged || started || ownShutdowns.has(kernel.id) || ownShutdowns.has(session.id)) {
      return 'cancelled';
    }
    return state.outbox.has(request) ? 'unsent' : state.died ? 'cancelled' : 'stopped';
  };
}

/** Cells that are refused together get one notice. */
const ONE_NOTICE_MS = 2_000;

export class NotRunNotices {
  /** Say that cells were not run, unless the user knows already. */
  show(reason: NotRunReason, { notebook }: RunOptions): void {
    const now = Date.now();
    if (reason === 'not-connected' || now - (this._shownAt.get(notebook) ?? 0) < ONE_NOTICE_MS) {
      return;
    }
    this._shownAt.set(notebook, now);
    const message =
      reason === 'stopped'
        ? text('The runtime was stopped before the cell ran. Run the cell again to connect to a new runtime.')
        : text('The cell was not run: the runtime did not become ready within a minute. Run the cell again.');
    Notification.warning(message, { autoClose: false });
  }

  private readonly _shownAt = new WeakMap<INotebookModel, number>();
}
