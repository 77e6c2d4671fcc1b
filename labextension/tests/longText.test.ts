import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginningOfEnd } from '../src/cells/longText';

test('short text is drawn as a whole', () => {
  assert.equal(beginningOfEnd(''), 0);
  assert.equal(beginningOfEnd('x'.repeat(399_999)), 0);
});

test('the drawn end of long text begins with a line, and moves in large steps', () => {
  const line = `${'x'.repeat(69)}\n`;
  const beginnings = new Set<number>();
  for (let count = 6_000; count < 30_000; count += 100) {
    const source = line.repeat(count);
    const start = beginningOfEnd(source);
    assert.equal(start % line.length, 0);
    assert.ok(source.length - start > 199_900 && source.length - start <= 400_000);
    beginnings.add(start);
  }
  assert.ok(beginnings.size < 12, `${beginnings.size} different beginnings`);
});

test('one long line is cut', () => {
  assert.equal(beginningOfEnd('x'.repeat(1_000_000)), 800_000);
});
