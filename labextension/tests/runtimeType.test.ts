import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseType } from '../src/notebook/runtimeType';

const SPECS = {
  default: 'python3',
  kernelspecs: { python3: { language: 'python' }, 'ownlab-1-h200': { language: 'python' }, ir: { language: 'R' } }
};

test('a notebook gets the type that it had last', () => {
  assert.deepEqual(chooseType({ name: 'ownlab-1-h200' }, 'python3', SPECS), { name: 'ownlab-1-h200', missing: null });
});

test('a new notebook gets the type with which it was created', () => {
  assert.deepEqual(chooseType(undefined, 'ownlab-1-h200', SPECS), { name: 'ownlab-1-h200', missing: null });
  assert.deepEqual(chooseType(undefined, undefined, SPECS), { name: 'python3', missing: null });
});

test('a type that is not here is replaced by one of the same language, and named', () => {
  assert.deepEqual(chooseType({ name: 'conda-env-torch', language: 'python' }, undefined, SPECS), { name: 'python3', missing: 'conda-env-torch' });
  assert.deepEqual(chooseType({ name: 'r-4', language: 'r' }, undefined, SPECS), { name: 'ir', missing: 'r-4' });
  assert.equal(chooseType({ name: 'julia-1.11', language: 'julia' }, undefined, SPECS), null);
});

test('the CPU type has another name on the command line, which a notebook may have', () => {
  assert.deepEqual(chooseType({ name: 'ownlab-cpu' }, undefined, SPECS), { name: 'python3', missing: null });
  const own = { ...SPECS, kernelspecs: { ...SPECS.kernelspecs, 'ownlab-cpu': { language: 'python' } } };
  assert.deepEqual(chooseType({ name: 'ownlab-cpu' }, undefined, own), { name: 'ownlab-cpu', missing: null });
});

test('metadata that is not as expected is ignored', () => {
  assert.deepEqual(chooseType({ name: 3, language: [] }, undefined, SPECS), { name: 'python3', missing: null });
  assert.equal(chooseType({ name: 'python3' }, undefined, null), null);
});
