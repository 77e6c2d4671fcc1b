import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { INotebookCellExecutor } from '@jupyterlab/notebook';
import { NotRun } from '../src/notebook/cellExecutor';
import { KernelGate } from '../src/notebook/kernelGate';

(globalThis as { window?: unknown }).window ??= globalThis;

const KERNEL = { id: 'k', name: 'python3', status: 'idle', isDisposed: false };

/** A session without a kernel that starts one when it is asked to. */
class Session {
  session: { kernel: typeof KERNEL | null } | null = null;
  isTerminating = false;
  isRestarting = false;
  pendingInput = false;
  isDisposed = false;
  ready = Promise.resolve();
  started = 0;
  kernelDisplayStatus = 'unknown';
  get hasNoKernel(): boolean {
    return !this.session;
  }
  async startKernel(): Promise<boolean> {
    this.started += 1;
    await new Promise(done => setTimeout(done, 20));
    this.session = { kernel: KERNEL };
    return false;
  }
}

/** A gate with a connector that starts one kernel for everybody, unless `fails`. */
function gateFor(fails = false): KernelGate {
  let connecting: Promise<boolean> | null = null;
  return new KernelGate(
    () => false,
    context => (connecting ??= fails ? Promise.resolve(false) : context.startKernel().then(() => true)),
    context => context.ready
  );
}

function options(sessionContext: Session): INotebookCellExecutor.IRunCellOptions {
  const cell = { model: { type: 'code', executionState: 'idle' }, isDisposed: false };
  return { cell, sessionContext } as unknown as INotebookCellExecutor.IRunCellOptions;
}

test('several cells that wait start one kernel', async () => {
  const session = new Session();
  const gate = gateFor();
  await Promise.all([gate.pass(options(session)), gate.pass(options(session)), gate.pass(options(session))]);
  assert.equal(session.started, 1);
});

test('a cell waits while a kernel is being shut down', async () => {
  const session = new Session();
  session.session = { kernel: KERNEL };
  session.isTerminating = true;
  setTimeout(() => {
    session.isTerminating = false;
    session.session = null;
  }, 30);
  const run = options(session);
  await gateFor().pass(run);
  assert.equal(session.started, 1);
});

test('a kernel that takes requests needs no waiting', async () => {
  const session = new Session();
  session.session = { kernel: KERNEL };
  const run = options(session);
  await gateFor().pass(run);
  assert.equal(session.started, 0);
  assert.equal((run.cell.model as unknown as { executionState: string }).executionState, 'idle');
});

test('a cell does not run if no runtime could be started', async () => {
  const run = options(new Session());
  await assert.rejects(gateFor(true).pass(run), (reason: unknown) => reason instanceof NotRun && reason.reason === 'not-connected');
  assert.equal((run.cell.model as unknown as { executionState: string }).executionState, 'idle');
});

test('a cell waits while the type of its runtime is being changed', async () => {
  const session = new Session();
  session.session = { kernel: { ...KERNEL, status: 'dead' } };
  session.kernelDisplayStatus = 'starting';
  setTimeout(() => (session.session = { kernel: KERNEL }), 30);
  await gateFor().pass(options(session));
  assert.equal(session.started, 0);
});
