/** Python's literals of strings and numbers, read and written. */

export interface INumber {
  value: number;
  /** Written with a point or an exponent. */
  float: boolean;
}

const INTEGER = /^[-+]?\s*(?:0(?:_?0)*|[1-9](?:_?\d)*)$/;
const BASED = /^([-+]?)\s*(0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)$/;
const FLOAT = /^[-+]?\s*(?:\d(?:_?\d)*)?(?:\.(?:\d(?:_?\d)*)?)?(?:[eE][-+]?\d(?:_?\d)*)?$/;

/** null: no number, or none that is finite. */
export function readNumber(text: string): INumber | null {
  const based = BASED.exec(text);
  const digits = text.replace(/[_\s]/g, '');
  if (based) {
    const size = Number(based[2]?.replace(/_/g, ''));
    return finite(based[1] === '-' ? -size : size, false);
  }
  if (INTEGER.test(text)) {
    return finite(Number(digits), false);
  }
  return FLOAT.test(text) && /^[-+]?\.?\d/.test(digits) && /[.eE]/.test(digits) ? finite(Number(digits), true) : null;
}

function finite(value: number, float: boolean): INumber | null {
  return Number.isFinite(value) ? { value, float } : null;
}

const OPENED = /^([rRuU]?)("""|'''|"|')/;
const ESCAPE = /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|(N\{[^}]*\}|[\s\S]))/g;
const MEANT: Record<string, string> = {
  '\\': '\\', "'": "'", '"': '"', n: '\n', t: '\t', r: '\r', a: '\x07', b: '\b', f: '\f', v: '\v', '\n': ''
};

/** What a string literal says, or several beside each other; null: it is none, or one that only Python can read. */
export function readString(text: string): string | null {
  let rest = text.trim();
  let said = '';
  if (rest === '') {
    return null;
  }
  while (rest !== '') {
    const opened = OPENED.exec(rest);
    const quote = opened?.[2];
    const end = opened && quote ? closing(rest, opened[0].length, quote) : -1;
    if (!opened || !quote || end < 0) {
      return null;
    }
    const inner = rest.slice(opened[0].length, end);
    const one = /[rR]/.test(opened[1] ?? '') ? inner : unescaped(inner);
    if (one === null) {
      return null;
    }
    said += one;
    rest = rest.slice(end + quote.length).trimStart();
  }
  return said;
}

/** Where the string that was opened before `from` is closed; -1: nowhere on this line. */
export function closing(text: string, from: number, quote: string): number {
  for (let at = from; at < text.length; at += text[at] === '\\' ? 2 : 1) {
    if (text[at] === '\n' && quote.length === 1) {
      return -1;
    }
    if (text.startsWith(quote, at)) {
      return at;
    }
  }
  return -1;
}

function unescaped(inner: string): string | null {
  let known = true;
  const text = inner.replace(ESCAPE, (all, octal?: string, two?: string, four?: string, eight?: string, other?: string) => {
    const code = octal ? parseInt(octal, 8) : parseInt(two ?? four ?? eight ?? '', 16);
    if (other === undefined) {
      known &&= code <= 0x10ffff;
      return known ? String.fromCodePoint(code) : all;
    }
    // A name of Unicode's, or too few digits: Python knows what becomes of it.
    known &&= !/^N\{|^[xuUN]$/.test(other);
    return MEANT[other] ?? all;
  });
  return known ? text : null;
}

const NAMED: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** A literal in the quotes that stood there before. */
export function writeString(text: string, before: string): string {
  const quote = before.startsWith("'") && !before.startsWith("'''") ? "'" : '"';
  return quote + text.replace(/[\\\p{C}\p{Z}]/gu, escaped).replaceAll(quote, `\\${quote}`) + quote;
}

/** As Python's repr: what cannot be seen is written by its number. */
function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (char === ' ' || char in NAMED) {
    return NAMED[char] ?? char;
  }
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}
