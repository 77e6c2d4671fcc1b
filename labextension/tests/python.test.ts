import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closing, isExpression, readNumber, readString, writeString } from '../src/forms/python';

test('numbers as Python writes them', () => {
  const cases: [string, number, boolean][] = [
    ['0', 0, false], ['-12', -12, false], ['1_000', 1000, false], ['0x1F', 31, false], ['-0b101', -5, false], ['0o17', 15, false],
    ['1.5', 1.5, true], ['.5', 0.5, true], ['2.', 2, true], ['1e-3', 0.001, true], ['+1_0.5_0', 10.5, true]
  ];
  for (const [source, value, float] of cases) {
    assert.deepEqual(readNumber(source), { value, float }, source);
  }
});

test('what is not a finite number is refused', () => {
  for (const source of ['', '-', '.', 'e5', '01', '1__0', '_1', '1_', '0x', '1e999', 'nan', 'inf', '1 2', '1j', 'x']) {
    assert.equal(readNumber(source), null, source);
  }
});

test('string literals are evaluated', () => {
  const cases: [string, string][] = [
    [`'a'`, 'a'], [`"it's"`, "it's"], [`'a' "b"`, 'ab'], [`'''a\nb'''`, 'a\nb'], [String.raw`r'\d'`, String.raw`\d`],
    [String.raw`'\n\t\\'`, '\n\t\\'], [String.raw`'\x41\u00e9\U0001F600\101'`, 'Aé😀A'], [String.raw`'\q'`, String.raw`\q`], [`''`, '']
  ];
  for (const [source, value] of cases) {
    assert.equal(readString(source), value, source);
  }
});

test('literals that are incomplete or need Python are refused', () => {
  for (const source of ['', 'a', `'a`, `'a\nb'`, `b'a'`, `f'{a}'`, `'a' + 'b'`, String.raw`'\N{DASH}'`, String.raw`'\x4'`, String.raw`'\UFFFFFFFF'`]) {
    assert.equal(readString(source), null, source);
  }
});

test('a written string reads back, and keeps its quotes', () => {
  for (const value of ['', 'plain', `it's "quoted"`, 'a\\b', 'a\nb\t\r', '\x00\x7f', 'é–😀', '\u200b\u2028\u00a0', String.raw`\n`]) {
    for (const before of [`'x'`, `"x"`, `'''x'''`, '']) {
      const written = writeString(value, before);
      assert.equal(readString(written), value, written);
      assert.equal(written[0], before === `'x'` ? `'` : `"`);
      assert.ok(!written.includes('\n'));
    }
  }
});

test('a closing quote is found behind escaped ones', () => {
  assert.equal(closing(String.raw`'a\'b'`, 1, `'`), 5);
  assert.equal(closing(`'a\nb'`, 1, `'`), -1);
  assert.equal(closing(`'''a\nb'''`, 3, `'''`), 6);
});

test('expressions that are complete', () => {
  for (const source of [
    'x', '1 + 2', '-x', 'not x', 'f(1, *a, b=2, **c)', '[1, 2,]', '{"a": 1}', 'a[1:2]', 'a[:, 0]', '(x := 1)', 'lambda x, y=1: x',
    'a if b else c', '[x for x in y if x not in z]', 'a is not b', '"a" "b"', '1,', 'a.b[0].c()', '...', 'x @ y', 'await f()', 'f"{x}"', '1j'
  ]) {
    assert.ok(isExpression(source), source);
  }
});

test('what would damage the rest of the line is refused', () => {
  for (const source of ['', ',', '[1, 2', '(]', '1 +', 'a b', '"a', 'x = 1', 'x # comment', 'import os', 'x; y', 'x\ny', 'a := 1', '1 2', 'del x', ')', '{1: 2']) {
    assert.ok(!isExpression(source), source);
  }
});
