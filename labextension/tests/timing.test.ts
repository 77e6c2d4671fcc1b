import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeTiming, formatClock, formatSeconds, storedTiming, wasCutShort } from '../src/cells/timing';

const START = '2026-11-16T10:00:00.000Z';
const AT = Date.parse(START) / 1000;

test('durations', () => {
  const shown = [0.01, 0.05, 0.44, 9.94, 9.96, 59.4, 59.6, 725, 3725.2].map(formatSeconds);
  assert.deepEqual(shown, ['<0.1 s', '0.1 s', '0.4 s', '9.9 s', '10 s', '59 s', '1:00', '12:05', '1:02:05']);
  assert.deepEqual([-1, 0.9, 61.9, 36_000].map(formatClock), ['0:00', '0:00', '1:01', '10:00:00']);
});

test('the timing of JupyterLab', () => {
  const whole = {
    'iopub.status.busy': '2026-11-16T09:59:59.000Z',
    'iopub.execute_input': '2026-11-16T09:59:59.500Z',
    'shell.execute_reply.started': START,
    'shell.execute_reply': '2026-11-16T10:00:02.500Z',
    'ownlab.person': 'ann'
  };
  assert.deepEqual(storedTiming(whole, undefined), { startedAt: AT, seconds: 2.5, person: 'ann' });
  const died = { 'iopub.execute_input': START, execution_failed: '2026-11-16T10:01:00Z' };
  assert.deepEqual(storedTiming(died, undefined), { startedAt: AT, seconds: 60, person: null });
  for (const unusable of [undefined, null, 3, 'text', {}, { 'iopub.execute_input': START }, { 'shell.execute_reply': START }]) {
    assert.equal(storedTiming(unusable, undefined), null);
  }
  assert.equal(storedTiming({ 'iopub.execute_input': START, 'shell.execute_reply': '2026-11-16T09:00:00Z' }, null), null);
  assert.equal(storedTiming({ 'iopub.execute_input': 'soon', 'shell.execute_reply': START }, null), null);
});

test('a cell that was cut short', () => {
  assert.equal(wasCutShort({ 'iopub.execute_input': START, execution_failed: '2026-11-16T10:01:00Z' }), true);
  for (const other of [undefined, null, 'text', {}, { 'iopub.execute_input': START }, { execution_failed: START, 'shell.execute_reply': START }]) {
    assert.equal(wasCutShort(other), false);
  }
});

test('the timing of Colab', () => {
  const info = { elapsed: 1_500, timestamp: 1000 * AT + 1_500, status: 'ok', user: { displayName: 'Ann Other', userId: '1' }, user_tz: -60 };
  assert.deepEqual(storedTiming(undefined, info), { startedAt: AT, seconds: 1.5, person: 'Ann Other' });
  assert.deepEqual(storedTiming(undefined, { elapsed: 0, timestamp: 1000 * AT }), { startedAt: AT, seconds: 0, person: null });
  assert.equal(storedTiming(undefined, { elapsed: -1, timestamp: 1 }), null);
  assert.equal(storedTiming(undefined, { timestamp: 1 }), null);
});

test('who ran a cell, and when', () => {
  const timing = { startedAt: AT, seconds: 3.14, person: 'ann' };
  assert.match(describeTiming(timing, 'ann', AT + 60), /^You ran this cell at \d\d:\d\d\. It took 3\.1 s\.$/);
  assert.match(describeTiming(timing, 'bob', AT + 60), /^ann ran this cell at /);
  assert.match(describeTiming({ ...timing, person: null }, null, AT + 60), /^This cell ran at /);
  assert.match(describeTiming(timing, 'ann', AT + 30 * 86_400), /at 2026-11-16 \d\d:\d\d\./);
});
