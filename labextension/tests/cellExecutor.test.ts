import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { INotebookCellExecutor } from '@jupyterlab/notebook';
import { CellExecutor, type Fate, NotRun, type NotRunReason, RunGates } from '../src/notebook/cellExecutor';

type RunOptions = INotebookCellExecutor.IRunCellOptions;

const notebook = {};

function cell(name: string, type = 'code'): RunOptions {
  return { notebook, cell: { name, isDisposed: false, model: { type } } } as unknown as RunOptions;
}

function nameOf({ cell }: RunOptions): string {
  return (cell as unknown as { name: string }).name;
}

interface IRecording {
  executor: CellExecutor;
  ran: string[];
  reported: NotRunReason[];
}

/** `fates`: what becomes of the first requests; the others are answered. */
function recording(gates: RunGates, fates: Fate[] = []): IRecording {
  const ran: string[] = [];
  const reported: NotRunReason[] = [];
  const executor = new CellExecutor({
    gates,
    isAsking: options => nameOf(options) === 'asks',
    called: () => undefined,
    run: async options => {
      ran.push(nameOf(options));
      return fates.length === 0;
    },
    watch: () => () => fates.shift() ?? 'cancelled',
    report: reason => reported.push(reason)
  });
  return { executor, ran, reported };
}

test('cells run in the order of the calls, whichever gate is the slowest', async () => {
  const gates = new RunGates();
  gates.add(options => new Promise(done => setTimeout(done, nameOf(options) === 'first' ? 20 : 0)));
  const { executor, ran } = recording(gates);
  await Promise.all(['first', 'second', 'third'].map(name => executor.runCell(cell(name))));
  assert.deepEqual(ran, ['first', 'second', 'third']);
});

test('a gate that fails does not keep a cell from running', async context => {
  context.mock.method(console, 'error', () => undefined);
  const gates = new RunGates();
  const passed: string[] = [];
  gates.add(() => Promise.reject(new Error('the server does not answer')));
  gates.add(async () => void passed.push('second gate'));
  const { executor, ran } = recording(gates);
  assert.ok(await executor.runCell(cell('one')));
  assert.deepEqual([ran, passed], [['one'], ['second gate']]);
});

test('a text cell is rendered at once', () => {
  const gates = new RunGates();
  gates.add(() => new Promise(() => undefined));
  const { executor, ran } = recording(gates);
  void executor.runCell(cell('text', 'markdown'));
  assert.deepEqual(ran, ['text']);
});

test('a cell that was deleted meanwhile does not run', async () => {
  const gates = new RunGates();
  const options = cell('deleted');
  gates.add(async () => void Object.assign(options.cell, { isDisposed: true }));
  const { executor, ran } = recording(gates);
  assert.ok(!(await executor.runCell(options)));
  assert.deepEqual(ran, []);
});

test('a cell that no runtime has got is run again', async () => {
  const { executor, ran, reported } = recording(new RunGates(), ['unsent', 'unsent']);
  assert.ok(await executor.runCell(cell('one')));
  assert.deepEqual([ran, reported], [['one', 'one', 'one'], []]);
});

test('a cell whose runtime was stopped is reported, and not run again', async () => {
  const { executor, ran, reported } = recording(new RunGates(), ['stopped']);
  assert.ok(!(await executor.runCell(cell('one'))));
  assert.deepEqual([ran, reported], [['one'], ['stopped']]);
});

test('if no runtime can be started, the cells that wait do not try again; later ones do', async () => {
  const gates = new RunGates();
  let tries = 0;
  gates.add(async () => {
    tries += 1;
    await new Promise(done => setTimeout(done, 5));
    if (tries === 1) {
      throw new NotRun('not-connected');
    }
  });
  const { executor, ran, reported } = recording(gates);
  await Promise.all(['first', 'second', 'third'].map(name => executor.runCell(cell(name))));
  assert.deepEqual([tries, ran, reported], [1, [], ['not-connected']]);
  assert.ok(await executor.runCell(cell('later')));
  assert.deepEqual(ran, ['later']);
});

test('a cell that waits for an answer is not run again, and others are', async () => {
  const { executor, ran } = recording(new RunGates());
  assert.equal(await executor.runCell(cell('asks')), false);
  assert.ok(await executor.runCell(cell('other')));
  assert.deepEqual(ran, ['other']);
});

test('a cell that fails does not reject if it is tagged as one that may', async () => {
  const failed = new Error('KernelReplyNotOK: NameError x');
  const executor = new CellExecutor({
    gates: new RunGates(),
    isAsking: () => false,
    called: () => undefined,
    run: () => Promise.reject(failed),
    watch: () => () => 'cancelled',
    report: () => undefined
  });
  const tagged = (tags: unknown): RunOptions => ({ notebook, cell: { model: { type: 'code', getMetadata: () => tags } } }) as unknown as RunOptions;
  assert.ok(await executor.runCell(tagged(['raises-exception'])));
  for (const tags of [undefined, 'raises-exception', ['other']]) {
    await assert.rejects(executor.runCell(tagged(tags)), failed);
  }
});
