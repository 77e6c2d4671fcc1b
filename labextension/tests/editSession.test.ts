import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { EditSession, type IConflictNotice, type ISessionNotebook } from '../src/edits/editSession';
import type { Changes, OutputsPatch, Patch } from '../src/records';
import { RequestError } from '../src/requestError';
import { MemoryNotebook } from './editedNotebook';

Object.assign(globalThis, { window: globalThis });

class SessionNotebook extends MemoryNotebook implements ISessionNotebook {
  readonly shown = new Map<string, OutputsPatch>();

  change(work: () => void): void {
    work();
  }
  outputs(id: string): OutputsPatch {
    return this.shown.get(id) ?? { outputs: [], execution_count: null };
  }
  hasNoOutputs(id: string): boolean {
    return this.outputs(id).outputs.length === 0 && this.outputs(id).execution_count === null;
  }
  isIdle(id: string): boolean {
    return this.running !== id;
  }
}

/** A server that keeps what it gets. Its answers can be delayed or replaced. */
class RecordingServer {
  readonly patches: Patch[] = [];
  version = 1;
  fetched = 0;
  answers: (Partial<Changes> | Error)[] = [];

  async send(patch: Patch): Promise<Changes> {
    this.patches.push(structuredClone(patch));
    this.version += 1;
    return this._answer();
  }
  async fetch(): Promise<Changes> {
    this.fetched += 1;
    return this._answer();
  }
  private _answer(): Changes {
    const answer = this.answers.shift() ?? {};
    if (answer instanceof Error) {
      throw answer;
    }
    return { version: this.version, cells: [], deleted: [], order: null, metadata: null, conflicts: [], recovered: [], ...answer };
  }
}

interface IOpened {
  notebook: SessionNotebook;
  server: RecordingServer;
  session: EditSession;
  state: { dirty: boolean; checks: number; hasJournal: boolean | null; back: Promise<void> };
  type: (id: string, source: string) => void;
}

function open(sources: Record<string, string> = { a: '1', b: '2' }): IOpened {
  const notebook = new SessionNotebook(sources);
  const server = new RecordingServer();
  const state = { dirty: false, checks: 0, hasJournal: true, back: Promise.resolve() };
  const session = new EditSession(
    {
      page: 'page',
      server,
      reachability: {
        check: async () => {
          state.checks += 1;
          return true;
        },
        get whenReachable() {
          return state.back;
        }
      },
      path: () => 'n.ipynb',
      client: () => 'client',
      seen: () => 'runtime/7',
      hasJournal: () => state.hasJournal,
      setDirty: dirty => {
        state.dirty = dirty;
      }
    },
    notebook,
    1
  );
  const type = (id: string, source: string): void => {
    notebook.type(id, source);
    session.onCellChanged(id, 'content');
  };
  return { notebook, server, session, state, type };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) {
    await Promise.resolve();
  }
}

function useTimers({ mock }: TestContext): (milliseconds: number) => Promise<void> {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  return async milliseconds => {
    mock.timers.tick(milliseconds);
    await settled();
  };
}

test('text is sent when typing rests, and once a second while it does not', async context => {
  const { server, state, type } = open();
  const wait = useTimers(context);
  type('a', '1x');
  assert.ok(state.dirty);
  await wait(299);
  assert.equal(server.patches.length, 0);
  await wait(1);
  assert.equal(server.patches.length, 1);
  assert.ok(!state.dirty);
  for (let count = 0; count < 10; count += 1) {
    type('a', `1x${count}`);
    await wait(200);
  }
  assert.equal(server.patches.length, 3);
  assert.deepEqual(
    server.patches.map(({ number, version }) => [number, version]),
    [[1, 1], [2, 2], [3, 3]]
  );
});

test('one request at a time; what was typed meanwhile is based on it', async () => {
  const { server, session, state, type } = open();
  type('a', 'first');
  const sent = session.flush();
  await Promise.resolve();
  type('a', 'second');
  assert.equal(server.patches.length, 1);
  await sent;
  assert.ok(state.dirty);
  await session.flush();
  assert.deepEqual(server.patches[1]?.cells?.[0]?.source, { base: 'first', text: 'second' });
  assert.ok(!state.dirty);
});

test('a lost answer: the same patch is sent again', async context => {
  const { server, session, state, type } = open();
  const wait = useTimers(context);
  server.answers = [new Error('the network is down'), new RequestError(502, 'no server')];
  type('a', 'x');
  const sent = session.flush();
  await settled();
  type('a', 'xy');
  await wait(500);
  await wait(500);
  await sent;
  await settled();
  const [first, second, third, next] = server.patches;
  assert.deepEqual([second, third], [first, first]);
  assert.equal(state.checks, 2);
  assert.deepEqual([next?.number, next?.cells?.[0]?.source], [2, { base: 'x', text: 'xy' }]);
  assert.ok(!state.dirty);
});

test('a full disk is reported, and the edits are kept', async context => {
  const { server, session, state, type } = open();
  const wait = useTimers(context);
  server.answers = [new RequestError(507, 'The disk is full.')];
  const failures: string[] = [];
  session.failureChanged.connect((_, failure) => void failures.push(failure));
  type('a', 'x');
  await wait(300);
  assert.equal(session.failure, 'The disk is full.');
  assert.ok(state.dirty);
  await wait(3_000);
  assert.deepEqual(failures, ['The disk is full.', '']);
  assert.ok(!state.dirty);
});

test('a server that accepts no edits: the notebook stays dirty, until it was saved as a whole', async context => {
  context.mock.method(console, 'warn', () => undefined);
  const { notebook, server, session, state, type } = open();
  const refusals: string[] = [];
  session.refused.connect((_, reason) => refusals.push(reason));
  server.answers = [new RequestError(409, 'The notebook is read-only.')];
  type('a', 'x');
  await session.flush();
  assert.ok(!session.isActive && state.dirty);
  assert.deepEqual([session.refusal, refusals], ['The notebook is read-only.', ['The notebook is read-only.']]);
  session.onSavedWhole(new MemoryNotebook({ a: 'x', b: '2' }));
  notebook.type('b', '3');
  await session.flush();
  assert.ok(session.isActive && !state.dirty);
  assert.equal(session.refusal, '');
  session.dispose();
  assert.deepEqual(server.patches.at(-1)?.cells, [{ id: 'b', type: 'code', source: { base: '2', text: '3' } }]);
});

test('a server that accepts no edits is asked again from time to time, and the user told once', async context => {
  context.mock.method(console, 'warn', () => undefined);
  const { server, session, state, type } = open();
  const wait = useTimers(context);
  const refusals: string[] = [];
  session.refused.connect((_, reason) => refusals.push(reason));
  const readOnly = new RequestError(409, 'The notebook is read-only.');
  server.answers = [readOnly, readOnly];
  type('a', 'x');
  await wait(300);
  await wait(15_000);
  assert.equal(server.patches.length, 2);
  assert.match(session.refusal, /read-only/);
  await wait(15_000);
  assert.deepEqual(server.patches.at(-1)?.cells, [{ id: 'a', type: 'code', source: { base: '1', text: 'x' } }]);
  assert.deepEqual([session.isActive, session.refusal, state.dirty], [true, '', false]);
  assert.deepEqual(refusals, ['The notebook is read-only.']);
  session.dispose();
});

test('outputs of a run are not sent, and leave nothing to send', async context => {
  const { notebook, server, session, state } = open();
  const wait = useTimers(context);
  notebook.running = 'a';
  session.onCellChanged('a', 'outputs');
  notebook.shown.set('a', { outputs: [{ output_type: 'stream' }], execution_count: 1 });
  session.onCellChanged('a', 'outputs');
  notebook.running = '';
  session.onCellChanged('a', 'outputs');
  assert.ok(!state.dirty);
  await wait(10_000);
  assert.equal(server.patches.length, 0);
});

test('what the kernel says of its language is sent after a run, whichever comes first', async context => {
  const tick = useTimers(context);
  for (const runsFirst of [true, false]) {
    const { notebook, server, session } = open();
    const info = (): void => {
      notebook.metadata = { kernelspec: { name: 'python3' }, language_info: { version: '3.12' } };
      session.onNotebookChanged();
    };
    notebook.metadata = { kernelspec: { name: 'python3' }, language_info: { version: '3.9' } };
    session.onReloaded(1, notebook.order);
    await tick(2000);
    const before = server.patches.length;
    (runsFirst ? (): void => session.onRun() : info)();
    await tick(2000);
    assert.equal(server.patches.length, before);
    (runsFirst ? info : (): void => session.onRun())();
    await tick(2000);
    assert.deepEqual(server.patches.at(-1)?.metadata?.set, { language_info: { version: '3.12' } });
    assert.ok(session.isSaved);
  }
});

test('outputs that the user cleared are sent, with the position in the journal', async context => {
  const { notebook, server, session } = open();
  const wait = useTimers(context);
  notebook.shown.set('a', { outputs: [{}], execution_count: 1 });
  session.onCellChanged('a', 'outputs');
  notebook.shown.delete('a');
  session.onCellChanged('a', 'outputs');
  await wait(300);
  assert.deepEqual(server.patches[0]?.cells, [{ id: 'a', type: 'code', outputs: { outputs: [], execution_count: null } }]);
  assert.equal(server.patches[0]?.seen, 'runtime/7');
  session.onCellChanged('a', 'outputs');
  await wait(300);
  assert.equal(server.patches.length, 1);
});

test('a cell that runs again is not taken as cleared', async context => {
  const { notebook, server, session } = open();
  const wait = useTimers(context);
  notebook.shown.set('a', { outputs: [{}], execution_count: 1 });
  session.onCellChanged('a', 'outputs');
  notebook.shown.delete('a');
  session.onCellChanged('a', 'outputs');
  notebook.running = 'a';
  await wait(300);
  assert.equal(server.patches.length, 0);
});

test('a kernel without a journal: its outputs are sent', async context => {
  const { notebook, server, session, state } = open();
  const wait = useTimers(context);
  state.hasJournal = false;
  const outputs = { outputs: [{ output_type: 'stream' }], execution_count: 1 };
  notebook.shown.set('a', outputs);
  session.onCellChanged('a', 'outputs');
  await wait(2_000);
  assert.deepEqual(server.patches[0]?.cells, [{ id: 'a', type: 'code', outputs }]);
});

test('a kernel without a journal: outputs that come while the cell is being sent as empty are sent afterwards', async context => {
  const { notebook, server, session, state } = open();
  const wait = useTimers(context);
  state.hasJournal = false;
  notebook.running = 'a';
  session.onCellChanged('a', 'outputs'); // it was run, which clears it
  let answer = (): void => undefined;
  const answered = new Promise<void>(done => (answer = done));
  const send = server.send.bind(server);
  server.send = async patch => {
    const changes = await send(patch);
    await answered;
    return changes;
  };
  await wait(2_000);
  assert.deepEqual(server.patches[0]?.cells, [{ id: 'a', type: 'code', outputs: { outputs: [], execution_count: null } }]);
  const outputs = { outputs: [{ output_type: 'stream' }], execution_count: 1 };
  notebook.shown.set('a', outputs);
  session.onCellChanged('a', 'outputs');
  notebook.running = '';
  answer();
  await settled();
  await wait(2_000);
  assert.deepEqual(server.patches[1]?.cells, [{ id: 'a', type: 'code', outputs }]);
  assert.equal(session.isSaved, true);
});

test('outputs that come long before it is known that the kernel has no journal are sent when it is', async context => {
  const { notebook, server, session, state } = open();
  const wait = useTimers(context);
  state.hasJournal = null;
  const outputs = { outputs: [{ output_type: 'stream' }], execution_count: 1 };
  notebook.shown.set('a', outputs);
  session.onCellChanged('a', 'outputs');
  await wait(2_000);
  await wait(2_000);
  assert.equal(server.patches.length, 0);
  state.hasJournal = false;
  await wait(2_000);
  assert.deepEqual(server.patches[0]?.cells, [{ id: 'a', type: 'code', outputs }]);
  await wait(10_000);
  assert.equal(server.patches.length, 1);
});

test('what another page changed is fetched and shown, and leaves nothing to send', async () => {
  const { notebook, server, session, state } = open();
  server.version = 5;
  server.answers = [{ cells: [{ id: 'a', type: 'code', source: '10', metadata: {} }] }];
  session.onVersion(5);
  await settled();
  assert.equal(notebook.text, 'a=10 b=2');
  assert.ok(!state.dirty);
  session.onVersion(5);
  await settled();
  assert.equal(server.patches.length, 0);
});

test('the page does not fetch its own patch', async () => {
  const { server, session, type } = open();
  type('a', 'x');
  const sent = session.flush();
  await Promise.resolve();
  session.onVersion(2); // before the answer, which has this version
  await sent;
  await session.flush();
  assert.deepEqual([server.patches.length, server.fetched], [1, 0]);
});

test('conflicts and recovered cells are reported', async () => {
  const { server, session, type } = open();
  const conflicts: IConflictNotice[] = [];
  session.conflicted.connect((_, conflict) => void conflicts.push(conflict));
  const conflict = { cell: 'a', other: 'theirs', at: 1 };
  server.answers = [{ conflicts: [conflict], recovered: [{ cell: 'b', other: 'old', at: 2 }] }];
  type('a', 'mine');
  await session.flush();
  assert.deepEqual(conflicts, [{ ...conflict, ours: true }]);
  assert.deepEqual(session.recovered, [{ cell: 'b', other: 'old', at: 2 }]);
  session.forgetRecovered('b');
  assert.deepEqual(session.recovered, []);
});

test('the page goes away: the rest is sent at once, with the request in flight', async () => {
  const { server, session, type } = open();
  type('a', 'first');
  const sent = session.flush();
  await Promise.resolve();
  type('a', 'second');
  session.sendLast();
  assert.deepEqual(
    server.patches.map(({ number, cells }) => [number, cells?.[0]?.source]),
    [
      [1, { base: '1', text: 'first' }],
      [2, { base: 'first', text: 'second' }]
    ]
  );
  assert.deepEqual(server.patches[1]?.before, server.patches[0], 'the other may arrive later, or never');
  await sent;
  session.sendLast();
  assert.equal(server.patches.length, 2);
});

test('the page goes away while a patch waits for the server: it is sent again', async () => {
  const { server, session, state, type } = open();
  let tell = (): void => undefined;
  server.answers = [new Error('away')];
  state.back = new Promise<void>(done => {
    tell = done;
  });
  type('a', 'first');
  const sent = session.flush();
  await new Promise(done => setTimeout(done));
  session.sendLast();
  assert.deepEqual(server.patches[1], server.patches[0]);
  tell();
  await sent;
});

test('a cell that was pasted brings its outputs', async () => {
  const { notebook, server, session } = open();
  notebook.add('pasted', 'x');
  const outputs = { outputs: [{ output_type: 'display_data' }], execution_count: 4 };
  notebook.shown.set('pasted', outputs);
  session.onNotebookChanged();
  await session.flush();
  assert.deepEqual(server.patches[0]?.cells, [{ id: 'pasted', type: 'code', source: { base: null, text: 'x' }, outputs }]);
});

test('a cell has been saved when the server has acknowledged its source, whatever happens to other cells', async () => {
  const { session, type } = open({ a: '1', b: '2' });
  type('a', '11');
  assert.equal(session.hasSource('a'), false);
  assert.equal(session.hasSource('b'), true);
  assert.equal(session.hasSource('unknown'), false);
  const saved = session.flush();
  assert.equal(session.hasSource('a'), false);
  await saved;
  assert.equal(session.hasSource('a'), true);
  session.dispose();
});
