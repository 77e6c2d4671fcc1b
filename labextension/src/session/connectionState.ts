/** How far each of JupyterLab's connections to a kernel has come in the line, and what it said that was not taken yet. */
import type { KernelMessage } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import { mark, Told } from './messageSerializer';

/** A notebook that is opened attaches within this time; a connection that nobody attaches goes on without. */
const PATIENCE = 10_000;

/** The socket in front of a connection, as far as its follower needs it. */
export interface IFollowing {
  /** For JupyterLab it is open from now on, whether the server is there or not. */
  open(): void;
  /** Deliver what waited. */
  flush(): void;
  deliver(told: Told): void;
  /** Deliver nothing more: JupyterLab is about to replace this socket. */
  leave(): void;
}

/** What a notebook must ask the server about: an execution that this page did not begin; messages that it missed for good. */
export type Need = 'strange' | 'behind';

export class Follower {
  constructor(
    readonly kernel: string,
    readonly client: string,
    private readonly _sent: Set<string>
  ) {}

  /** The number of the last message that came; null: from now on. */
  received: number | null = null;
  /** Everything up to this number is in the notebook; the server merges what is newer. */
  handled = 0;
  /** Of the kernel: JupyterLab drops messages of any other. */
  session = '';
  /** Whether a notebook follows here: its cells show what comes. */
  attached = false;
  /** The kernel restarts: what was said before is of no use to the next one. */
  restarted = false;
  /** Counts the kernels that were here. */
  launch = 0;
  /** What JupyterLab says meanwhile is not passed on. */
  muted = false;
  socket: IFollowing | null = null;
  /** Message id -> what was sent, until it is taken: after an absence it is sent again. */
  readonly outbox = new Map<string, ArrayBuffer>();
  /** Execution -> the id of its cell. */
  readonly cells = new Map<string, string>();

  get needs(): ISignal<this, Need> {
    return this._needs;
  }

  /** Let nothing come through until `resume`. */
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

  /** Fulfilled while nothing is held back. */
  get released(): Promise<void> {
    return this._pause?.promise ?? Promise.resolve();
  }

  /** Give JupyterLab a message now, or as soon as it has a socket. */
  tell(told: Told): void {
    if (this.socket) {
      this.socket.deliver(told);
    } else {
      this._untold.push(told);
    }
  }

  /** What waited for a socket. */
  takeUntold(): Told[] {
    return this._untold.splice(0);
  }

  /** An execution was retold up to a number: what comes late of it is not shown again; its request is not sent. */
  retold(execution: string, number: number, cell: string): void {
    this._met.add(execution);
    this.cells.set(execution, cell);
    this._retold.set(execution, number);
  }

  /** Whether a message is to be sent; remembers it until it is taken. */
  sends(message: KernelMessage.IMessage, data: ArrayBuffer): boolean {
    const { msg_id, msg_type } = message.header;
    if (this.muted || this._retold.has(msg_id)) {
      return false;
    }
    if (msg_type === 'execute_request') {
      this._sent.add(msg_id);
      this.cells.set(msg_id, String(message.metadata['cellId'] ?? ''));
    }
    this.outbox.set(msg_id, data);
    return true;
  }

  /** Called with each message of the line, before JupyterLab handles it. */
  readonly met = (message: KernelMessage.IMessage, number: number): void => {
    this.session = message.header.session;
    const parent = parentOf(message);
    if (parent && message.channel !== 'iopub') {
      this.outbox.delete(parent.msg_id); // answered, by the server itself perhaps: then nothing says that it was taken
    }
    if (parent && number !== 0 && number <= (this._retold.get(parent.msg_id) ?? 0)) {
      message.parent_header = { ...parent, msg_id: '' };
      return;
    }
    if (message.channel === 'iopub') {
      const state = message.header.msg_type === 'status' ? (message.content as KernelMessage.IStatusMsg['content']).execution_state : null;
      if (state === 'restarting') {
        this.forget();
        this.restarted = number === 0; // told by Jupyter, perhaps before the line had it: it would be told again
        this.socket?.leave();
      } else if (parent?.msg_type === 'execute_request' && state !== 'idle' && this._isStrange(parent.msg_id)) {
        // Begun elsewhere; or long done, and a thread of its goes on.
        this._met.add(parent.msg_id);
        this._needs.emit('strange');
      }
    }
  };

  /** Somebody, here or elsewhere, typed what an execution asked for. */
  answered(execution: string, value: string | null, position: number): void {
    if (position > (this._retold.get(execution) ?? 0)) {
      this.tell(new Told(mark('ownlab_answered', this.session, execution, { value })));
    }
  }

  /** Some page has answered google.colab, or has said that it will. */
  replied(id: string, ack: boolean): void {
    this.tell(new Told(mark('ownlab_replied', this.session, '', { id, ack })));
  }

  /** Messages are missing that the server has no more one by one. */
  behind(): void {
    this._needs.emit('behind');
  }

  /** The kernel is another one now. */
  forget(): void {
    this.launch += 1;
    this.outbox.clear();
    this.cells.clear();
    this._retold.clear();
  }

  private _isStrange(execution: string): boolean {
    return !this._sent.has(execution) && !this._met.has(execution);
  }

  private readonly _needs = new Signal<this, Need>(this);
  /** Executions of others that the server was asked about. */
  private readonly _met = new Set<string>();
  /** Execution -> the number up to which its messages were retold. */
  private readonly _retold = new Map<string, number>();
  private readonly _untold: Told[] = [];
  private _pause: PromiseDelegate<void> | null = null;
}

/** null: it answers nothing. */
function parentOf({ parent_header }: KernelMessage.IMessage): KernelMessage.IHeader | null {
  return 'msg_id' in parent_header ? (parent_header as KernelMessage.IHeader) : null;
}

/** All of this page. */
export class Followers {
  /** The one of a connection; a new one is held back where a notebook is about to attach to the kernel. */
  of(kernel: string, client: string): Follower {
    const key = `${kernel}/${client}`;
    let found = this._all.get(key);
    if (!found) {
      found = new Follower(kernel, client, this._sent);
      this._all.set(key, found);
      this._hold(found);
    }
    return found;
  }

  /** A notebook was read that has everything up to a number of a runtime: its connection begins there. */
  expect(kernel: string, position: number): void {
    if (!this._of(kernel).some(one => one.attached)) {
      this._expected.set(kernel, position);
    }
  }

  /** Up to where a notebook was merged that is about to attach. */
  expected(kernel: string): number {
    return this._expected.get(kernel) ?? 0;
  }

  /** A notebook attaches: other connections to its kernel need not wait for one. */
  attaches(follower: Follower): void {
    follower.attached = true;
    this._expected.delete(follower.kernel);
    this._of(follower.kernel)
      .filter(one => !one.attached)
      .forEach(one => one.resume());
  }

  /** This page asked for a restart: JupyterLab has forgotten what it sent. */
  restarting(kernel: string): void {
    this._of(kernel).forEach(one => one.forget());
  }

  /** The next socket of each begins with the new kernel. */
  restarted(kernel: string): void {
    for (const one of this._of(kernel)) {
      one.restarted = true;
    }
  }

  drop(follower: Follower): void {
    this._all.delete(`${follower.kernel}/${follower.client}`);
  }

  private _hold(follower: Follower): void {
    const position = this._expected.get(follower.kernel);
    if (position === undefined) {
      return;
    }
    follower.pause();
    window.setTimeout(() => {
      if (!follower.attached && follower.paused) {
        follower.received ??= position;
        this._expected.delete(follower.kernel);
        follower.resume();
      }
    }, PATIENCE);
  }

  private _of(kernel: string): Follower[] {
    return [...this._all.values()].filter(one => one.kernel === kernel);
  }

  private readonly _all = new Map<string, Follower>();
  private readonly _expected = new Map<string, number>();
  /** Executions that this page began. */
  private readonly _sent = new Set<string>();
}
