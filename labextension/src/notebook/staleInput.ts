/**
 * Boxes of `input()` whose cell has ended without an answer, since it was interrupted.
 *
 * JupyterLab leaves them, with the keyboard in them; and if somebody else interrupted the cell, it runs no other because of them.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Cell, CodeCell } from '@jupyterlab/cells';

const BOX = 'jp-OutputArea-stdin-item';
/** An answered one, which JupyterLab itself removes a little later. */
const ANSWERED = 'jp-OutputArea-stdin-hiding';

/** Remove them from a cell that has ended; if the keyboard was in one, it is in the notebook afterwards. */
export function removeStaleInput(cell: Cell, sessionContext: ISessionContext | undefined): void {
  if (cell.isDisposed || cell.model.type !== 'code') {
    return;
  }
  const boxes = (cell as CodeCell).outputArea.widgets.filter(widget => widget.hasClass(BOX) && !widget.hasClass(ANSWERED));
  const hadFocus = boxes.some(box => box.node.contains(document.activeElement));
  boxes.forEach(box => box.dispose());
  if (boxes.length > 0) {
    sessionContext?.session?.kernel?.removeInputGuard();
  }
  if (hadFocus) {
    cell.node.closest<HTMLElement>('.jp-Notebook')?.focus({ preventScroll: true });
  }
}
