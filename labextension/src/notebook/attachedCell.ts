/** A cell whose execution this page did not begin itself: it is shown as if it had. */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Stdin } from '@jupyterlab/outputarea';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { PartialJSONObject } from '@lumino/coreutils';
import { Panel, type Widget } from '@lumino/widgets';
import type { IExecution } from '../api';

export type ExecuteFuture = Kernel.IShellFuture<KernelMessage.IExecuteRequestMsg, KernelMessage.IExecuteReplyMsg>;

type Hook = (message: KernelMessage.IIOPubMessage) => boolean;

/** The code cell with an id. */
export function cellOf(panel: NotebookPanel, id: string | null): CodeCell | undefined {
  return codeCells(panel).find(cell => cell.model.id === id);
}

/** The cell that shows an execution. */
export function cellShowing(panel: NotebookPanel, execution: string): CodeCell | undefined {
  return codeCells(panel).find(cell => cell.outputArea.future?.msg.header.msg_id === execution);
}

/** Whether a cell shows no execution of this kernel any more, though one may be under way. */
export function isLost(cell: CodeCell): boolean {
  const { future } = cell.outputArea;
  return !future || future.isDisposed;
}

/** Widgets are there for all cells, whether they are drawn or not. */
export function codeCells(panel: NotebookPanel): CodeCell[] {
  return panel.isDisposed ? [] : (panel.content.widgets.filter(cell => cell.model.type === 'code') as CodeCell[]);
}

/** Let a cell show an execution from its beginning, as CodeCell.execute does. The request itself is not sent again. */
export function adopt(panel: NotebookPanel, kernel: Kernel.IKernelConnection, cell: CodeCell, execution: IExecution, guard: Hook): void {
  const { model, outputArea } = cell;
  const { header, metadata, content } = execution.request;
  const before = outputArea.future;
  const isShown = before?.msg.header.msg_id === execution.msg_id && !before.isDisposed;
  model.sharedModel.transact(() => model.clearExecution(), false, 'silent-change');
  model.executionState = 'running';
  model.trusted = true;
  if (isShown) {
    // Its future goes on; boxes for input are no outputs, and would stay.
    [...outputArea.widgets].forEach(widget => widget.dispose());
    return;
  }
  const request: KernelMessage.IExecuteRequestMsg = { channel: 'shell', header, metadata, content, parent_header: {}, buffers: [] };
  // Before the new one: it takes what is registered under its message's id with it.
  before?.dispose();
  const future = kernel.sendShellMessage<'execute_request'>(request, true, false) as ExecuteFuture;
  outputArea.future = future;
  future.registerMessageHook(guard);
  keepBooks(panel, execution, future);
}

/** Count and times. Cells are found again each time: an undone deletion makes another widget of the same cell. */
function keepBooks(panel: NotebookPanel, { cell: id, request, msg_id }: IExecution, future: ExecuteFuture): void {
  const times = request.metadata['recordTiming'] === true;
  const note = (entries: PartialJSONObject): void => {
    const model = cellShowing(panel, msg_id)?.model;
    if (times && model) {
      model.setMetadata('execution', { ...(model.getMetadata('execution') as PartialJSONObject | undefined), ...entries });
    }
  };
  future.registerMessageHook(({ header, content }) => {
    if (header.msg_type === 'execute_input') {
      note({ 'iopub.execute_input': header.date });
    } else if (header.msg_type === 'status') {
      note({ [`iopub.status.${(content as KernelMessage.IStatusMsg['content']).execution_state}`]: header.date });
    }
    return true;
  });
  future.done.then(
    reply => {
      const cell = cellShowing(panel, msg_id);
      if (cell) {
        cell.model.executionCount = reply.content.execution_count ?? null;
        cell.model.executionState = 'idle';
        const { started } = reply.metadata;
        note({ ...(started ? { 'shell.execute_reply.started': started } : {}), 'shell.execute_reply': reply.header.date });
      }
    },
    () => {
      // The kernel restarts, or the cell is executed anew: JupyterLab cancels it.
      const cell = cellOf(panel, id);
      if (cell?.outputArea.future === future) {
        cell.model.executionState = 'idle';
      }
    }
  );
}

/** Close a cell's box as JupyterLab does when a person presses Enter; what it says to the kernel by that is muted by the caller. */
export function answerIn(cell: CodeCell, value: string | null): void {
  for (const row of cell.outputArea.widgets) {
    const box = row instanceof Panel ? row.widgets.find(isStdin) : undefined;
    const input = box?.node.querySelector('input');
    if (box && input) {
      input.value = value ?? '';
      // Called, not dispatched: a cell out of sight is not in the document, and hears no events.
      box.handleEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    }
  }
}

function isStdin(widget: Widget): widget is Stdin {
  return widget.hasClass('jp-Stdin');
}
