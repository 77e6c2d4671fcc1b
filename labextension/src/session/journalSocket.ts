/**
 * A kernel's WebSocket that loses nothing: for JupyterLab it stays open while the server or the network is away.
 *
 * Each message has a number in the runtime's one line. After an absence the server is told the last number that came, and
 * goes on behind it; what JupyterLab sent and the server has not taken is sent again, and let through once. The socket
 * closes only where the server is there and refuses it: the kernel is gone.
 */
import type { Follower, IFollowing } from './connectionState';
import { Numbered, type Told, type Wire } from './messageSerializer';
import type { Reach, Reachability } from './reachability';
import { LOST, type Sendable, SocketFront } from './socketBase';

const V1 = 'v1.kernel.websocket.jupyter.org';
const NUMBER_BYTES = 8;
const LONGEST_WAIT = 5_000;
/** Nothing of what was sent is taken: the network may be gone without a word. */
const DOUBT = 5_000;

/** What the server says beside messages. */
interface IFrame {
  type: 'hello' | 'plain' | 'taken' | 'answered' | 'replied' | 'behind';
  position?: number;
  msg_id?: string;
  parent?: string | null;
  value?: string | null;
  ack?: boolean;
}

export class FollowingSocket extends SocketFront implements IFollowing {
  constructor(
    url: string,
    private readonly _protocols: string | string[],
    private readonly _follower: Follower,
    private readonly _wire: Wire,
    private readonly _reachability: Reachability
  ) {
    super(url);
    if (_follower.restarted) {
      _follower.restarted = false;
      _follower.received = null;
    }
    _follower.socket = this;
    _reachability.changed.connect(this._onReach, this);
    window.addEventListener('online', this._again);
    void this._connect();
  }

  override get protocol(): string {
    return this._socket?.protocol || this._protocol;
  }

  get readyState(): number {
    return this._ended ? this.CLOSED : this._opened ? this.OPEN : this.CONNECTING;
  }

  send(data: Sendable): void {
    if (!this._opened) {
      throw new DOMException('Still in CONNECTING state', 'InvalidStateError');
    }
    const message = data instanceof ArrayBuffer ? this._wire.messageOf(data) : undefined;
    if (this._mode === 'plain' || !message || !(data instanceof ArrayBuffer)) {
      this._socket?.send(data);
    } else if (this._follower.sends(message, data)) {
      if (this._socket?.readyState === WebSocket.OPEN) {
        this._socket.send(data);
      }
      window.setTimeout(() => this._doubt(message.header.msg_id), DOUBT);
    }
  }

  close(code?: number, reason?: string): void {
    this._ends({ code: code ?? LOST, reason });
  }

  open(): void {
    if (!this._opened && !this._ended) {
      this._opened = true;
      this._opens();
      this._follower.takeUntold().forEach(told => this.deliver(told));
    }
  }

  deliver(told: Told): void {
    this._says(told);
  }

  flush(): void {
    while (this._waiting.length > 0 && !this._follower.paused && !this._left) {
      try {
        this._take(this._waiting.shift());
      } catch (reason) {
        reportError(reason); // as the browser does with a handler that throws: the next one is delivered all the same
      }
    }
  }

  leave(): void {
    this._left = true;
    this._waiting.length = 0;
  }

  protected override _ends(event: CloseEventInit): void {
    this._reachability.changed.disconnect(this._onReach, this);
    window.removeEventListener('online', this._again);
    this._drop();
    if (this._follower.socket === this) {
      this._follower.socket = null;
    }
    super._ends(event);
  }

  private async _connect(): Promise<void> {
    await this._follower.released;
    await this._reachability.back;
    if (this._ended || this._socket) {
      return;
    }
    this._mode = 'unknown'; // another server may be there by now
    const after = this._follower.received ?? 'now';
    const socket = new WebSocket(`${this.url}${this.url.includes('?') ? '&' : '?'}ownlab_after=${after}`, this._protocols);
    this._socket = socket;
    socket.binaryType = 'arraybuffer';
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this._protocol = socket.protocol;
      for (const data of this._follower.outbox.values()) {
        socket.send(data);
      }
      this.open();
    };
    socket.onmessage = ({ data }) => this._came(data);
    socket.onclose = event => void this._lost(opened, event);
  }

  private async _lost(opened: boolean, event: CloseEvent): Promise<void> {
    this._socket = null;
    if (this._mode === 'plain' && opened) {
      void this._reachability.check();
      this._ends(event);
      return;
    }
    const there = await this._reachability.check();
    if (this._ended || this._socket) {
      return;
    }
    if (there && !opened) {
      this._fails();
      this._ends({ code: LOST });
      return;
    }
    this._tries += 1;
    if (this._tries > 1) {
      await new Promise(done => window.setTimeout(done, Math.min(this._tries * 500, LONGEST_WAIT)));
    }
    void this._connect();
  }

  /** Forget the browser's socket without a word. */
  private _drop(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  /** A network that came back may have left a socket that is dead and does not know it. */
  private readonly _again = (): void => {
    if (this._mode !== 'plain' && !this._ended) {
      this._drop();
      void this._connect();
    }
  };

  private _onReach(_: Reachability, reach: Reach): void {
    if (reach !== 'reachable') {
      this._again();
    }
  }

  private _doubt(id: string): void {
    if (this._socket?.readyState === WebSocket.OPEN && this._mode === 'following' && this._follower.outbox.has(id)) {
      void this._reachability.check();
    }
  }

  private _came(data: unknown): void {
    if (this._mode === 'unknown') {
      const frame = typeof data === 'string' ? parseFrame(data) : null;
      if (frame?.type === 'hello') {
        this._mode = 'following';
        this._tries = 0;
        this._follower.received ??= frame.position ?? 0;
        return;
      }
      this._mode = 'plain'; // a kernel that is not ours, or a server
      this._follower.outbox.clear();
      if (frame?.type === 'plain') {
        return;
      }
    }
    if (this._mode === 'plain') {
      this._says(data);
    } else if (this._follower.paused || this._waiting.length > 0) {
      this._waiting.push(data);
    } else {
      this._take(data);
    }
  }

  private _take(data: unknown): void {
    if (this._left) {
      return;
    }
    if (data instanceof ArrayBuffer) {
      const number = Number(new DataView(data).getBigUint64(0, true));
      if (number === 0 || this._isNew(number)) {
        this._says(new Numbered(number, data.slice(NUMBER_BYTES), this._follower.met));
      }
    } else if (typeof data === 'string') {
      this._heed(parseFrame(data));
    }
  }

  private _heed(frame: IFrame | null): void {
    const { type, position = 0, msg_id = '', parent, value = null, ack = false } = frame ?? {};
    switch (type) {
      case 'taken':
        this._follower.outbox.delete(msg_id);
        this._isNew(position);
        break;
      case 'answered':
        if (this._isNew(position) && parent) {
          this._follower.answered(parent, value, position);
        }
        break;
      case 'replied':
        if (this._isNew(position)) {
          this._follower.replied(msg_id, ack);
        }
        break;
      case 'behind':
        this._follower.behind();
        break;
    }
  }

  /** Whether a number had not come yet; from now on it has. */
  private _isNew(number: number): boolean {
    const isNew = number > (this._follower.received ?? 0);
    if (isNew) {
      this._follower.received = number;
    }
    return isNew;
  }

  private readonly _waiting: unknown[] = [];
  private _mode: 'unknown' | 'following' | 'plain' = 'unknown';
  private _protocol = V1;
  private _opened = false;
  private _left = false;
  private _tries = 0;
}

function parseFrame(data: string): IFrame | null {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null && 'type' in value ? (value as IFrame) : null;
  } catch {
    return null; // no frame of ours: another server's
  }
}
