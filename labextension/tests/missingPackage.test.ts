import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findOffer, missingModule, packageOf } from '../src/packages/missingPackage';
import type { EnvironmentState, RuntimeType } from '../src/records';

const type = (name: string, environment: string, kind: string | null = null): RuntimeType => ({
  name,
  label: name,
  environment,
  python: '',
  kind,
  cards: kind ? 1 : 0,
  parts: kind ? 12 : 0,
  units_per_hour: 0,
  free: true,
  engine: '',
  partition: '',
  time_limit: null,
  why_not: '',
  starts_at: null
});
const TYPES = [type('cpu', 'default'), type('gpu', 'default', 'h200'), type('dl-cpu', 'dl'), type('dl-gpu', 'dl', 'h200')];
const PRESETS = [
  { name: 'default', environment: 'default', packages: ['numpy'] },
  { name: 'deep-learning', environment: 'deep-learning', packages: ['torch', 'numpy'] }
];
const environment = (name: string, status: EnvironmentState['status'], ...packages: string[]): EnvironmentState => ({
  name,
  status,
  packages,
  created: true,
  preset: '',
  python: '',
  version: '',
  size_bytes: null,
  proof: '',
  proven: null,
  progress: null,
  error: '',
  hint: '',
  notes: []
});
const DEFAULT = environment('default', 'ready', 'numpy');

test('the module is read from the message', () => {
  assert.equal(missingModule({ ename: 'ModuleNotFoundError', evalue: "No module named 'torch'" }), 'torch');
  assert.equal(missingModule({ ename: 'ImportError', evalue: "cannot import name 'x' from 'y'" }), null);
  assert.equal(packageOf('cv2'), 'opencv-python-headless');
  assert.equal(packageOf('my_own_file'), null);
});

test('a package without one of its parts is installed', () => {
  assert.equal(missingModule({ ename: 'ModuleNotFoundError', evalue: "No module named 'sklearn.externals'" }), null);
  assert.equal(missingModule({ ename: 'ModuleNotFoundError', evalue: "No module named 'torch.nn'; 'torch' is not a package" }), null);
});

test('an environment that has the package, with the same cards', () => {
  const environments = { environments: [DEFAULT, environment('dl', 'ready', 'Torch==2.13.0')], presets: PRESETS };
  const expected = { kind: 'change', module: 'torch', package: 'torch', environment: 'default', to: 'dl' };
  assert.deepEqual(findOffer('torch', 'cpu', TYPES, environments), { ...expected, type: 'dl-cpu' });
  assert.deepEqual(findOffer('torch', 'gpu', TYPES, environments), { ...expected, type: 'dl-gpu' });
});

test('one that is being built, or that can be created', () => {
  const base = { module: 'torch', package: 'torch', environment: 'default' };
  const building = { environments: [DEFAULT, environment('deep-learning', 'building', 'torch')], presets: PRESETS };
  assert.deepEqual(findOffer('torch', 'cpu', TYPES, building), { ...base, kind: 'building', to: 'deep-learning' });
  assert.deepEqual(findOffer('torch', 'cpu', TYPES, { environments: [DEFAULT], presets: PRESETS }), { ...base, kind: 'create', to: 'deep-learning' });
});

test('otherwise the command, for packages that are known', () => {
  const environments = { environments: [DEFAULT], presets: PRESETS };
  assert.deepEqual(findOffer('yaml', 'cpu', TYPES, environments), { module: 'yaml', package: 'pyyaml', environment: 'default', kind: 'install' });
  assert.deepEqual(findOffer('yaml', 'python3', [], null), { module: 'yaml', package: 'pyyaml', environment: '', kind: 'install' });
  assert.equal(findOffer('helper', 'cpu', TYPES, environments), null);
});

test('an environment that was just built is still coming until it has types', () => {
  const environments = { environments: [DEFAULT, environment('new', 'ready', 'torch')], presets: PRESETS };
  assert.equal(findOffer('torch', 'cpu', TYPES, environments)?.kind, 'building');
  assert.equal(findOffer('torch', 'cpu', [...TYPES, type('new-cpu', 'new')], environments)?.kind, 'change');
});
