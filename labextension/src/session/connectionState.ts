/** State of each of JupyterLab's connections to a kernel: the position reached in the journal, and messages not yet confirmed by the server. */
import type { KernelMessage } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import type { IDeath, IDeathNote } from '../api';
import { LocalMessage, makeMessage } from './messageSerializer';

/** A notebook that was opened attaches within this time. After it, the connection continues without a notebook. */
const ATTACH_TIMEOUT_MS = 10_000;

/** The socket of a connection, as far as its state uses it. */
export interface IJournalSocket {
  /** Report the socket as open to JupyterLab, whether or not the server is reachable. */
  open(): void;
  /** Deliver buffered messages. */
  flush(): void;
  deliver(message: LocalMessage): void;
  /** Deliver nothing more: JupyterLab is about to replace this socket. */
  stopDelivering(): void;
}

/** Why a notebook must attach again: an execution that this page did not start, or messages that can no longer be delivered one by one. */
export type AttachReason = 'unknown-execution' | 'behind';

export class ConnectionState {
  constructor(
    readonly kernel: string,
    readonly client: string,
    private readonly _ownExecutions: Set<string>
  ) {}

  /** Position of the last message received; null: start with the next message. */
  get receivedPosition(): number | null {
    return this._receivedPosition;
  }
  set receivedPosition(position: number | null) {
    if (this._receivedPosition === null && position !== null) {
      this._runEarly.forEach(cell => this._runPositions.set(cell, position));
      this._runEarly.clear();
    }
    this._receivedPosition = position;
  }

  /** The notebook contains everything up to this position; the server merges what is newer. */
  handledPosition = 0;
  /** The kernel's session: JupyterLab drops messages of any other session. */
  session = '';
  /** Whether a notebook is attached and shows the messages in its cells. */
  attached = false;
  /** The kernel restarts: messages from before do not concern the new kernel. */
  restarted = false;
  /** The kernel has died, and JupyterLab has not taken over another one yet. */
  died = false;
  /** Number of restarts seen so far. */
  kernelGeneration = 0;
  /** While true, messages from JupyterLab are not sent. */
  muted = false;
  socket: IJournalSocket | null = null;
  /** Message id -> bytes sent but not confirmed; sent again after a reconnect. */
  readonly outbox = new Map<string, ArrayBuffer>();
  /** Execution -> id of its cell. */
  readonly cellIds = new Map<string, string>();

  get attachNeeded(): ISignal<this, AttachReason> {
    return this._attachNeeded;
  }

  /** JupyterLab has opened a socket; for another kernel, if it has heard of a restart. */
  takeSocket(socket: IJournalSocket): void {
    this.socket = socket;
    if (this.restarted) {
      this.restarted = false;
      this.receivedPosition = null;
    }
    if (this._forgotten) {
      this._forgotten = this.died = false;
    }
  }

  /** Hold back all messages until `resume`. */
  pause(): void {
    this._pause ??= new PromiseDelegate<void>();
  }

  resume(): void {
    const pause = this._pause;
    this._pause = null;
    this.socket?.flush();
    pause?.resolve();
  }

  get paused(): boolean {
    return this._pause !== null;
  }

  /** Resolved unless paused. */
  get whenResumed(): Promise<void> {
    return this._pause?.promise ?? Promise.resolve();
  }

  /** Deliver a message to JupyterLab now, or as soon as there is a socket. */
  deliver(message: LocalMessage): void {
    if (this.socket) {
      this.socket.deliver(message);
    } else {
      this._undelivered.push(message);
    }
  }

  /** Return and forget the messages that waited for a socket. */
  takeUndelivered(): LocalMessage[] {
    return this._undelivered.splice(0);
  }

  /** Record that an execution was replayed up to a position: its late messages are not shown again, and its request is not sent. */
  markReplayed(execution: string, position: number, cell: string): void {
    this._knownExecutions.add(execution);
    this.cellIds.set(execution, cell);
    this._replayed.set(execution, position);
  }

  /** Return whether a message must be sent, and keep it until the server confirms it. */
  enqueue(message: KernelMessage.IMessage, data: ArrayBuffer): boolean {
    const { msg_id, msg_type } = message.header;
    if (this.muted || this._replayed.has(msg_id)) {
      return false;
    }
    if (msg_type === 'execute_request') {
      this._ownExecutions.add(msg_id);
      this.cellIds.set(msg_id, String(message.metadata['cellId'] ?? ''));
    }
    this.outbox.set(msg_id, data);
    return true;
  }

  /** Called with each message of the journal before JupyterLab handles it. */
  readonly onMessage = (message: KernelMessage.IMessage, position: number): void => {
    this.session = message.header.session;
    const parent = parentOf(message);
    if (parent && message.channel !== 'iopub') {
      this.outbox.delete(parent.msg_id); // the server may answer a request itself, without confirming it first
    }
    if (parent && position !== 0 && position <= (this._replayed.get(parent.msg_id) ?? 0)) {
      message.parent_header = { ...parent, msg_id: '' };
      return;
    }
    if (message.channel === 'iopub') {
      const state = message.header.msg_type === 'status' ? (message.content as KernelMessage.IStatusMsg['content']).execution_state : null;
      if (state === 'restarting') {
        this.reset();
        this.restarted = position === 0; // reported by Jupyter, possibly before the journal, which will repeat it
        this.socket?.stopDelivering();
      } else if (state === 'starting') {
        this.died = false;
      } else if (parent?.msg_type === 'execute_request' && state !== 'idle' && this._isUnknown(parent.msg_id)) {
        // Started elsewhere; or finished long ago, with a thread that still prints.
        this._knownExecutions.add(parent.msg_id);
        this._attachNeeded.emit('unknown-execution');
      }
    }
  };

  /** input() was answered, in this page or another one. */
  inputAnswered(execution: string, value: string | null, position: number): void {
    if (position > (this._replayed.get(execution) ?? 0)) {
      this.deliver(new LocalMessage(makeMessage('ownlab_answered', this.session, execution, { value })));
    }
  }

  /** A page has answered a request of google.colab, or announced that it will. */
  colabReplied(id: string, ack: boolean): void {
    this.deliver(new LocalMessage(makeMessage('ownlab_replied', this.session, '', { id, ack })));
  }

  /** The kernel died; the server will start another one, or has given it up. */
  kernelDied(death: IDeath, notes: readonly IDeathNote[], position: number): void {
    this.died = true;
    const missing = notes.filter(note => position > (this._replayed.get(note.msg_id) ?? 0));
    this.deliver(new LocalMessage(makeMessage('ownlab_died', this.session, '', { death, notes: missing }), position));
  }

  /** Cells were run before this page knew that the kernel had died: its successor does not run them. */
  cellsNotRun(notes: readonly IDeathNote[], position: number): void {
    this.deliver(new LocalMessage(makeMessage('ownlab_not_run', this.session, '', { notes }), position));
  }

  /** A cell is run: from now on it may have to wait until it is sent. */
  cellRun(cell: string): void {
    if (this.receivedPosition === null) {
      this._runPositions.delete(cell); // of an earlier run, which was meant for an earlier kernel
      this._runEarly.add(cell);
    } else {
      this._runPositions.set(cell, this.receivedPosition);
    }
  }

  /** Return the position received when a cell was run; null: not known. */
  runPosition(cell: string): number | null {
    return this._runPositions.get(cell) ?? null;
  }

  /** The server can no longer replay the missing messages one by one. */
  requestAttach(): void {
    this._attachNeeded.emit('behind');
  }

  /** Forget everything about the previous kernel. */
  reset(): void {
    this.kernelGeneration += 1;
    this._forgotten = true;
    this.outbox.clear();
    this.cellIds.clear();
    this._replayed.clear();
  }

  private _isUnknown(execution: string): boolean {
    return !this._ownExecutions.has(execution) && !this._knownExecutions.has(execution);
  }

  private readonly _attachNeeded = new Signal<this, AttachReason>(this);
  /** Executions of other pages that the notebook has already asked the server about. */
  private readonly _knownExecutions = new Set<string>();
  /** Execution -> position up to which it was replayed. */
  private readonly _replayed = new Map<string, number>();
  /** Cell -> position received when it was run last. */
  private readonly _runPositions = new Map<string, number>();
  /** Cells that were run while the position was not known: they get the first one that is. */
  private readonly _runEarly = new Set<string>();
  private _receivedPosition: number | null = null;
  /** JupyterLab forgets the kernel that was there, and will open another socket. */
  private _forgotten = false;
  private readonly _undelivered: LocalMessage[] = [];
  private _pause: PromiseDelegate<void> | null = null;
}

/** Return the header of the request that a message belongs to; null if there is none. */
function parentOf({ parent_header }: KernelMessage.IMessage): KernelMessage.IHeader | null {
  return 'msg_id' in parent_header ? (parent_header as KernelMessage.IHeader) : null;
}

/** The connections of this page. */
export class ConnectionStates {
  /** Return the state of a connection. A new one is paused if a notebook is about to attach to the kernel. */
  get(kernel: string, client: string): ConnectionState {
    const key = `${kernel}/${client}`;
    let state = this._states.get(key);
    if (!state) {
      state = new ConnectionState(kernel, client, this._ownExecutions);
      this._states.set(key, state);
      this._holdBack(state);
    }
    return state;
  }

  /** Return the state of a connection that exists. */
  find(kernel: string, client: string): ConnectionState | undefined {
    return this._states.get(`${kernel}/${client}`);
  }

  /** Return the position that a client had received when one of its cells was run; null: not known. */
  runPosition(cell: string, client: string): number | null {
    return [...this._states.values()].find(state => state.client === client)?.runPosition(cell) ?? null;
  }

  /** A notebook was read from the server, merged up to a position: its connection starts there. */
  expectAttachment(kernel: string, position: number): void {
    if (!this._forKernel(kernel).some(state => state.attached)) {
      this._expectedPositions.set(kernel, position);
    }
  }

  /** Return the position up to which the notebook was merged that is about to attach. */
  expectedPosition(kernel: string): number {
    return this._expectedPositions.get(kernel) ?? 0;
  }

  /** A notebook has attached: other connections to its kernel stop waiting for one. */
  markAttached(state: ConnectionState): void {
    state.attached = true;
    this._expectedPositions.delete(state.kernel);
    this._forKernel(state.kernel)
      .filter(other => !other.attached)
      .forEach(other => other.resume());
  }

  /** This page requested a restart: JupyterLab has forgotten what it sent. */
  onRestartRequested(kernel: string): void {
    this._forKernel(kernel).forEach(state => state.reset());
  }

  /** The next socket of each connection starts with the new kernel. */
  onRestarted(kernel: string): void {
    for (const state of this._forKernel(kernel)) {
      state.restarted = true;
    }
  }

  /** Return whether a kernel has died, and this page has not heard of another one. */
  hasDied(kernel: string, client: string): boolean {
    return this._states.get(`${kernel}/${client}`)?.died === true;
  }

  remove(state: ConnectionState): void {
    this._states.delete(`${state.kernel}/${state.client}`);
  }

  private _holdBack(state: ConnectionState): void {
    const position = this._expectedPositions.get(state.kernel);
    if (position === undefined) {
      return;
    }
    state.pause();
    window.setTimeout(() => {
      if (!state.attached && state.paused) {
        state.receivedPosition ??= position;
        this._expectedPositions.delete(state.kernel);
        state.resume();
      }
    }, ATTACH_TIMEOUT_MS);
  }

  private _forKernel(kernel: string): ConnectionState[] {
    return [...this._states.values()].filter(state => state.kernel === kernel);
  }

  private readonly _states = new Map<string, ConnectionState>();
  private readonly _expectedPositions = new Map<string, number>();
  /** Executions that this page started. */
  private readonly _ownExecutions = new Set<string>();
}
