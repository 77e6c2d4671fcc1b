/**
 * Whether a text may stand behind `name =` on one line: one whole expression of Python, as far as can be told without
 * Python. While somebody types `[1, 2`, nothing may be written: the quote or bracket would swallow the comment that makes
 * the field.
 */
import { closing } from './literals';

type Token = 'operand' | 'string' | 'operator' | 'prefix' | 'join' | 'open' | 'close' | 'comma' | 'colon' | 'assign' | 'walrus' | 'lambda';

const NAME = /^[\p{L}_][\p{L}\p{N}_]*/u;
const DIGITS = String.raw`\d(?:_?\d)*`;
const EXPONENT = String.raw`[eE][-+]?${DIGITS}`;
const FLOAT = String.raw`(?:${DIGITS}\.(?:${DIGITS})?|\.${DIGITS})(?:${EXPONENT})?|${DIGITS}${EXPONENT}`;
const INTEGER = String.raw`0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|0(?:_?0)*|[1-9](?:_?\d)*`;
const NUMBER = new RegExp(`^(?:${FLOAT}|${INTEGER})[jJ]?`);
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

export function isExpression(text: string): boolean {
  const open: string[] = [];
  let lambdas = 0;
  let last: Token = 'operator'; // as if something stood before that wants an operand
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
    return [null, 0]; // a comment, a line's end, another statement
  }
  const token = sign in PAIRS ? 'open' : Object.values(PAIRS).includes(sign) ? 'close' : (SIGNS[sign] ?? 'operator');
  return [token, sign.length];
}

function isOperand(token: Token): boolean {
  return token === 'operand' || token === 'string' || token === 'close';
}

/** Whether one may stand behind the other. Where in doubt, it may. */
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
      // "is not", "not in", "async for": words behind each other.
      return after || /^(?:in|is|for)\b/.test(rest);
    case 'join':
      return after || open.length > 0; // [*a], f(**b)
    default:
      return true;
  }
}
