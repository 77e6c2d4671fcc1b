/** Offers below the outputs of cells that failed for a reason that the page can fix. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import { codeCells } from './attachedCell';

/** An error as a kernel reports it, and as a notebook stores it. */
export interface IKernelError {
  ename: string;
  evalue: string;
  traceback: string[];
}

/** `find`: what is to be offered because of an error; null: nothing. `show` adds the offer to the cell. */
export class ErrorOffers<Reason> {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _find: (error: IKernelError) => Reason | null,
    private readonly _show: (cell: CodeCell, reason: Reason, decline: () => void) => Widget
  ) {
    _panel.sessionContext.iopubMessage.connect(this._onMessage, this);
    void _panel.revealed.then(() => this.update());
  }

  /** Called after JupyterLab has added an error to its cell. */
  private _onMessage(_: unknown, { header }: KernelMessage.IMessage): void {
    if (header.msg_type === 'error') {
      window.requestAnimationFrame(() => this.update());
    }
  }

  /** Show an offer in each cell that needs one, and remove those that are no longer needed. */
  update(): void {
    for (const cell of codeCells(this._panel)) {
      const offer = this._offers.get(cell);
      const reason = this._reasonOf(cell);
      if (reason === null) {
        offer?.dispose();
      } else if ((!offer || offer.isDisposed) && !this._declined.has(cell.model.id)) {
        this._offers.set(
          cell,
          this._show(cell, reason, () => this._declined.add(cell.model.id))
        );
      }
    }
  }

  private _reasonOf({ model: { outputs } }: CodeCell): Reason | null {
    for (let index = 0; index < outputs.length; index++) {
      const output = outputs.get(index).toJSON();
      const reason = output.output_type === 'error' ? this._find(output as unknown as IKernelError) : null;
      if (reason !== null) {
        return reason;
      }
    }
    return null;
  }

  private readonly _offers = new WeakMap<CodeCell, Widget>();
  /** Cells whose offer a person has dismissed in this page. */
  private readonly _declined = new Set<string>();
}

/** Errors that may be gone in a new kernel, which has another environment or mode. */
const IMPORT_ERRORS = ['ImportError', 'ModuleNotFoundError'];

/**
 * The cells above that have run, since a new kernel knows nothing of what they defined, and the cell itself. A cell that failed would
 * fail again, and end the run before it reaches the cell that somebody wants.
 */
export function cellsToRunAgain(panel: NotebookPanel, cell: CodeCell): CodeCell[] {
  const cells = codeCells(panel);
  return cells.slice(0, cells.indexOf(cell) + 1).filter(each => each === cell || (each.model.executionCount !== null && !hasFailed(each)));
}

/** Return whether a cell ended with an error that a new kernel would meet again. */
function hasFailed({ model: { outputs } }: CodeCell): boolean {
  for (let index = 0; index < outputs.length; index++) {
    const output = outputs.get(index).toJSON();
    if (output.output_type === 'error') {
      return !IMPORT_ERRORS.includes(String(output.ename));
    }
  }
  return false;
}

/** Run a cell again in a new kernel, behind what stood above it, or before that. `renew` gives the notebook this kernel. */
export async function runAgain(
  panel: NotebookPanel,
  cell: CodeCell,
  dialogs: ISessionContextDialogs | undefined,
  renew: () => Promise<unknown>,
  { first = false } = {}
): Promise<void> {
  const above = cellsToRunAgain(panel, cell).filter(each => each !== cell);
  const cells = first ? [cell, ...above] : [...above, cell];
  await renew();
  await NotebookActions.runCells(
    panel.content,
    cells.filter(each => !each.isDisposed),
    panel.sessionContext,
    dialogs
  );
}
