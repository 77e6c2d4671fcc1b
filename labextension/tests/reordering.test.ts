import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Step, stepsBetween } from '../src/edits/reordering';

/** Carry out steps as a notebook does; return the order, and which cells were drawn anew. */
function carryOut(now: readonly string[], steps: readonly Step[]): { order: string[]; moved: string[] } {
  const order = [...now];
  const moved: string[] = [];
  for (const step of steps) {
    if (step.kind === 'delete') {
      order.splice(step.index, 1);
    } else if (step.kind === 'insert') {
      order.splice(step.index, 0, step.id);
    } else {
      const [id] = order.splice(step.from, 1);
      assert.ok(id);
      order.splice(step.to, 0, id);
      moved.push(id);
    }
  }
  return { order, moved };
}

test('one cell is moved, not all others', () => {
  const { order, moved } = carryOut([...'abcdef'], stepsBetween([...'abcdef'], [...'bcdefa']));
  assert.deepEqual([order.join(''), moved], ['bcdefa', ['a']]);
});

test('the cell with the cursor stays, and others move around it', () => {
  const { order, moved } = carryOut([...'abcdef'], stepsBetween([...'abcdef'], [...'bcdefa'], 'a'));
  assert.equal(order.join(''), 'bcdefa');
  assert.ok(!moved.includes('a'));
});

test('cells are inserted and deleted without touching others', () => {
  const steps = stepsBetween([...'abc'], [...'xacy']);
  assert.deepEqual(steps, [
    { kind: 'delete', index: 1 },
    { kind: 'insert', index: 0, id: 'x' },
    { kind: 'insert', index: 3, id: 'y' }
  ]);
  assert.equal(carryOut([...'abc'], steps).order.join(''), 'xacy');
});

test('every order is reached, whatever stays', () => {
  let seed = 1;
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
  const shuffled = (from: readonly string[]): string[] => {
    const rest = [...from];
    return Array.from({ length: random(rest.length + 1) }, () => rest.splice(random(rest.length), 1)[0] ?? '');
  };
  for (let round = 0; round < 3000; round += 1) {
    const now = shuffled([...'abcdefghij']);
    const wanted = shuffled([...'defghijklm']);
    const fixed = now.length && random(2) ? (now[random(now.length)] ?? null) : null;
    const { order, moved } = carryOut(now, stepsBetween(now, wanted, fixed));
    assert.deepEqual(order, wanted);
    assert.ok(fixed === null || !moved.includes(fixed));
  }
});
