/** Reads and writes Python literals, and checks whether a text is a Python expression. */

export interface INumber {
  value: number;
  /** Written with a decimal point or an exponent. */
  float: boolean;
}

const INTEGER = /^[-+]?\s*(?:0(?:_?0)*|[1-9](?:_?\d)*)$/;
const BASED = /^([-+]?)\s*(0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)$/;
const FLOAT = /^[-+]?\s*(?:\d(?:_?\d)*)?(?:\.(?:\d(?:_?\d)*)?)?(?:[eE][-+]?\d(?:_?\d)*)?$/;

/** Parse a number; null if it is not a finite number. */
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

/** Return the value of a string literal, or of several adjacent ones; null if it is none, or needs Python to be evaluated. */
export function readString(text: string): string | null {
  let rest = text.trim();
  let value = '';
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
    const part = /[rR]/.test(opened[1] ?? '') ? inner : unescaped(inner);
    if (part === null) {
      return null;
    }
    value += part;
    rest = rest.slice(end + quote.length).trimStart();
  }
  return value;
}

/** Return the position of the closing quote of a string that starts before `from`; -1 if it is not closed on this line. */
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
    // A Unicode name or too few digits: only Python knows the result.
    known &&= !/^N\{|^[xuUN]$/.test(other);
    return MEANT[other] ?? all;
  });
  return known ? text : null;
}

const NAMED: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Return a literal with the same quotes as before. */
export function writeString(text: string, before: string): string {
  const quote = before.startsWith("'") && !before.startsWith("'''") ? "'" : '"';
  return quote + text.replace(/[\\\p{C}\p{Z}]/gu, escaped).replaceAll(quote, `\\${quote}`) + quote;
}

/** Escape like Python's repr: invisible characters are written as code points. */
function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (char === ' ' || char in NAMED) {
    return NAMED[char] ?? char;
  }
  return code < 0x100 ? `\\x${hex.padStart(2, '0')}` : code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

type Token = 'operand' | 'string' | 'operator' | 'prefix' | 'join' | 'open' | 'close' | 'comma' | 'colon' | 'assign' | 'walrus' | 'lambda';

const NAME = /^[\p{L}_][\p{L}\p{N}_]*/u;
const DIGITS = String.raw`\d(?:_?\d)*`;
const EXPONENT = String.raw`[eE][-+]?${DIGITS}`;
const FLOAT_PATTERN = String.raw`(?:${DIGITS}\.(?:${DIGITS})?|\.${DIGITS})(?:${EXPONENT})?|${DIGITS}${EXPONENT}`;
const INTEGER_PATTERN = String.raw`0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|0(?:_?0)*|[1-9](?:_?\d)*`;
const NUMBER = new RegExp(`^(?:${FLOAT_PATTERN}|${INTEGER_PATTERN})[jJ]?`);
const QUOTE = /^[rRbBuUfFtT]{0,2}("""|'''|"|')/;
const OPERATOR = /^(?:\*\*|\/\/|<<|>>|<=|>=|==|!=|:=|\.\.\.|[-+*/%@&|^~<>.,:=()[\]{}])/;
const KEYWORDS: Record<string, Token> = {
  and: 'operator', or: 'operator', in: 'operator', is: 'operator', if: 'operator', else: 'operator', for: 'operator',
  async: 'operator', not: 'prefix', await: 'prefix', lambda: 'lambda'
};
const NEVER = /^(?:as|assert|break|class|continue|def|del|elif|except|finally|from|global|import|nonlocal|pass|raise|return|try|while|with|yield)$/;
const PAIRS: Record<string, string> = { '(': ')', '[': ']', '{': '}' };
const SIGNS: Record<string, Token> = {
  '+': 'prefix', '-': 'prefix', '~': 'prefix', '*': 'join', '**': 'join', ',': 'comma', ':': 'colon', '=': 'assign', ':=': 'walrus', '...': 'operand'
};

/**
 * Return whether a text may stand after `name =` on one line: one complete expression, as far as can be checked without Python.
 *
 * Incomplete input such as `[1, 2` must not be written: its bracket would swallow the comment that defines the field.
 */
export function isExpression(text: string): boolean {
  const open: string[] = [];
  let lambdas = 0;
  let last: Token = 'operator'; // at the start, an operand is expected
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at);
    const blank = /^[ \t\f]+/.exec(rest);
    if (blank) {
      at += blank[0].length;
      continue;
    }
    const [token, length] = next(rest);
    if (token === null || !follows(token, last, rest, open, lambdas)) {
      return false;
    }
    if (token === 'open') {
      open.push(PAIRS[rest[0] ?? ''] ?? '');
    } else if (token === 'close' && open.pop() !== rest[0]) {
      return false;
    } else if (token === 'lambda') {
      lambdas += 1;
    }
    last = token;
    at += length;
  }
  return open.length === 0 && (isOperand(last) || (last === 'comma' && text !== ','));
}

function next(rest: string): [Token | null, number] {
  const quote = QUOTE.exec(rest);
  if (quote) {
    const end = closing(rest, quote[0].length, quote[1] ?? '');
    return end < 0 ? [null, 0] : ['string', end + (quote[1]?.length ?? 0)];
  }
  const name = NAME.exec(rest)?.[0];
  if (name !== undefined) {
    return [NEVER.test(name) ? null : Object.hasOwn(KEYWORDS, name) ? (KEYWORDS[name] ?? null) : 'operand', name.length];
  }
  const number = NUMBER.exec(rest)?.[0];
  if (number) {
    return ['operand', number.length];
  }
  const sign = OPERATOR.exec(rest)?.[0];
  if (sign === undefined) {
    return [null, 0]; // a comment, a line break or another statement
  }
  const token = sign in PAIRS ? 'open' : Object.values(PAIRS).includes(sign) ? 'close' : (SIGNS[sign] ?? 'operator');
  return [token, sign.length];
}

function isOperand(token: Token): boolean {
  return token === 'operand' || token === 'string' || token === 'close';
}

/** Return whether a token may follow another. If in doubt, it may. */
function follows(token: Token, last: Token, rest: string, open: readonly string[], lambdas: number): boolean {
  const after = isOperand(last);
  switch (token) {
    case 'operand':
      return !after;
    case 'string':
      return !after || last === 'string';
    case 'lambda':
      return !after;
    case 'open':
      return rest[0] === '{' ? !after : true;
    case 'close':
      return after || last === 'open' || last === 'comma' || (last === 'colon' && rest[0] === ']');
    case 'comma':
      return after || (last === 'colon' && open.at(-1) === ']');
    case 'colon':
      return (open.at(-1) === ']' || open.at(-1) === '}' || lambdas > 0) && (after || last !== 'operator');
    case 'assign':
      return after && (open.at(-1) === ')' || lambdas > 0);
    case 'walrus':
      return last === 'operand' && open.length > 0;
    case 'operator':
      // "is not", "not in", "async for": adjacent keywords.
      return after || /^(?:in|is|for)\b/.test(rest);
    case 'join':
      return after || open.length > 0; // [*a], f(**b)
    default:
      return true;
  }
}
