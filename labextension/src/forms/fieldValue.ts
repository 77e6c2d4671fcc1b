/**
 * Converts a field's value between its source text and what the user sees and enters.
 *
 * Does the same as the server's Python code; tests check both against one table. It is here because typing into a field
 * cannot wait for the server.
 */
import type { Field } from '../records';
import { isExpression, readNumber, readString, writeString } from './python';

const YES = ['true', 'yes', 'on', '1'];
const NO = ['false', 'no', 'off', '0'];
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** Return what the field shows: a string without its quotes, anything else as in the source. */
export function displayValue(field: Field): string {
  const kind = kindOf(field);
  return kind === 'string' || kind === 'date' ? (readString(field.value) ?? field.value) : field.value;
}

/** Return input as source text; null if the field does not accept it. */
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

/** Return whether the field's type can represent the value in the source. If not, the source text itself is shown. */
export function matchesType(field: Field): boolean {
  switch (kindOf(field)) {
    case 'string':
      return field.value === '' || readString(field.value) !== null;
    case 'date':
      return isDate(displayValue(field));
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

/** Return the same field with a type that accepts any Python expression. */
export function asRawField(field: Field): Field {
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
