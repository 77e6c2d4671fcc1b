/** The form of one cell in one view of its notebook: what the source says now, and how fields are written back to it. */
import type { CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import { Signal } from '@lumino/signaling';
import type { PanelLayout } from '@lumino/widgets';
import type { Form } from '../records';
import type { IAsker, Reader } from './formReader';
import { FormWidget, type IFormActions, type Rendermime } from './formWidget';
import { fieldsOf, type IQuestion, type IReading, isSame, leastEdit, mentionsForm, rewritten } from './parsedForm';

/** Several changes of an `auto` cell within this time are one. */
const AUTO_PAUSE = 300;

/** What a form needs of its notebook. */
export interface IRunner {
  /** `advance`: and go to the next one. */
  run(cell: CodeCell, advance: boolean): void;
  /** The notebook takes the keyboard back. */
  activate(cell: CodeCell): void;
}

export class CellForm implements IAsker, IFormActions {
  constructor(
    readonly cell: CodeCell,
    private readonly _reader: Reader,
    private readonly _runner: IRunner,
    private readonly _rendermime: Rendermime
  ) {
    this._model = cell.model;
    this._model.sharedModel.changed.connect(this._onChanged, this);
    this._model.stateChanged.connect(this._onState, this);
    cell.disposed.connect(this.dispose, this);
    void cell.ready.then(() => this._draw());
    this._look(true);
  }

  /** The form as the cell has it, or had it a moment ago. */
  get form(): Form | null {
    return this._reading?.form ?? null;
  }

  /** What the cell is now; null: nothing that could be a form. */
  get question(): IQuestion | null {
    if (this._disposed) {
      return null;
    }
    const view: unknown = this._model.getMetadata('cellView');
    const source = this._model.sharedModel.getSource();
    return mentionsForm(source) ? { source, view: typeof view === 'string' ? view : null } : null;
  }

  /** An answer of the server; one about an older source is of no use. */
  answered(reading: IReading): void {
    const question = this.question;
    if (question && isSame(reading, question)) {
      this._take(reading);
    }
  }

  /** A person ran it: from now on `run: "auto"` holds. */
  ran(): void {
    this._ran = true;
  }

  write(key: string, text: string): void {
    this._changed = true;
    const reading = this._reading;
    const question = this.question;
    const field = fieldsOf(this.form).get(key);
    if (!reading || !field || !question || !isSame(reading, question)) {
      this._pending.set(key, text);
      return;
    }
    const shared = this._model.sharedModel;
    if (this._last !== key) {
      this._last = key;
      endUndoStep(shared); // one step for each field, however quickly they follow each other
    }
    this._reading = rewritten(reading, field, text);
    const edit = leastEdit(field.value, text, field.start);
    shared.updateSource(edit.start, edit.end, edit.text);
  }

  commit(): void {
    this._last = '';
    if (this._changed && this._ran && this.form?.auto) {
      window.clearTimeout(this._auto);
      this._auto = window.setTimeout(() => this._runAuto(), AUTO_PAUSE);
    }
  }

  toggle(): void {
    const { form } = this;
    if (form) {
      this._model.setMetadata('cellView', form.hidden ? 'both' : 'form');
    }
  }

  run(advance: boolean): void {
    this._last = '';
    window.clearTimeout(this._auto);
    this._changed = false;
    const run = (): void => this._runner.run(this.cell, advance);
    if (this._pending.size > 0) {
      this._then = run;
    } else {
      run();
    }
  }

  undo(): void {
    this._last = '';
    this._model.sharedModel.undo();
  }

  redo(): void {
    this._last = '';
    this._model.sharedModel.redo();
  }

  leave(): void {
    this._runner.activate(this.cell);
  }

  /** Somebody wants to edit code that is hidden: the fields are what can be edited. */
  enter(): void {
    if (!this._widget?.enter()) {
      this.leave();
    }
  }

  dispose(): void {
    if (!this._disposed) {
      this._disposed = true;
      window.clearTimeout(this._auto);
      this._reader.forget(this);
      Signal.disconnectReceiver(this);
    }
  }

  private _onChanged(_: unknown, change: { sourceChange?: unknown; metadataChange?: unknown }): void {
    if (change.sourceChange || change.metadataChange) {
      this._look(false);
    }
  }

  private _onState(_: unknown, { name }: { name: string }): void {
    if (name === 'executionState' && this._again && this._model.executionState === 'idle') {
      this._runAuto();
    }
  }

  /** Compare what is known with what the cell is now. */
  private _look(now: boolean): void {
    const { question } = this;
    if (!question) {
      this._pending.clear();
      this._take(null);
      return;
    }
    const known = this._reader.find(question);
    if (known) {
      this._take(known);
      return;
    }
    const reading = this._reading;
    if (reading?.form && reading.source === question.source && question.view !== null) {
      this._reading = { ...question, form: { ...reading.form, hidden: question.view === 'form' } };
    }
    this._draw();
    this._reader.ask(this, now);
  }

  private _take(reading: IReading | null): void {
    this._reading = reading;
    this._draw();
    const pending = [...this._pending];
    this._pending.clear();
    const fields = fieldsOf(this.form);
    for (const [key, text] of pending) {
      if (fields.has(key)) {
        this.write(key, text);
      }
    }
    const then = this._then;
    this._then = null;
    then?.();
  }

  private _draw(): void {
    const { form, question, cell } = this;
    if (this._disposed || cell.isDisposed) {
      return;
    }
    cell.toggleClass('ownlab-mod-form', form !== null);
    cell.toggleClass('ownlab-mod-codeHidden', form?.hidden ?? false);
    // A title alone needs no half of the cell.
    cell.toggleClass('ownlab-mod-formAbove', form !== null && (form.vertical || fieldsOf(form).size === 0));
    if (form === null) {
      this._widget?.dispose();
      this._widget = null;
    } else if (!cell.isPlaceholder() && cell.inputArea) {
      this._widget ??= this._insert(cell.inputArea.layout as PanelLayout);
      const readOnly = this._model.getMetadata('editable') === false;
      const reading = this._reading;
      this._widget.take({ form, readOnly, stale: !(question && reading && isSame(reading, question)) });
    }
  }

  /** Between prompt and editor: the prompt stays where the code is hidden, and JupyterLab's own collapser hides all. */
  private _insert(layout: PanelLayout): FormWidget {
    const widget = new FormWidget(this._rendermime, this);
    layout.insertWidget(1, widget);
    return widget;
  }

  private _runAuto(): void {
    if (this._disposed) {
      return;
    }
    this._again = this._model.executionState !== 'idle';
    if (this._pending.size > 0) {
      this._then = () => this._runAuto();
    } else if (!this._again) {
      this._changed = false;
      this._runner.run(this.cell, false);
    }
  }

  private readonly _model: ICodeCellModel;
  private _reading: IReading | null = null;
  private _widget: FormWidget | null = null;
  /** What was typed while the code had changed, and is written when it is known where. */
  private readonly _pending = new Map<string, string>();
  private _then: (() => void) | null = null;
  /** The field that was written last. */
  private _last = '';
  private _ran = false;
  /** A field was changed since the cell ran. */
  private _changed = false;
  private _again = false;
  private _auto = 0;
  private _disposed = false;
}

/** What comes next is another step of undo. */
function endUndoStep(shared: object): void {
  const { undoManager } = shared as { undoManager?: { stopCapturing(): void } | null };
  undoManager?.stopCapturing();
}
