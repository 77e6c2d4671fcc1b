/** Boxes of input(), when somebody answers in another browser. */
import type { CodeCell } from '@jupyterlab/cells';
import type { Stdin } from '@jupyterlab/outputarea';
import { Panel, type Widget } from '@lumino/widgets';

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
