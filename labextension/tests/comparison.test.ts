import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellsOf, compareCells, type ICell } from '../src/history/comparison';

/** "a=1 b" -> cells a with the source 1, and b. */
function cells(text: string, type = 'code'): ICell[] {
  return text.split(' ').filter(Boolean).map(word => {
    const [id = '', source = ''] = word.split('=');
    return { id, type, source };
  });
}

function summary(before: string, after: string): string {
  return compareCells(cells(before), cells(after))
    .map(({ id, change, number }) => `${id}:${change}:${number}`)
    .join(' ');
}

test('cells are aligned by id', () => {
  assert.equal(summary('a=1 b=2', 'a=1 b=3'), 'a:same:1 b:edited:2');
  assert.equal(summary('a b', 'a x b'), 'a:same:1 x:added:2 b:same:3');
  assert.equal(summary('a b c', 'a c'), 'a:same:1 b:removed:2 c:same:2');
  assert.equal(summary('a b', ''), 'a:removed:1 b:removed:2');
  assert.equal(summary('', 'a'), 'a:added:1');
});

test('a moved cell is one, and the others stay', () => {
  assert.equal(summary('a b c d', 'd a b c'), 'd:moved:1 a:same:2 b:same:3 c:same:4');
  assert.equal(summary('a b c', 'b c a'), 'b:same:1 c:same:2 a:moved:3');
  assert.equal(summary('a=1 b c', 'b c a=2'), 'b:same:1 c:same:2 a:edited:3');
});

test('a changed type is an edit', () => {
  const [found] = compareCells(cells('a=1'), cells('a=1', 'markdown'));
  assert.deepEqual([found?.change, found?.typeBefore, found?.type], ['edited', 'code', 'markdown']);
});

test('cells of damaged notebooks', () => {
  assert.deepEqual(cellsOf(null), []);
  assert.deepEqual(cellsOf({ cells: 5 }), []);
  assert.deepEqual(cellsOf({ cells: [null, { cell_type: 'raw', source: ['a\n', 'b'] }] }), [{ id: '#0', type: 'raw', source: 'a\nb' }]);
});
