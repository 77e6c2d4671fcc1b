/** A cell's form together with the source that it was parsed from, and how it changes when a value is edited. */
import type { Field, Form } from '../records';

export interface ICellSource {
  source: string;
  /** The cell's metadata.cellView. */
  view: string | null;
}

export interface IParsedForm extends ICellSource {
  form: Form | null;
}

/** An edit of a text: replace `start` to `end`. */
export interface IEdit {
  start: number;
  end: number;
  text: string;
}

const MENTION = /#\s*@(?:param|title|markdown)/;

/** Return whether a source may contain a form. */
export function mayHaveForm(source: string): boolean {
  return MENTION.test(source);
}

/** Return a form's fields by name; if a name occurs twice, the second field has another key. */
export function fieldsOf(form: Form | null): Map<string, Field> {
  const found = new Map<string, Field>();
  for (const part of form?.parts ?? []) {
    if (part.part === 'field') {
      let key = part.name;
      while (found.has(key)) {
        key += "'";
      }
      found.set(key, part);
    }
  }
  return found;
}

export function isSameSource(one: ICellSource, other: ICellSource): boolean {
  return one.source === other.source && one.view === other.view;
}

/** Return the form after a field got another value. Later fields are moved, so that the next edit needs no server. */
export function withFieldValue(parsed: IParsedForm, field: Field, text: string): IParsedForm {
  const { source, form } = parsed;
  const shift = text.length - (field.end - field.start);
  const parts = form?.parts.map(part => {
    if (part.part !== 'field' || part.start < field.start) {
      return part;
    }
    return part.start === field.start && part.name === field.name
      ? { ...part, value: text, end: part.end + shift }
      : { ...part, start: part.start + shift, end: part.end + shift };
  });
  return {
    ...parsed,
    source: source.slice(0, field.start) + text + source.slice(field.end),
    form: form && parts ? { ...form, parts } : null
  };
}

/** Return the smallest edit that changes one text into another, so that the cursor in the code does not move. */
export function minimalEdit(before: string, after: string, at: number): IEdit {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) {
    tail += 1;
  }
  // Do not split a surrogate pair.
  if (head > 0 && isHigh(before, head - 1)) {
    head -= 1;
  }
  if (tail > 0 && isLow(before, before.length - tail)) {
    tail -= 1;
  }
  return { start: at + head, end: at + before.length - tail, text: after.slice(head, after.length - tail) };
}

function isHigh(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800;
}

function isLow(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}
