/** The forms of one view of a notebook: one for each code cell that it has now. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { Cell, CodeCell, ICellModel } from '@jupyterlab/cells';
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { CellForm, type IRunner } from './cellForm';
import type { Reader } from './formReader';

export class NotebookForms implements IRunner {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _reader: Reader,
    private readonly _dialogs: ISessionContextDialogs | null
  ) {
    this._notebook = _panel.content;
    this._notebook.modelChanged.connect(this._onModel, this);
    this._notebook.stateChanged.connect(this._onState, this);
    NotebookActions.executionScheduled.connect(this._onRun, this);
    _panel.disposed.connect(() => Signal.disconnectReceiver(this));
    this._notebook.node.addEventListener('mousedown', event => this._onMouseDown(event));
    this._onModel();
  }

  /** The form of the cell that is active. */
  get active(): CellForm | undefined {
    return this._notebook.activeCell ? this._forms.get(this._notebook.activeCell) : undefined;
  }

  run(cell: CodeCell, advance: boolean): void {
    const notebook = this._notebook;
    const { sessionContext } = this._panel;
    const { mode } = notebook;
    if (advance) {
      this._choose(cell);
      void NotebookActions.runAndAdvance(notebook, sessionContext, this._dialogs ?? undefined);
      return;
    }
    void NotebookActions.runCells(notebook, [cell], sessionContext, this._dialogs ?? undefined);
    if (mode === 'edit') {
      notebook.mode = mode; // somebody has gone on in the code meanwhile
    }
  }

  activate(cell: CodeCell): void {
    this._choose(cell);
    this._notebook.mode = 'command';
    cell.node.focus();
  }

  private _choose(cell: CodeCell): void {
    this._notebook.deselectAll();
    this._notebook.activeCellIndex = this._notebook.widgets.indexOf(cell);
  }

  private _onState(_: unknown, { name, newValue }: { name: string; newValue: unknown }): void {
    if (name === 'mode' && newValue === 'edit' && this.active?.form?.hidden) {
      this.active.enter();
    }
  }

  /** A click beside a field, on the prompt or so: JupyterLab leaves the focus where it is, since that is in the same cell. */
  private _onMouseDown({ target }: MouseEvent): void {
    const used = document.activeElement?.closest('.ownlab-Form');
    const cell = used?.closest<HTMLElement>('.jp-Cell');
    if (cell && target instanceof Node && cell.contains(target) && !used?.contains(target)) {
      cell.focus();
    }
  }

  private _onModel(): void {
    this._notebook.model?.cells.changed.connect(this._onCells, this);
    this._onCells();
  }

  /** Often called many times at once: a notebook is read cell by cell. */
  private _onCells(): void {
    if (!this._due) {
      this._due = true;
      queueMicrotask(() => {
        this._due = false;
        this._sync();
      });
    }
  }

  private _sync(): void {
    if (this._notebook.isDisposed) {
      return;
    }
    for (const cell of this._notebook.widgets) {
      if (isCode(cell) && !this._forms.has(cell)) {
        this._forms.set(cell, new CellForm(cell, this._reader, this, this._notebook.rendermime));
        cell.disposed.connect(this._onGone, this);
      }
    }
  }

  private _onGone(cell: Cell): void {
    this._forms.delete(cell);
  }

  /** In whichever view it was run: cells of two views have one model. */
  private _onRun(_: unknown, { cell }: { cell: Cell<ICellModel> }): void {
    if (isCode(cell)) {
      for (const form of this._forms.values()) {
        if (form.cell.model === cell.model) {
          form.ran();
        }
      }
    }
  }

  private readonly _notebook: Notebook;
  private readonly _forms = new Map<Cell, CellForm>();
  private _due = false;
}

function isCode(cell: Cell): cell is CodeCell {
  return cell.model?.type === 'code';
}
