import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as formatting from '../src/formatting';
import type { Runtime } from '../src/records';

const NOW = Date.parse('2026-03-04T12:00:00') / 1000;

/** The fields of a runtime that a test uses. */
function runtime(fields: Partial<Runtime>): Runtime {
  return fields as Runtime;
}

test('bytes have binary units and at most one decimal', () => {
  const cases: [number, string][] = [[0, '0 B'], [1023, '1023 B'], [1536, '1.5 KiB'], [1024 ** 2, '1 MiB'], [150.4 * 1024 ** 3, '150 GiB'], [2 ** 70, '1048576 PiB']];
  for (const [bytes, shown] of cases) {
    assert.equal(formatting.formatBytes(bytes), shown);
  }
});

test('a common unit is written once', () => {
  assert.equal(formatting.formatBytesOf(1.25 * 1024 ** 3, 8 * 1024 ** 3), '1.3 of 8 GiB');
  assert.equal(formatting.formatBytesOf(51 * 1024 ** 2, 8 * 1024 ** 3), '51 MiB of 8 GiB');
});

test('small percentages are not rounded to zero', () => {
  assert.deepEqual([null, 0, 0.04, 0.75, 0.97, 43.2, 100].map(formatting.formatPercent), ['–', '0 %', '0 %', '0.8 %', '1 %', '43 %', '100 %']);
});

test('durations have at most two units', () => {
  const hour = 3600;
  const cases: [number, string][] = [
    [-5, '0 s'], [59.4, '59 s'], [60, '1 min'], [90 * 60, '1 h 30 min'], [2 * hour, '2 h'], [47 * hour, '47 h'], [48 * hour, '2 d'], [50 * hour, '2 d 2 h']
  ];
  for (const [seconds, shown] of cases) {
    assert.equal(formatting.formatDuration(seconds), shown);
  }
});

test('a time of another day has its weekday', () => {
  assert.equal(formatting.formatTime(NOW - 3600, NOW), '11:00');
  assert.match(formatting.formatTime(NOW - 24 * 3600, NOW), /^Tue,? 12:00$/);
});

test('shares are written as fractions', () => {
  assert.deepEqual([12, 6, 3, 1, 5].map(formatting.formatShare), ['1', '½', '¼', '1/12', '5/12']);
});

test('names of cards have neither vendor nor series', () => {
  assert.equal(formatting.cardName('NVIDIA GeForce GTX 1080 Ti'), 'GTX 1080 Ti');
  assert.equal(formatting.cardName('Intel(R) Arc A770'), 'Arc A770');
  assert.equal(formatting.cardName('AMD Instinct MI300X'), 'MI300X');
  assert.equal(formatting.cardName('H200'), 'H200');
});

test('a runtime type is named after its cards', () => {
  assert.equal(formatting.typeName({ kind: null, cards: 0, parts: 0 }), 'CPU');
  assert.equal(formatting.typeName({ kind: 'NVIDIA H200', cards: 2, parts: 12 }), '2 × H200');
  assert.equal(formatting.typeName({ kind: 'NVIDIA H200', cards: 1, parts: 6 }), '½ × H200');
  assert.equal(formatting.typeName({ kind: 'NVIDIA H200', cards: 2, parts: 6 }), '2 × ½ × H200');
});

test('what a runtime does', () => {
  const describe = (fields: Partial<Runtime>) => formatting.describeActivity(runtime({ changed_at: NOW - 180, place: null, ...fields }), NOW);
  assert.equal(describe({ state: 'running', busy: true }), 'busy for 3 min');
  assert.equal(describe({ state: 'running', busy: false }), 'idle for 3 min');
  assert.equal(describe({ state: 'waiting' }), 'waiting');
  assert.equal(describe({ state: 'waiting', place: 2 }), 'waiting, place 2');
});

test('when a runtime ends, and why', () => {
  assert.equal(formatting.describeTimeLeft(runtime({ ends_at: null }), NOW), '');
  assert.equal(formatting.describeTimeLeft(runtime({ ends_at: NOW + 42 * 60 }), NOW), '42 min left');
  assert.equal(formatting.describeEnd(runtime({ ends_why: 'idle for 90 min' }), NOW + 1800, NOW), 'Ends at 12:30, in 30 min (idle for 90 min)');
  assert.equal(formatting.describeEnd(runtime({ ends_why: '' }), NOW + 1800, NOW), 'Ends at 12:30, in 30 min');
});

test('units per hour', () => {
  assert.deepEqual([1, 1.5, 0.333, 250.4].map(formatting.formatRate), ['1 unit/h', '1.5 units/h', '0.33 units/h', '250 units/h']);
});

test('booked memory is unknown if that of one card is', () => {
  const cards = (...booked: (number | null)[]) => runtime({ cards: booked.map(share => ({ booked: share })) as unknown as Runtime['cards'] });
  assert.equal(formatting.bookedMemory(cards(1, 2)), 3);
  assert.equal(formatting.bookedMemory(cards(1, null)), null);
  assert.equal(formatting.bookedMemory(cards()), null);
});
