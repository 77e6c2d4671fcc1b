import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KernelMessage } from '@jupyterlab/services';
import { type ConnectionState, ConnectionStates, type IJournalSocket } from '../src/session/connectionState';
import { LocalMessage } from '../src/session/messageSerializer';

type Message = KernelMessage.IMessage;

function message(type: string, id: string, { parent = '', channel = 'iopub', content = {}, metadata = {} } = {}): Message {
  const header = { msg_id: id, msg_type: type, session: 'kernel' };
  const parent_header = parent ? { ...header, msg_id: parent, msg_type: 'execute_request' } : {};
  return { channel, header, parent_header, content, metadata } as unknown as Message;
}

/** A socket that records what is delivered. */
class RecordingSocket implements IJournalSocket {
  delivered: LocalMessage[] = [];
  flushed = 0;
  stopped = false;

  open(): void {}
  flush(): void {
    this.flushed += 1;
  }
  deliver(message: LocalMessage): void {
    this.delivered.push(message);
  }
  stopDelivering(): void {
    this.stopped = true;
  }
}

function connected(): { state: ConnectionState; socket: RecordingSocket; reasons: string[] } {
  const state = new ConnectionStates().get('kernel-1', 'client-1');
  const socket = new RecordingSocket();
  state.socket = socket;
  const reasons: string[] = [];
  state.attachNeeded.connect((_, reason) => {
    reasons.push(reason);
  });
  return { state, socket, reasons };
}

const BYTES = new ArrayBuffer(1);

test('a message is kept until the kernel replies to it', () => {
  const { state } = connected();
  assert.ok(state.enqueue(message('execute_request', 'e1', { channel: 'shell', metadata: { cellId: 'cell' } }), BYTES));
  assert.equal(state.cellIds.get('e1'), 'cell');
  state.onMessage(message('stream', 'm1', { parent: 'e1' }), 1);
  assert.ok(state.outbox.has('e1'));
  state.onMessage(message('execute_reply', 'm2', { parent: 'e1', channel: 'shell' }), 2);
  assert.equal(state.outbox.size, 0);
});

test('nothing is sent while muted, and a replayed execution is not sent again', () => {
  const { state } = connected();
  state.muted = true;
  assert.ok(!state.enqueue(message('execute_request', 'e1'), BYTES));
  state.muted = false;
  state.markReplayed('e2', 7, 'cell');
  assert.ok(!state.enqueue(message('execute_request', 'e2'), BYTES));
  assert.equal(state.outbox.size, 0);
});

test('messages that were replayed already lose their parent, so that no cell shows them twice', () => {
  const { state, reasons } = connected();
  state.markReplayed('e1', 7, 'cell');
  const old = message('stream', 'm1', { parent: 'e1' });
  const newer = message('stream', 'm2', { parent: 'e1' });
  state.onMessage(old, 7);
  state.onMessage(newer, 8);
  assert.equal((old.parent_header as KernelMessage.IHeader).msg_id, '');
  assert.equal((newer.parent_header as KernelMessage.IHeader).msg_id, 'e1');
  assert.deepEqual(reasons, []);
});

test('an execution of another page is asked about once, an own one never', () => {
  const { state, reasons } = connected();
  state.enqueue(message('execute_request', 'own'), BYTES);
  state.onMessage(message('stream', 'm1', { parent: 'own' }), 1);
  state.onMessage(message('status', 'm2', { parent: 'idle-only', content: { execution_state: 'idle' } }), 2);
  assert.deepEqual(reasons, []);
  state.onMessage(message('status', 'm3', { parent: 'other', content: { execution_state: 'busy' } }), 3);
  state.onMessage(message('stream', 'm4', { parent: 'other' }), 4);
  assert.deepEqual(reasons, ['unknown-execution']);
});

test('executions of one page are known to all of its connections', () => {
  const states = new ConnectionStates();
  const reasons: string[] = [];
  const [one, other] = [states.get('kernel', 'a'), states.get('kernel', 'b')];
  other.attachNeeded.connect((_, reason) => {
    reasons.push(reason);
  });
  one.enqueue(message('execute_request', 'e1'), BYTES);
  other.onMessage(message('stream', 'm1', { parent: 'e1' }), 1);
  assert.deepEqual(reasons, []);
  assert.equal(states.get('kernel', 'a'), one);
});

test('a restart forgets what concerned the old kernel', () => {
  const { state, socket } = connected();
  state.enqueue(message('execute_request', 'e1'), BYTES);
  state.onMessage(message('status', 'm1', { content: { execution_state: 'restarting' } }), 5);
  assert.equal(state.outbox.size, 0);
  assert.equal(state.cellIds.size, 0);
  assert.equal(state.kernelGeneration, 1);
  assert.ok(socket.stopped);
  assert.ok(!state.restarted); // the journal itself has reported it
  state.onMessage(message('status', 'm2', { content: { execution_state: 'restarting' } }), 0);
  assert.ok(state.restarted);
});

test('messages wait for a socket', () => {
  const state = new ConnectionStates().get('kernel', 'client');
  state.colabReplied('request', true);
  assert.equal(state.takeUndelivered().length, 1);
  assert.equal(state.takeUndelivered().length, 0);
});

test('an answer to input() is passed on unless it was replayed', () => {
  const { state, socket } = connected();
  state.markReplayed('e1', 7, 'cell');
  state.inputAnswered('e1', 'old', 7);
  state.inputAnswered('e1', 'new', 8);
  assert.deepEqual(socket.delivered.map(({ message }) => message.content), [{ value: 'new' }]);
});

test('a connection is paused until the notebook attaches', async context => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  Object.assign(globalThis, { window: globalThis });
  const states = new ConnectionStates();
  states.expectAttachment('kernel', 42);
  assert.equal(states.expectedPosition('kernel'), 42);
  const [notebook, console] = [states.get('kernel', 'notebook'), states.get('kernel', 'console')];
  assert.ok(notebook.paused && console.paused);
  states.markAttached(notebook);
  assert.ok(!console.paused);
  assert.ok(notebook.paused); // it resumes when its cells are attached
  notebook.resume();
  await notebook.whenResumed;
  assert.equal(states.expectedPosition('kernel'), 0);
});

test('a connection continues at the merged position if no notebook attaches', context => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  Object.assign(globalThis, { window: globalThis });
  const states = new ConnectionStates();
  states.expectAttachment('kernel', 42);
  const state = states.get('kernel', 'client');
  context.mock.timers.tick(10_000);
  assert.ok(!state.paused);
  assert.equal(state.receivedPosition, 42);
});

test('a death is delivered once per cell, and lasts until another kernel starts', () => {
  const states = new ConnectionStates();
  const state = states.get('kernel-1', 'client-1');
  const socket = new RecordingSocket();
  state.socket = socket;
  state.markReplayed('replayed', 9, 'cell-1');
  const output = { output_type: 'error' as const, ename: 'KernelDied', evalue: 'why', traceback: [] };
  const note = (msg_id: string): { msg_id: string; cell: string; output: typeof output } => ({ msg_id, cell: 'cell-1', output });
  state.kernelDied({ at: 1, cell: 'cell-1', summary: 'why' }, [note('replayed'), note('live')], 9);
  const content = socket.delivered.at(-1)?.message.content as unknown as { notes: { msg_id: string }[] };
  assert.deepEqual(
    content.notes.map(({ msg_id }) => msg_id),
    ['live'],
    'the replay of the other one contains its note'
  );
  assert.equal(states.hasDied('kernel-1', 'client-1'), true);
  state.onMessage(message('status', 'm1', { content: { execution_state: 'restarting' } }), 0);
  state.takeSocket(socket);
  assert.equal(states.hasDied('kernel-1', 'client-1'), false);
});

test('a cell that is run before the position is known is meant for the kernel that the page hears of next', () => {
  const { state, socket } = connected();
  state.receivedPosition = 7;
  state.cellRun('again');
  state.cellRun('waiting');
  state.onMessage(message('status', 'm1', { content: { execution_state: 'restarting' } }), 0);
  state.takeSocket(socket);
  assert.equal(state.receivedPosition, null);
  state.cellRun('again');
  assert.equal(state.runPosition('again'), null); // not 7, which was before the kernel died
  state.receivedPosition = 12;
  state.receivedPosition = 30;
  assert.equal(state.runPosition('again'), 12);
  assert.equal(state.runPosition('waiting'), 7);
});

test('a kernel has died until JupyterLab connects to the next one', () => {
  const states = new ConnectionStates();
  const state = states.get('kernel-1', 'client-1');
  state.kernelDied({ at: 1, cell: null, summary: 'killed' }, [], 3);
  state.onMessage(message('status', 'm1', { content: { execution_state: 'restarting' } }), 0);
  assert.ok(states.hasDied('kernel-1', 'client-1')); // JupyterLab will still forget what it has sent
  state.takeSocket(new RecordingSocket());
  assert.ok(!states.hasDied('kernel-1', 'client-1'));
  state.kernelDied({ at: 2, cell: null, summary: 'killed again' }, [], 9);
  state.takeSocket(new RecordingSocket()); // another connection to the same kernel
  assert.ok(states.hasDied('kernel-1', 'client-1'));
});
