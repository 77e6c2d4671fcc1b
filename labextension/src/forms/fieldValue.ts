/**
 * A field's value: from its source text to what a person sees, and from what a person gives to source text.
 *
 * The same as the server's `lab/colab/values.py`: tests hold both to one table. Here, because a field that is typed into
 * cannot wait for the server.
 */
import type { Field } from '../records';
import { isExpression, readNumber, readString, writeString } from './python';

const YES = ['true', 'yes', 'on', '1'];
const NO = ['false', 'no', 'off', '0'];
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** What the field shows: a string without its quotes, anything else as it stands in the source. */
export function shown(field: Field): string {
  const kind = kindOf(field);
  return kind === 'string' || kind === 'date' ? (readString(field.value) ?? field.value) : field.value;
}

/** What is given, as it is written into the source; null where the field does not take it. */
export function sourceText(field: Field, given: string): string | null {
  if (field.choices !== null && !field.allow_input && !field.choices.includes(given)) {
    return null;
  }
  const kind = kindOf(field);
  switch (kind) {
    case 'string':
      return writeString(given, field.value);
    case 'date':
      return isDate(given) ? writeString(given, field.value) : null;
    case 'boolean':
      return booleanText(given);
    case 'number':
    case 'integer':
    case 'slider':
      return numberText(field, given.trim(), kind === 'integer');
    default:
      return isExpression(given.trim()) ? given.trim() : null;
  }
}

/** Whether the field's type can show what the source says. Where it cannot, the source itself is shown. */
export function isOfType(field: Field): boolean {
  switch (kindOf(field)) {
    case 'string':
      return field.value === '' || readString(field.value) !== null;
    case 'date':
      return isDate(shown(field));
    case 'boolean':
      return field.value === 'True' || field.value === 'False';
    case 'number':
    case 'integer':
    case 'slider':
      return readNumber(field.value) !== null;
    default:
      return true;
  }
}

/** The same field as one that takes Python as it stands. */
export function asPython(field: Field): Field {
  return { ...field, type: 'raw', value_type: 'raw', choices: null };
}

function kindOf(field: Field): Field['type'] {
  return field.type === 'dropdown' ? field.value_type : field.type;
}

function isDate(given: string): boolean {
  const day = new Date(`${given}T00:00:00Z`);
  return DATE.test(given) && !given.startsWith('0000') && !Number.isNaN(day.valueOf()) && day.toISOString().startsWith(given);
}

function booleanText(given: string): string | null {
  const word = given.trim().toLowerCase();
  return YES.includes(word) ? 'True' : NO.includes(word) ? 'False' : null;
}

function numberText(field: Field, given: string, whole: boolean): string | null {
  const number = readNumber(given);
  if (number === null || (whole && !Number.isInteger(number.value))) {
    return null;
  }
  if ((field.min !== null && number.value < field.min) || (field.max !== null && number.value > field.max)) {
    return null;
  }
  return whole && number.float ? BigInt(number.value).toString() : given;
}
