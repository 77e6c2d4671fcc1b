/**
 * One field of a form: a label and a control.
 *
 * Plain DOM instead of React: a notebook may have hundreds of fields, each in a tree of its own, and a focused control must
 * not be touched while everything around it is rendered again.
 */
import { Widget } from '@lumino/widgets';
import type { Field } from '../records';
import { asRawField, displayValue, matchesType, sourceText } from './fieldValue';

/** The kind of control; it depends on the field's type and on the value in the source. */
type Control = 'text' | 'code' | 'number' | 'checkbox' | 'slider' | 'date' | 'select' | 'combo';

type Entry = HTMLInputElement | HTMLSelectElement;

/** What <input type="number"> can hold: it shows anything else as empty. */
const PLAIN_NUMBER = /^-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?$/;

let counter = 0;

export class FieldRow extends Widget {
  /** `write` is called with the source text of a value that the user entered. */
  constructor(
    readonly key: string,
    field: Field,
    write: (text: string) => void
  ) {
    super();
    this._field = field;
    this._write = write;
    this._control = controlOf(field);
    this.addClass('ownlab-Form-row');
    this.addClass(`ownlab-mod-${this._control}`);
    counter += 1;
    this._entry = this._control === 'select' ? document.createElement('select') : document.createElement('input');
    this._entry.id = `ownlab-field-${counter}`;
    this._entry.className = 'ownlab-Form-entry';
    this._build();
    this._showValue();
    this.node.addEventListener('input', this);
    this.node.addEventListener('focusout', this);
  }

  /** Show another value of the same field. Return false if it needs another row. A focused control is not replaced. */
  setField(field: Field): boolean {
    const before = this._field;
    const focused = this.node.contains(document.activeElement);
    if (!isSameField(field, before) || (!focused && controlOf(field) !== this._control)) {
      return false;
    }
    this._field = field;
    // The input may not be in the source yet, or be incomplete: "1e" on the way to "1e3".
    if (!focused || (field.value !== before.value && sourceText(this._rules, this._input) !== field.value)) {
      this._showValue();
    }
    return true;
  }

  /** Whether the control no longer suits the value, and was kept only because it had the focus. */
  get isOutdated(): boolean {
    return controlOf(this._field) !== this._control;
  }

  handleEvent(event: Event): void {
    if (event.type === 'focusout') {
      if (this._invalid) {
        this._showValue(); // discard invalid input
      }
      return;
    }
    if (this._range && event.target === this._range) {
      this._entry.value = this._range.value;
    }
    const text = sourceText(this._rules, this._input);
    this._invalid = text === null;
    if (text !== null) {
      if (this._range && event.target !== this._range) {
        this._range.value = this._entry.value;
      }
      if (text !== this._field.value) {
        this._write(text);
      }
    }
  }

  /** The field that determines how the input is converted to source text. */
  private get _rules(): Field {
    const field = this._field;
    const choice = field.choices?.includes(this._input) ?? false;
    return this._control === 'code' || (this._control === 'combo' && !choice && this._verbatim) ? asRawField(field) : field;
  }

  private get _input(): string {
    if (this._control === 'checkbox') {
      return (this._entry as HTMLInputElement).checked ? 'True' : 'False';
    }
    return this._entry.value;
  }

  private set _invalid(invalid: boolean) {
    this.node.classList.toggle('ownlab-mod-invalid', invalid);
    this._entry.setAttribute('aria-invalid', String(invalid));
  }

  private get _invalid(): boolean {
    return this.node.classList.contains('ownlab-mod-invalid');
  }

  private _showValue(): void {
    const field = this._field;
    this._verbatim = !matchesType(field);
    this._invalid = false;
    const text = this._control === 'code' ? field.value : displayValue(field);
    if (this._entry instanceof HTMLSelectElement) {
      this._selectChoice(this._entry, text);
    } else if (this._control === 'checkbox') {
      this._entry.checked = field.value === 'True';
    } else if (this._entry.value !== text) {
      this._entry.value = text;
    }
    if (this._range) {
      this._range.value = field.value;
    }
  }

  /** A value that is not one of the choices is shown as long as it is in the source. */
  private _selectChoice(entry: HTMLSelectElement, text: string): void {
    const choices = this._field.choices ?? [];
    const known = !this._verbatim && choices.includes(text);
    entry.querySelector('.ownlab-Form-other')?.remove();
    if (!known) {
      const other = new Option(text, text);
      other.className = 'ownlab-Form-other';
      entry.prepend(other);
    }
    entry.selectedIndex = known ? choices.indexOf(text) : 0;
  }

  private _build(): void {
    const field = this._field;
    const label = document.createElement('label');
    label.className = 'ownlab-Form-label';
    label.htmlFor = this._entry.id;
    label.textContent = `${field.name}:`;
    label.title = field.name;
    this.node.append(label);
    if (this._entry instanceof HTMLSelectElement) {
      this._entry.append(...(field.choices ?? []).map(choice => new Option(choice, choice)));
      this.node.append(this._entry);
    } else {
      this._buildInput(this._entry);
    }
  }

  private _buildInput(entry: HTMLInputElement): void {
    const field = this._field;
    const control = this._control;
    entry.type = control === 'checkbox' || control === 'date' ? control : control === 'number' || control === 'slider' ? 'number' : 'text';
    entry.placeholder = field.placeholder ?? '';
    entry.autocomplete = 'off';
    entry.spellcheck = false;
    entry.dataset.jpSuppressContextMenu = ''; // keep the browser's own menu, which can paste
    this.node.classList.toggle('ownlab-mod-python', control === 'code' || field.type === 'raw' || field.value_type === 'raw');
    if (entry.type === 'number') {
      limit(entry, field);
    }
    if (control === 'slider') {
      this._range = document.createElement('input');
      this._range.type = 'range';
      this._range.setAttribute('aria-label', field.name);
      limit(this._range, field);
      this.node.append(this._range);
    }
    if (control === 'combo') {
      const list = document.createElement('datalist');
      list.id = `${entry.id}-choices`;
      list.append(...(field.choices ?? []).map(choice => new Option(choice, choice)));
      entry.setAttribute('list', list.id);
      this.node.append(list);
    }
    this.node.append(entry);
  }

  private _field: Field;
  private readonly _write: (text: string) => void;
  private readonly _control: Control;
  private readonly _entry: Entry;
  private _range: HTMLInputElement | null = null;
  /** The type cannot represent the value in the source, which is shown as Python code. */
  private _verbatim = false;
}

function controlOf(field: Field): Control {
  if (field.choices !== null) {
    return field.allow_input ? 'combo' : 'select';
  }
  if (!matchesType(field)) {
    return 'code';
  }
  switch (field.type) {
    case 'boolean':
      return 'checkbox';
    case 'slider':
    case 'number':
    case 'integer':
      return !PLAIN_NUMBER.test(field.value) ? 'text' : field.type === 'slider' ? 'slider' : 'number';
    case 'date':
      return 'date';
    default:
      return 'text';
  }
}

function limit(entry: HTMLInputElement, field: Field): void {
  entry.min = field.min === null ? '' : String(field.min);
  entry.max = field.max === null ? '' : String(field.max);
  entry.step = field.step !== null ? String(field.step) : field.type === 'integer' ? '1' : 'any';
}

/** Compare everything but the value and its place. */
function isSameField(one: Field, other: Field): boolean {
  const rest = ({ value: _value, line: _line, start: _start, end: _end, ...kept }: Field): string => JSON.stringify(kept);
  return rest(one) === rest(other);
}
