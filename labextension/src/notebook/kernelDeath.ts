/** Notes about a dead kernel in the outputs of cells. The server writes them (lab/journal/death.py); they go away when the cell runs again. */
import type { CodeCell } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import type { IDeathNote } from '../api';

/** The name of the note in the cell that was running; cells that waited have another one. */
const DIED = 'KernelDied';

/** Return why the kernel died while a cell was running; null: it did not. */
export function causeOfDeath(cell: CodeCell): string | null {
  const { outputs } = cell.model;
  for (let index = outputs.length - 1; index >= 0; index--) {
    const output = outputs.get(index);
    if (output.type === 'error') {
      const { ename, evalue } = output.toJSON() as nbformat.IError;
      if (ename === DIED) {
        return evalue;
      }
    }
  }
  return null;
}

/** Add a note to a cell's outputs. */
export function addNote(cell: CodeCell, { output }: IDeathNote): void {
  const outputs = cell.model.outputs as CodeCell['model']['outputs'] & { clearNext?: boolean };
  // A progress bar that clears with the next output: the note is no progress.
  outputs.clearNext = false;
  outputs.add(output);
  cell.model.executionState = 'idle';
  cell.outputHidden = false;
}
