import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diffLines } from '../src/edits/lineDiff';

const SIGNS = { same: ' ', removed: '-', added: '+' };

function diff(before: string, after: string): string[] {
  return diffLines(before, after).map(({ kind, text }) => SIGNS[kind] + text);
}

test('lines that differ, between those that are the same', () => {
  assert.deepEqual(diff('import a\nlr = 0.1\nrun()', 'import a\nlr = 0.001\nrun()'), [' import a', '-lr = 0.1', '+lr = 0.001', ' run()']);
});

test('common lines are found between changed ones', () => {
  assert.deepEqual(diff('a\nx\nb\ny\nc', 'a\nb\nz\nc'), [' a', '-x', ' b', '-y', '+z', ' c']);
  assert.deepEqual(diff('', 'a'), ['-', '+a']);
  assert.deepEqual(diff('a\na', 'a'), [' a', '-a']);
  assert.deepEqual(diff('same', 'same'), [' same']);
});

test('very long texts are not compared line by line', () => {
  const long = Array.from({ length: 3_000 }, (_, line) => `line ${line}`).join('\n');
  const found = diff(`first\n${long}\nlast`, `other\n${long}\nend`);
  assert.equal(found.filter(line => line.startsWith('-')).length, 3_002);
});
