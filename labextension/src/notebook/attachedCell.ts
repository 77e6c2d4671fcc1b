/** Shows executions in cells that this page did not start itself, as if it had. */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Stdin } from '@jupyterlab/outputarea';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { PartialJSONObject } from '@lumino/coreutils';
import { Panel, type Widget } from '@lumino/widgets';
import type { IExecution } from '../api';

export type ExecuteFuture = Kernel.IShellFuture<KernelMessage.IExecuteRequestMsg, KernelMessage.IExecuteReplyMsg>;

type Hook = (message: KernelMessage.IIOPubMessage) => boolean;

/** Return the code cell with an id. */
export function findCell(panel: NotebookPanel, id: string | null): CodeCell | undefined {
  return codeCells(panel).find(cell => cell.model.id === id);
}

/** Return the cell that shows an execution. */
export function cellOfExecution(panel: NotebookPanel, execution: string): CodeCell | undefined {
  return codeCells(panel).find(cell => cell.outputArea.future?.msg.header.msg_id === execution);
}

/** Return whether a cell no longer shows an execution of this kernel, although one may be running. */
export function hasLostExecution(cell: CodeCell): boolean {
  const { future } = cell.outputArea;
  return !future || future.isDisposed;
}

/** Return all code cells; each has a widget, also if it is not rendered. */
export function codeCells(panel: NotebookPanel): CodeCell[] {
  return panel.isDisposed ? [] : (panel.content.widgets.filter(cell => cell.model.type === 'code') as CodeCell[]);
}

/** Show an execution in a cell from its start, as CodeCell.execute does, without sending the request again. */
export function showExecution(panel: NotebookPanel, kernel: Kernel.IKernelConnection, cell: CodeCell, execution: IExecution, hook: Hook): void {
  const { model, outputArea } = cell;
  const { header, metadata, content } = execution.request;
  const before = outputArea.future;
  const isSame = before?.msg.header.msg_id === execution.msg_id && !before.isDisposed;
  model.sharedModel.transact(() => model.clearExecution(), false, 'silent-change');
  model.executionState = 'running';
  model.trusted = true;
  if (isSame) {
    // The future continues. Input boxes are not outputs, so clearing the outputs does not remove them.
    [...outputArea.widgets].forEach(widget => widget.dispose());
    return;
  }
  const request: KernelMessage.IExecuteRequestMsg = { channel: 'shell', header, metadata, content, parent_header: {}, buffers: [] };
  // First the old future: disposing it removes everything registered under the same message id.
  before?.dispose();
  const future = kernel.sendShellMessage<'execute_request'>(request, true, false) as ExecuteFuture;
  outputArea.future = future;
  future.registerMessageHook(hook);
  recordExecution(panel, execution, future);
}

/** Record count and timing. Look up the cell each time: undoing a deletion creates another widget for the same cell. */
function recordExecution(panel: NotebookPanel, { cell: id, request, msg_id }: IExecution, future: ExecuteFuture): void {
  const recordsTiming = request.metadata['recordTiming'] === true;
  const record = (entries: PartialJSONObject): void => {
    const model = cellOfExecution(panel, msg_id)?.model;
    if (recordsTiming && model) {
      model.setMetadata('execution', { ...(model.getMetadata('execution') as PartialJSONObject | undefined), ...entries });
    }
  };
  future.registerMessageHook(({ header, content }) => {
    if (header.msg_type === 'execute_input') {
      record({ 'iopub.execute_input': header.date });
    } else if (header.msg_type === 'status') {
      record({ [`iopub.status.${(content as KernelMessage.IStatusMsg['content']).execution_state}`]: header.date });
    }
    return true;
  });
  future.done.then(
    reply => {
      const cell = cellOfExecution(panel, msg_id);
      if (cell) {
        cell.model.executionCount = reply.content.execution_count ?? null;
        cell.model.executionState = 'idle';
        const { started } = reply.metadata;
        record({ ...(started ? { 'shell.execute_reply.started': started } : {}), 'shell.execute_reply': reply.header.date });
      }
    },
    () => {
      // The kernel restarts, or the cell is executed again: JupyterLab cancels the future.
      const cell = findCell(panel, id);
      if (cell?.outputArea.future === future) {
        cell.model.executionState = 'idle';
      }
    }
  );
}

/** Close a cell's input box as JupyterLab does on Enter. The caller mutes the reply that this would send to the kernel. */
export function closeInputBox(cell: CodeCell, value: string | null): void {
  for (const row of cell.outputArea.widgets) {
    const box = row instanceof Panel ? row.widgets.find(isStdin) : undefined;
    const input = box?.node.querySelector('input');
    if (box && input) {
      input.value = value ?? '';
      // Call the handler: a cell that is scrolled out of view is not in the document and receives no events.
      box.handleEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    }
  }
}

function isStdin(widget: Widget): widget is Stdin {
  return widget.hasClass('jp-Stdin');
}
