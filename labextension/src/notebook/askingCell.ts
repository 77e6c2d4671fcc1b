/** Cells that wait for a person: for input(), or for the answer to a question of google.colab. */
import { Notification } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { INotebookCellExecutor } from '@jupyterlab/notebook';
import { text } from '../text';

/** What a person types or clicks in, in the outputs of a cell. */
const FIELDS = '.jp-Stdin-input:not(:disabled), .ownlab-Ask input:not([hidden]):not(:disabled), .ownlab-Ask button:not(:disabled)';

/** Return whether a cell that runs waits for an answer; then put the keyboard where it can be given, and say so. */
export function isAsking({ cell }: INotebookCellExecutor.IRunCellOptions): boolean {
  if ((cell as CodeCell).model.executionState !== 'running') {
    return false;
  }
  const field = (cell as CodeCell).outputArea.node.querySelector<HTMLElement>(FIELDS);
  if (field) {
    window.setTimeout(() => field.focus()); // JupyterLab selects the next cell first
    Notification.info(text('This cell waits for your answer below it. To run it again, interrupt it first.'), { autoClose: 8_000 });
  }
  return field !== null;
}
