/** What a cell's form is, together with the exact text that it was read from; and what is left of it when a value changes. */
import type { Field, Form } from '../records';

export interface IQuestion {
  source: string;
  /** The cell's metadata.cellView. */
  view: string | null;
}

export interface IReading extends IQuestion {
  form: Form | null;
}

/** A change of a text: what stands from `start` to `end` is replaced. */
export interface IEdit {
  start: number;
  end: number;
  text: string;
}

const MENTION = /#\s*@(?:param|title|markdown)/;

/** Whether it is worth asking about a source at all. */
export function mentionsForm(source: string): boolean {
  return MENTION.test(source);
}

/** A form's fields by name; a name's second field has another key than its first. */
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

export function isSame(one: IQuestion, other: IQuestion): boolean {
  return one.source === other.source && one.view === other.view;
}

/** The reading after a field got another value: later places move, so that the next change needs no server. */
export function rewritten(reading: IReading, field: Field, text: string): IReading {
  const { source, form } = reading;
  const moved = text.length - (field.end - field.start);
  const parts = form?.parts.map(part => {
    if (part.part !== 'field' || part.start < field.start) {
      return part;
    }
    return part.start === field.start && part.name === field.name
      ? { ...part, value: text, end: part.end + moved }
      : { ...part, start: part.start + moved, end: part.end + moved };
  });
  return {
    ...reading,
    source: source.slice(0, field.start) + text + source.slice(field.end),
    form: form && parts ? { ...form, parts } : null
  };
}

/** The least that changes one text into another, so that a caret in the code stays where it is. */
export function leastEdit(before: string, after: string, at: number): IEdit {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) {
    tail += 1;
  }
  // Half of a character of two units must not be left alone.
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
