/** The forms of one view of a notebook, one for each code cell. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { Cell, CodeCell, ICellModel } from '@jupyterlab/cells';
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { CellForm, type INotebookRunner } from './cellForm';
import type { FormReader } from './formReader';

export class NotebookForms implements INotebookRunner {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _reader: FormReader,
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

  /** The form of the active cell. */
  get active(): CellForm | undefined {
    return this._notebook.activeCell ? this._forms.get(this._notebook.activeCell) : undefined;
  }

  run(cell: CodeCell, advance: boolean): void {
    const notebook = this._notebook;
    const { sessionContext } = this._panel;
    const { mode } = notebook;
    if (advance) {
      this._select(cell);
      void NotebookActions.runAndAdvance(notebook, sessionContext, this._dialogs ?? undefined);
      return;
    }
    void NotebookActions.runCells(notebook, [cell], sessionContext, this._dialogs ?? undefined);
    if (mode === 'edit') {
      notebook.mode = mode; // the user went on editing code
    }
  }

  activate(cell: CodeCell): void {
    this._select(cell);
    this._notebook.mode = 'command';
    cell.node.focus();
  }

  private _select(cell: CodeCell): void {
    this._notebook.deselectAll();
    this._notebook.activeCellIndex = this._notebook.widgets.indexOf(cell);
  }

  private _onState(_: unknown, { name, newValue }: { name: string; newValue: unknown }): void {
    if (name === 'mode' && newValue === 'edit' && this.active?.form?.hidden) {
      this.active.focusFirst();
    }
  }

  /** Take the focus from a field if the user clicks elsewhere in its cell: JupyterLab would leave it there. */
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

  /** Called once for each cell when a notebook is loaded: handle all at once. */
  private _onCells(): void {
    if (!this._syncPending) {
      this._syncPending = true;
      queueMicrotask(() => {
        this._syncPending = false;
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
        cell.disposed.connect(this._onCellDisposed, this);
      }
    }
  }

  private _onCellDisposed(cell: Cell): void {
    this._forms.delete(cell);
  }

  /** The cell may have been run in another view, which shares the model. */
  private _onRun(_: unknown, { cell }: { cell: Cell<ICellModel> }): void {
    if (isCode(cell)) {
      for (const form of this._forms.values()) {
        if (form.cell.model === cell.model) {
          form.markRun();
        }
      }
    }
  }

  private readonly _notebook: Notebook;
  private readonly _forms = new Map<Cell, CellForm>();
  private _syncPending = false;
}

function isCode(cell: Cell): cell is CodeCell {
  return cell.model?.type === 'code';
}
