import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Baseline, type IUnsent } from '../src/edits/baseline';
import type { OutputsPatch } from '../src/records';
import { MemoryNotebook } from './editedNotebook';

const none = (): OutputsPatch | null => null;

function unsent(baseline: Baseline, notebook: MemoryNotebook, outputs = none): IUnsent {
  const found = baseline.unsent(notebook, new Set(notebook.order), outputs);
  assert.ok(found, 'there should be something to send');
  return found;
}

test('a changed cell is sent with the text that the server has', () => {
  const notebook = new MemoryNotebook({ a: 'lr = 0.1', b: 'print(lr)' });
  const baseline = new Baseline(notebook);
  assert.equal(baseline.unsent(notebook, new Set(['a', 'b']), none), null);
  notebook.type('a', 'lr = 0.001');
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch.cells, [{ id: 'a', type: 'code', source: { base: 'lr = 0.1', text: 'lr = 0.001' } }]);
  assert.deepEqual([patch.order, patch.deleted, patch.metadata], [null, {}, null]);
  notebook.type('a', 'lr = 0.002'); // typed while the patch is on its way
  baseline.accept(patch);
  assert.deepEqual(unsent(baseline, notebook).cells[0]?.source, { base: 'lr = 0.001', text: 'lr = 0.002' });
});

test('a cell that nobody has marked is not compared', () => {
  const notebook = new MemoryNotebook({ a: '1' });
  const baseline = new Baseline(notebook);
  notebook.type('a', '2');
  assert.equal(baseline.unsent(notebook, new Set(), none), null);
});

test('new, deleted and moved cells', () => {
  const notebook = new MemoryNotebook({ a: '1', b: '2', c: '3' });
  const baseline = new Baseline(notebook);
  notebook.remove('b');
  notebook.add('d', '4', 0);
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch.cells, [{ id: 'd', type: 'code', source: { base: null, text: '4' } }]);
  assert.deepEqual(patch.deleted, { b: '2' });
  assert.deepEqual(patch.order, { base: ['a', 'b', 'c'], now: ['d', 'a', 'c'] });
  baseline.accept(patch);
  assert.equal(baseline.unsent(notebook, new Set(notebook.order), none), null);
  notebook.move(0, 2);
  assert.deepEqual(unsent(baseline, notebook).order, { base: ['d', 'a', 'c'], now: ['a', 'c', 'd'] });
});

test('a deletion that is undone before it was sent is nothing; afterwards the cell is new, with its outputs', () => {
  const notebook = new MemoryNotebook({ a: '1', b: '2' });
  const baseline = new Baseline(notebook);
  notebook.remove('a');
  const deletion = unsent(baseline, notebook);
  notebook.add('a', '1', 0);
  assert.equal(baseline.unsent(notebook, new Set(['a']), none), null);
  baseline.accept(deletion);
  const outputs = { outputs: [{ output_type: 'stream' }], execution_count: 3 };
  const undone = baseline.unsent(notebook, new Set(), (_, kind) => (kind === 'new' ? outputs : null));
  assert.deepEqual(undone?.cells, [{ id: 'a', type: 'code', source: { base: null, text: '1' }, outputs }]);
});

test('metadata and attachments: only what changed', () => {
  const notebook = new MemoryNotebook({ a: '' });
  notebook.patchCellMetadata('a', { set: { tags: ['x'], name: 'first' }, unset: [] });
  const baseline = new Baseline(notebook);
  notebook.patchCellMetadata('a', { set: { tags: ['x', 'y'] }, unset: ['name'] });
  notebook.setAttachments('a', { 'i.png': { 'image/png': 'AA' } });
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch.cells, [
    { id: 'a', type: 'code', metadata: { set: { tags: ['x', 'y'] }, unset: ['name'] }, attachments: { 'i.png': { 'image/png': 'AA' } } }
  ]);
  baseline.accept(patch);
  notebook.setAttachments('a', null);
  assert.deepEqual(unsent(baseline, notebook).cells[0]?.attachments, {});
});

test('what JupyterLab changes by itself waits for an edit', () => {
  const notebook = new MemoryNotebook({ a: '' });
  notebook.metadata = { kernelspec: { name: 'python3', display_name: 'Python 3' } };
  const baseline = new Baseline(notebook);
  notebook.metadata = { kernelspec: { name: 'python3', display_name: 'CPU' }, language_info: { name: 'python', version: '3.12' } };
  assert.equal(baseline.unsent(notebook, new Set(['a']), none), null);
  notebook.type('a', 'x');
  assert.deepEqual(Object.keys(unsent(baseline, notebook).metadata?.set ?? {}), ['kernelspec', 'language_info']);
});

test('the version of the language is sent once a cell has run in it', () => {
  const notebook = new MemoryNotebook({ a: '' });
  notebook.metadata = { kernelspec: { name: 'python3' }, language_info: { name: 'python', version: '3.9' } };
  const baseline = new Baseline(notebook);
  notebook.metadata = { ...notebook.metadata, language_info: { name: 'python', version: '3.12' } };
  assert.equal(baseline.unsent(notebook, new Set(), none), null);
  const sent = baseline.unsent(notebook, new Set(), none, true);
  assert.deepEqual(sent?.metadata?.set, { language_info: { name: 'python', version: '3.12' } });
  notebook.metadata = { kernelspec: { name: '' }, language_info: { name: 'python', version: '3.12' } };
  assert.equal(baseline.unsent(notebook, new Set(), none, true), null, 'a kernel that is gone is none');
});

test('another kernel is an edit', () => {
  const notebook = new MemoryNotebook({ a: '' });
  const baseline = new Baseline(notebook);
  notebook.metadata = { kernelspec: { name: '', display_name: '' } };
  assert.equal(baseline.unsent(notebook, new Set(), none), null);
  notebook.metadata = { kernelspec: { name: 'ownlab-cpu', display_name: 'CPU' } };
  assert.deepEqual(unsent(baseline, notebook).metadata?.set, notebook.metadata);
});

test('the empty cell that JupyterLab adds to an empty notebook is sent once it is used', () => {
  const notebook = new MemoryNotebook({ added: '' });
  const baseline = new Baseline(notebook, []);
  assert.equal(baseline.unsent(notebook, new Set(['added']), none), null);
  notebook.type('added', 'x');
  const patch = unsent(baseline, notebook);
  assert.deepEqual(patch.cells[0]?.source, { base: null, text: 'x' });
  assert.deepEqual(patch.order, { base: [], now: ['added'] });
});

test('cleared outputs are sent, without the text', () => {
  const notebook = new MemoryNotebook({ a: '1' });
  const baseline = new Baseline(notebook);
  const cleared = { outputs: [], execution_count: null };
  const patch = baseline.unsent(notebook, new Set(['a']), () => cleared);
  assert.deepEqual(patch?.cells, [{ id: 'a', type: 'code', outputs: cleared }]);
});
