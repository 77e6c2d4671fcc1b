/** The form of one cell in one view of its notebook: it follows the source, and writes field values back to it. */
import type { CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import { Signal } from '@lumino/signaling';
import type { PanelLayout } from '@lumino/widgets';
import { endUndoStep } from '../cells/undoSteps';
import type { Form } from '../records';
import type { FormReader, IFormClient } from './formReader';
import { FormWidget, type IFormActions, type Rendermime } from './formWidget';
import { fieldsOf, type ICellSource, type IParsedForm, isSameSource, mayHaveForm, minimalEdit, withFieldValue } from './parsedForm';

/** Changes of an `auto` cell within this time run it once. */
const AUTO_RUN_DELAY_MS = 300;

/** What a form needs from its notebook. */
export interface INotebookRunner {
  /** Run a cell; `advance`: and select the next one. */
  run(cell: CodeCell, advance: boolean): void;
  /** Return the focus to the notebook, in command mode. */
  activate(cell: CodeCell): void;
}

export class CellForm implements IFormClient, IFormActions {
  constructor(
    readonly cell: CodeCell,
    private readonly _reader: FormReader,
    private readonly _runner: INotebookRunner,
    private readonly _rendermime: Rendermime
  ) {
    this._model = cell.model;
    this._model.sharedModel.changed.connect(this._onChanged, this);
    this._model.stateChanged.connect(this._onState, this);
    cell.disposed.connect(this.dispose, this);
    void cell.ready.then(() => this._render());
    this._refresh(true);
  }

  /** The form as last parsed; it may be older than the source. */
  get form(): Form | null {
    return this._parsed?.form ?? null;
  }

  /** The current source; null if it cannot contain a form. */
  get cellSource(): ICellSource | null {
    if (this._disposed) {
      return null;
    }
    const view: unknown = this._model.getMetadata('cellView');
    const source = this._model.sharedModel.getSource();
    return mayHaveForm(source) ? { source, view: typeof view === 'string' ? view : null } : null;
  }

  /** Called with the server's response; one about an older source is ignored. */
  onParsed(parsed: IParsedForm): void {
    const cellSource = this.cellSource;
    if (cellSource && isSameSource(parsed, cellSource)) {
      this._apply(parsed);
    }
  }

  /** The user has run the cell: from now on `run: "auto"` applies. */
  markRun(): void {
    this._wasRun = true;
  }

  write(key: string, text: string): void {
    this._changed = true;
    const parsed = this._parsed;
    const cellSource = this.cellSource;
    const field = fieldsOf(this.form).get(key);
    if (!parsed || !field || !cellSource || !isSameSource(parsed, cellSource)) {
      this._pending.set(key, text);
      return;
    }
    const shared = this._model.sharedModel;
    if (this._lastField !== key) {
      this._lastField = key;
      endUndoStep(shared); // one undo step for each field, however quickly they are changed
    }
    this._parsed = withFieldValue(parsed, field, text);
    const edit = minimalEdit(field.value, text, field.start);
    shared.updateSource(edit.start, edit.end, edit.text);
  }

  commit(): void {
    this._lastField = '';
    if (this._changed && this._wasRun && this.form?.auto) {
      window.clearTimeout(this._autoTimer);
      this._autoTimer = window.setTimeout(() => this._runAuto(), AUTO_RUN_DELAY_MS);
    }
  }

  toggle(): void {
    const { form } = this;
    if (form) {
      this._model.setMetadata('cellView', form.hidden ? 'both' : 'form');
    }
  }

  run(advance: boolean): void {
    this._lastField = '';
    window.clearTimeout(this._autoTimer);
    this._changed = false;
    const run = (): void => this._runner.run(this.cell, advance);
    if (this._pending.size > 0) {
      this._afterParse = run;
    } else {
      run();
    }
  }

  undo(): void {
    this._lastField = '';
    this._model.sharedModel.undo();
  }

  redo(): void {
    this._lastField = '';
    this._model.sharedModel.redo();
  }

  leave(): void {
    this._runner.activate(this.cell);
  }

  /** The user wants to edit hidden code: focus the fields instead. */
  focusFirst(): void {
    if (!this._widget?.focusFirst()) {
      this.leave();
    }
  }

  dispose(): void {
    if (!this._disposed) {
      this._disposed = true;
      window.clearTimeout(this._autoTimer);
      this._reader.cancel(this);
      Signal.disconnectReceiver(this);
    }
  }

  private _onChanged(_: unknown, change: { sourceChange?: unknown; metadataChange?: unknown }): void {
    if (change.sourceChange || change.metadataChange) {
      this._refresh(false);
    }
  }

  private _onState(_: unknown, { name }: { name: string }): void {
    if (name === 'executionState' && this._runAgain && this._model.executionState === 'idle') {
      this._runAuto();
    }
  }

  /** Parse the form again if the source has changed. */
  private _refresh(now: boolean): void {
    const { cellSource } = this;
    if (!cellSource) {
      this._pending.clear();
      this._apply(null);
      return;
    }
    const known = this._reader.find(cellSource);
    if (known) {
      this._apply(known);
      return;
    }
    const parsed = this._parsed;
    if (parsed?.form && parsed.source === cellSource.source && cellSource.view !== null) {
      this._parsed = { ...cellSource, form: { ...parsed.form, hidden: cellSource.view === 'form' } };
    }
    this._render();
    this._reader.request(this, now);
  }

  private _apply(parsed: IParsedForm | null): void {
    this._parsed = parsed;
    this._render();
    const pending = [...this._pending];
    this._pending.clear();
    const fields = fieldsOf(this.form);
    for (const [key, text] of pending) {
      if (fields.has(key)) {
        this.write(key, text);
      }
    }
    const then = this._afterParse;
    this._afterParse = null;
    then?.();
  }

  private _render(): void {
    const { form, cellSource, cell } = this;
    if (this._disposed || cell.isDisposed) {
      return;
    }
    cell.toggleClass('ownlab-mod-form', form !== null);
    cell.toggleClass('ownlab-mod-codeHidden', form?.hidden ?? false);
    // A form without fields does not need half of the cell.
    cell.toggleClass('ownlab-mod-formAbove', form !== null && (form.vertical || fieldsOf(form).size === 0));
    if (form === null) {
      this._widget?.dispose();
      this._widget = null;
    } else if (!cell.isPlaceholder() && cell.inputArea) {
      this._widget ??= this._insert(cell.inputArea.layout as PanelLayout);
      const readOnly = this._model.getMetadata('editable') === false;
      const parsed = this._parsed;
      this._widget.setState({ form, readOnly, stale: !(cellSource && parsed && isSameSource(parsed, cellSource)) });
    }
  }

  /** Insert it between prompt and editor: the prompt stays visible if the code is hidden, and JupyterLab's collapser hides both. */
  private _insert(layout: PanelLayout): FormWidget {
    const widget = new FormWidget(this._rendermime, this);
    layout.insertWidget(1, widget);
    return widget;
  }

  private _runAuto(): void {
    if (this._disposed || !this._changed) {
      this._runAgain = false; // another run has taken the change along
      return;
    }
    this._runAgain = this._model.executionState !== 'idle';
    if (this._pending.size > 0) {
      this._afterParse = () => this._runAuto();
    } else if (!this._runAgain) {
      this._changed = false;
      this._runner.run(this.cell, false);
    }
  }

  private readonly _model: ICodeCellModel;
  private _parsed: IParsedForm | null = null;
  private _widget: FormWidget | null = null;
  /** Values entered while the source had changed; written once their places are known. */
  private readonly _pending = new Map<string, string>();
  private _afterParse: (() => void) | null = null;
  /** Key of the field that was written last. */
  private _lastField = '';
  private _wasRun = false;
  /** A field was changed since the cell was run. */
  private _changed = false;
  private _runAgain = false;
  private _autoTimer = 0;
  private _disposed = false;
}
