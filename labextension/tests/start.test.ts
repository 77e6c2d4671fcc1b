import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CardState, ListedDataSet, RecentNotebook, Runtime, RuntimeType } from '../src/records';
import { describeAgo, describeAvailability, describeCards, describeDataSet, describeRecent, greeting, tileName } from '../src/start/sentences';
import { preferredType } from '../src/start/typeOrder';

const NOW = Date.parse('2026-03-04T12:00:00') / 1000;
const HOUR = 3600;
const CARD = 'NVIDIA GeForce GTX 1080 Ti';

function type(fields: Partial<RuntimeType>): RuntimeType {
  return { name: 't', label: '', environment: 'default', python: '', kind: CARD, cards: 1, parts: 12, units_per_hour: 0, free: true, why_not: '', starts_at: null, engine: '', partition: '', time_limit: null, ...fields };
}

function card(fields: Partial<CardState>): CardState {
  return { name: CARD, memory: 12 * 1024 ** 3, free_parts: 12, holders: [], strangers: [], ...fields } as unknown as CardState;
}

function runtime(fields: Partial<Runtime>): Runtime {
  return { notebook: '/lab/a.ipynb', mine: true, state: 'running', busy: true, changed_at: NOW - 720, cards: [], place: null, ...fields } as unknown as Runtime;
}

function notebook(fields: Partial<RecentNotebook>): RecentNotebook {
  return {
    path: 'a.ipynb', file: '/lab/a.ipynb', changed_at: NOW - 2 * HOUR, edited_at: null, versions_today: 0, ran_at: null, run_seconds: null,
    failed_cells: 0, stopped: false, died_at: null, died_of: '', owner: '', read_only: false, ...fields
  };
}

const host = { cpu: 12.5, cores: 16, memory: null, memory_used: null, disk: null, disk_used: null };

function state(of: RuntimeType, cards: CardState[], runtimes: Runtime[] = [], enough: Runtime[] = []): string {
  return describeAvailability(of, { at: NOW, cards, runtimes, host }, (_, replaced) => enough.includes(replaced));
}

test('a tile names a share without a sign, and several cards with one', () => {
  assert.deepEqual([type({ parts: 6 }), type({}), type({ cards: 2 }), type({ kind: null, cards: 0 })].map(tileName), ['½ GTX 1080 Ti', '1 × GTX 1080 Ti', '2 × GTX 1080 Ti', 'CPU']);
});

test('a free type says how many there are, and how much memory', () => {
  assert.equal(state(type({}), [card({})]), 'free now · 12 GiB');
  assert.equal(state(type({ parts: 6 }), [card({}), card({ free_parts: 6 }), card({ strangers: ['x'] })]), '3 free · 6 GiB each');
  assert.equal(state(type({ cards: 2 }), [card({}), card({})]), 'free now · 12 GiB each');
  assert.equal(state(type({}), [card({ memory: null }), card({ memory: null })]), '2 free');
  assert.equal(state(type({ kind: null, cards: 0 }), []), '14 of 16 cores idle');
});

test('a type that is taken says when it will be free', () => {
  const held = { cards: [{ uuid: 'u' }] } as unknown as Partial<Runtime>;
  const [a, b, c] = ['a', 'b', 'c'].map(name => runtime({ ...held, notebook: `/lab/${name}.ipynb` })) as [Runtime, Runtime, Runtime];
  const taken = type({ free: false, why_not: 'because' });
  const busy = card({ free_parts: 0, holders: [{}] as unknown as CardState['holders'] });
  assert.equal(state(taken, [busy], [a], [a]), 'free when a.ipynb ends');
  assert.equal(state(taken, [busy], [a, b], [a, b]), 'free when a.ipynb or b.ipynb ends');
  assert.equal(state(taken, [busy], [a, b, c], [a, b, c]), 'free when one of 3 notebooks ends');
  assert.equal(state(taken, [busy], [a, b]), 'in use');
  assert.equal(state(taken, [card({ free_parts: 0, strangers: ['python'] })]), 'used by other programs');
  assert.equal(state(taken, []), 'because');
});

test('a type of a cluster says when it would start, if Slurm knows that', () => {
  const busy = type({ engine: 'slurm', free: false, why_not: 'no node is free' });
  assert.equal(state(busy, []), 'no node is free');
  assert.equal(state({ ...busy, starts_at: NOW + 2 * HOUR + 1200, time_limit: 48 * HOUR }, []), 'expected start 14:20 · at most 2 d');
  assert.match(state({ ...busy, starts_at: NOW + 24 * HOUR }, []), /^expected start Thu,? 12:00$/);
  assert.equal(state({ ...busy, starts_at: NOW + 8 * 24 * HOUR }, []), 'expected start 12 March');
  assert.equal(state({ ...busy, free: true }, []), 'free on the cluster');
});

test('a new notebook gets a whole free card, else a part, else the CPU', () => {
  const cpu = type({ name: 'cpu', kind: null, cards: 0 });
  const half = type({ name: 'half', parts: 6 });
  const whole = type({ name: 'whole' });
  const names = (...types: RuntimeType[]): string | undefined => preferredType(types)?.name;
  assert.equal(names(cpu, half, whole, type({ name: 'two', cards: 2 })), 'whole');
  assert.equal(names(cpu, half, { ...whole, free: false }), 'half');
  assert.equal(names(cpu, { ...half, free: false }, { ...whole, free: false }), 'cpu');
  assert.equal(preferredType([]), undefined);
});

test('the cards are counted in a sentence', () => {
  const free = card({});
  const used = card({ free_parts: 6 });
  const cases: [CardState[], string][] = [
    [[], ''], [[free], 'The card is free.'], [[used], 'The card is in use.'], [[free, free], 'All 2 cards are free.'],
    [[used, used], 'All 2 cards are in use.'], [[free, used], 'One card is free.'], [[free, free, used], '2 cards are free.']
  ];
  for (const [cards, sentence] of cases) {
    assert.equal(describeCards(cards), sentence);
  }
});

test('a recent notebook says what happened last', () => {
  const on = (...indices: number[]): Partial<Runtime> => ({ cards: indices.map(index => ({ index })) as unknown as Runtime['cards'] });
  const cases: [Partial<RecentNotebook>, Runtime | undefined, string][] = [
    [{}, runtime(on(0)), 'running for 12 min on card 0'],
    [{}, runtime({ ...on(0, 2), busy: false }), 'idle for 12 min on cards 0 and 2'],
    [{}, runtime({}), 'running for 12 min'],
    [{}, runtime({ mine: false, person: 'ann' }), 'ann · running for 12 min'],
    [{}, runtime({ state: 'waiting', place: 2 }), 'waiting for a card, place 2'],
    [{ died_at: NOW - 26 * HOUR, died_of: 'out of memory' }, undefined, 'kernel died yesterday: out of memory'],
    [{ died_at: NOW - 60 }, runtime({ busy: false }), 'kernel died 1 min ago'],
    [{ died_at: NOW - 26 * HOUR, edited_at: NOW - 2 * HOUR, versions_today: 3 }, undefined, 'edited 2 h ago · 3 versions today'],
    [{ edited_at: NOW - 120, versions_today: 1 }, undefined, 'edited 2 min ago'],
    [{ ran_at: NOW - 26 * HOUR, run_seconds: 4.2 * HOUR }, undefined, 'finished yesterday, 4 h 12 min, no errors'],
    [{ ran_at: NOW - 26 * HOUR, run_seconds: 60, failed_cells: 1 }, undefined, 'failed yesterday, after 1 min'],
    [{ ran_at: NOW - 26 * HOUR, failed_cells: 2 }, undefined, 'ran yesterday, 2 cells failed'],
    [{ ran_at: NOW - 26 * HOUR }, undefined, 'ran yesterday, no errors'],
    [{ ran_at: NOW - 26 * HOUR, stopped: true }, undefined, 'stopped yesterday while a cell was running'],
    [{ ran_at: NOW - 26 * HOUR, run_seconds: 4.2 * HOUR, stopped: true }, undefined, 'stopped yesterday, after 4 h 12 min'],
    [{ owner: 'ann', read_only: true }, undefined, 'ann · read only'],
    [{}, undefined, 'changed 2 h ago']
  ];
  for (const [fields, live, sentence] of cases) {
    assert.equal(describeRecent(notebook(fields), live, NOW), sentence);
  }
});

test('a moment of the past is named as people do', () => {
  const cases: [number, string][] = [
    [-5, 'just now'], [59, 'just now'], [61, '1 min ago'], [2.5 * HOUR, '2 h ago'], [14 * HOUR, 'yesterday'], [3 * 24 * HOUR, 'on Sunday'],
    [20 * 24 * HOUR, 'on 12 February'], [400 * 24 * HOUR, 'on 28 January 2025']
  ];
  for (const [ago, shown] of cases) {
    assert.equal(describeAgo(NOW - ago, NOW), shown);
  }
});

test('the greeting follows the time of day', () => {
  assert.deepEqual([2, 7, 12, 18].map(greeting), ['Good evening', 'Good morning', 'Good afternoon', 'Good evening']);
});

test('a type of a cluster names its partition, and is only taken if people choose it', () => {
  const node = type({ name: 'node', kind: 'a100', cards: 2, engine: 'slurm', partition: 'gpu' });
  assert.equal(tileName(node), '2 × a100 · gpu');
  assert.equal(state(node, []), 'free on the cluster');
  assert.equal(state({ ...node, free: false, why_not: 'no node is free' }, []), 'no node is free');
  assert.equal(state({ ...node, time_limit: 172_800 }, []), 'free on the cluster · at most 2 d');
  const cpu = type({ name: 'cpu', kind: null, cards: 0 });
  assert.equal(preferredType([{ ...node, cards: 1 }, cpu])?.name, 'cpu');
});

test('what is said of a data set', () => {
  const dataSet = (fields: Partial<ListedDataSet>): ListedDataSet => ({
    path: '/data/cats', place: null, kind: 'packed', source: '', size: 3 * 1024 ** 3, files: 25, last_used: NOW - 2 * HOUR, state: 'complete', ...fields
  });
  assert.equal(describeDataSet(dataSet({}), NOW), '3 GiB · packed · used 2 h ago');
  assert.equal(describeDataSet(dataSet({ kind: 'staged' }), NOW), '3 GiB · local copy · used 2 h ago');
  assert.equal(describeDataSet(dataSet({ kind: 'staged', state: 'copying' }), NOW), '3 GiB · being copied');
  assert.equal(describeDataSet(dataSet({ kind: 'staged', state: 'partial' }), NOW), '3 GiB · incomplete · 2 h ago');
  assert.equal(describeDataSet(dataSet({ state: 'missing' }), NOW), 'moved or removed');
});
