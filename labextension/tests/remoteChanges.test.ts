import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Baseline, type IUnsent } from '../src/edits/baseline';
import type { ChangedCell, Changes } from '../src/records';
import { RemoteChanges } from '../src/edits/remoteChanges';
import { MemoryNotebook } from './editedNotebook';

function changes(part: Partial<Changes>): Changes {
  return { version: 2, cells: [], deleted: [], order: null, metadata: null, conflicts: [], recovered: [], ...part };
}

function cell(id: string, source: string, part: Partial<ChangedCell> = {}): ChangedCell {
  return { id, type: 'code', source, metadata: {}, ...part };
}

function open(sources: Record<string, string>): { notebook: MemoryNotebook; baseline: Baseline; remote: RemoteChanges } {
  const notebook = new MemoryNotebook(sources);
  const baseline = new Baseline(notebook);
  return { notebook, baseline, remote: new RemoteChanges(baseline, 1) };
}

function unsent(baseline: Baseline, notebook: MemoryNotebook): IUnsent | null {
  return baseline.unsent(notebook, new Set(notebook.order), () => null);
}

test('a cell that nobody uses here gets the text, and nothing is sent back', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2' });
  remote.receive(changes({ cells: [cell('a', '10')] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=10 b=2');
  assert.equal(unsent(baseline, notebook), null);
  assert.equal(remote.version, 2);
  assert.ok(!remote.isPending);
});

test('the text of a cell with the cursor waits', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  notebook.focused = 'a';
  remote.receive(changes({ cells: [cell('a', '10')] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1');
  assert.equal(unsent(baseline, notebook), null);
  assert.ok(remote.isPending);
  notebook.focused = '';
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=10');
});

test('while it waits, an edit is sent with the text that it was based on', () => {
  const { notebook, baseline, remote } = open({ a: 'one\ntwo' });
  notebook.focused = 'a';
  remote.receive(changes({ cells: [cell('a', 'ONE\ntwo')] }));
  remote.settle(notebook);
  notebook.type('a', 'one\nTWO');
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch?.cells[0]?.source, { base: 'one\ntwo', text: 'one\nTWO' });
  baseline.accept(patch);
  remote.receive(changes({ version: 3, cells: [cell('a', 'ONE\nTWO')] }), patch);
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=one\nTWO');
  assert.equal(unsent(baseline, notebook), null);
  notebook.focused = '';
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=ONE\nTWO');
  assert.equal(unsent(baseline, notebook), null);
});

test('an older text does not replace one that the server has accepted since', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  notebook.focused = 'a';
  remote.receive(changes({ cells: [cell('a', '10')] }));
  notebook.type('a', '2');
  const patch = unsent(baseline, notebook);
  assert.ok(patch);
  baseline.accept(patch);
  remote.receive(changes({ version: 3 }), patch); // our text was kept
  notebook.focused = '';
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=2');
  assert.ok(!remote.isPending);
});

test('a cell with unsent text is not changed, whether or not it has the cursor', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  notebook.type('a', '2');
  remote.receive(changes({ cells: [cell('a', '10')] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=2');
  assert.deepEqual(unsent(baseline, notebook)?.cells[0]?.source, { base: '1', text: '2' });
});

test('a new text that this page has already is taken over at once, also under the cursor', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  notebook.focused = 'a';
  notebook.type('a', '2');
  remote.receive(changes({ cells: [cell('a', '2')] }));
  remote.settle(notebook);
  assert.equal(unsent(baseline, notebook), null);
  assert.ok(!remote.isPending);
});

test('cells are inserted, moved and deleted; the others stay as they are', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2', c: '3' });
  remote.receive(changes({ cells: [cell('d', '4')], order: ['c', 'd', 'a'], deleted: ['b'] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'c=3 d=4 a=1');
  assert.equal(notebook.log.filter(line => line.startsWith('move')).length, 1);
  assert.equal(unsent(baseline, notebook), null);
});

test('the order waits until this page has sent its own', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2' });
  notebook.add('mine', 'x');
  remote.receive(changes({ cells: [cell('theirs', 'y')], order: ['theirs', 'a', 'b'] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1 b=2 mine=x');
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch?.order, { base: ['a', 'b'], now: ['a', 'b', 'mine'] });
  baseline.accept(patch);
  remote.receive(changes({ version: 3, order: ['theirs', 'a', 'b', 'mine'] }), patch);
  remote.settle(notebook);
  assert.equal(notebook.text, 'theirs=y a=1 b=2 mine=x');
  assert.equal(unsent(baseline, notebook), null);
});

test('a deleted cell stays while the cursor is in it; an edit brings it back', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2' });
  notebook.focused = 'b';
  remote.receive(changes({ order: ['a'], deleted: ['b'] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1 b=2');
  assert.equal(unsent(baseline, notebook), null);
  notebook.type('b', '3');
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch?.cells, [{ id: 'b', type: 'code', source: { base: '2', text: '3' } }]);
  baseline.accept(patch);
  remote.receive(changes({ version: 3, order: ['a', 'b'] }), patch);
  notebook.focused = '';
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1 b=3');
  assert.ok(!remote.isPending);
});

test('a deleted cell goes when the cursor leaves it', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2' });
  notebook.focused = 'b';
  remote.receive(changes({ order: ['a'], deleted: ['b'] }));
  remote.settle(notebook);
  notebook.focused = '';
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1');
  assert.equal(unsent(baseline, notebook), null);
});

test('a cell that this page deleted and another edited comes back', () => {
  const { notebook, baseline, remote } = open({ a: '1', b: '2' });
  notebook.remove('b');
  const patch = unsent(baseline, notebook);
  assert.ok(patch);
  baseline.accept(patch);
  remote.receive(changes({ cells: [cell('b', '20')], order: ['a', 'b'] }), patch);
  remote.settle(notebook);
  assert.equal(notebook.text, 'a=1 b=20');
  assert.equal(unsent(baseline, notebook), null);
});

test('metadata is merged key by key', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  notebook.metadata = { title: 'mine' };
  notebook.patchCellMetadata('a', { set: { tags: ['mine'] }, unset: [] });
  remote.receive(
    changes({ cells: [cell('a', '1', { metadata: { tags: ['theirs'], name: 'n' } })], metadata: { title: 'theirs', more: 1, widgets: {} } })
  );
  remote.settle(notebook);
  assert.deepEqual(notebook.metadata, { title: 'mine', more: 1 });
  assert.deepEqual(notebook.existing('a').metadata, { tags: ['mine'], name: 'n' });
  const patch = unsent(baseline, notebook);
  assert.deepEqual([patch?.metadata, patch?.cells[0]?.metadata], [
    { set: { title: 'mine' }, unset: [] },
    { set: { tags: ['mine'] }, unset: [] }
  ]);
});

test('hidden outputs stay hidden, in either spelling', () => {
  const { notebook, baseline, remote } = open({ a: '1' });
  const shown = { collapsed: true, jupyter: { outputs_hidden: true } };
  notebook.patchCellMetadata('a', { set: shown, unset: [] });
  baseline.cells.set('a', notebook.existing('a'));
  remote.receive(changes({ cells: [cell('a', '2', { metadata: { jupyter: { outputs_hidden: true } } })] }));
  remote.settle(notebook);
  assert.deepEqual(notebook.existing('a').metadata, shown);
});

test('another type replaces the cell; outputs are set unless the cell runs', () => {
  const { notebook, remote } = open({ a: '1', b: '2', c: '3' });
  notebook.running = 'c';
  const outputs = { outputs: [], execution_count: null };
  remote.receive(changes({ cells: [cell('a', '# 1', { type: 'markdown' }), cell('b', '2', { outputs }), cell('c', '3', { outputs })] }));
  remote.settle(notebook);
  assert.deepEqual(notebook.log, ['replace a', 'outputs b 0']);
  assert.deepEqual([notebook.existing('a').type, notebook.existing('a').source], ['markdown', '# 1']);
});

test('an empty notebook gets the cells of another page', () => {
  const notebook = new MemoryNotebook({ added: '' });
  const baseline = new Baseline(notebook, []);
  const remote = new RemoteChanges(baseline, 1);
  remote.receive(changes({ cells: [cell('x', '1')], order: ['x'] }));
  remote.settle(notebook);
  assert.equal(notebook.text, 'x=1');
  assert.equal(unsent(baseline, notebook), null);
});
