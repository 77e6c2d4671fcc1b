/**
 * A kernel's WebSocket that loses no message: for JupyterLab it stays open while the server or the network is unreachable.
 *
 * Each message has a position in the runtime's journal. After a reconnect the socket asks for everything after the last
 * position it received, and sends again what the server has not confirmed; the server drops duplicates. The socket closes
 * only if the server is reachable and refuses it: the kernel is gone.
 */
import type { IDeath, IDeathNote } from '../api';
import { pageLanguage } from '../text';
import type { ConnectionState, IJournalSocket } from './connectionState';
import { type LocalMessage, type MessageSerializer, NumberedMessage } from './messageSerializer';
import type { Reach, Reachability } from './reachability';
import { ABNORMAL_CLOSURE, type Sendable, SocketBase } from './socketBase';

const V1 = 'v1.kernel.websocket.jupyter.org';
const POSITION_BYTES = 8;
const MAX_RETRY_DELAY_MS = 5_000;
/** If a message is not confirmed after this time, check whether the server is still reachable. */
const DELIVERY_CHECK_MS = 5_000;

/** A control frame from the server. */
interface IFrame {
  type: 'hello' | 'plain' | 'taken' | 'answered' | 'replied' | 'behind' | 'died' | 'not-run';
  position?: number;
  msg_id?: string;
  parent?: string | null;
  value?: string | null;
  ack?: boolean;
  death?: IDeath;
  notes?: IDeathNote[];
}

export class JournalSocket extends SocketBase implements IJournalSocket {
  constructor(
    url: string,
    private readonly _protocols: string | string[],
    private readonly _state: ConnectionState,
    private readonly _serializer: MessageSerializer,
    private readonly _reachability: Reachability
  ) {
    super(url);
    _state.takeSocket(this);
    _reachability.changed.connect(this._onReachabilityChanged, this);
    window.addEventListener('online', this._reconnect);
    void this._connect();
  }

  override get protocol(): string {
    return this._socket?.protocol || this._protocol;
  }

  get readyState(): number {
    return this._isClosed ? this.CLOSED : this._opened ? this.OPEN : this.CONNECTING;
  }

  send(data: Sendable): void {
    if (!this._opened) {
      throw new DOMException('Still in CONNECTING state', 'InvalidStateError');
    }
    const message = data instanceof ArrayBuffer ? this._serializer.messageOf(data) : undefined;
    if (this._mode === 'plain' || !message || !(data instanceof ArrayBuffer)) {
      this._socket?.send(data);
    } else if (this._state.enqueue(message, data)) {
      if (this._socket?.readyState === WebSocket.OPEN) {
        this._socket.send(data);
      }
      window.setTimeout(() => this._checkDelivery(message.header.msg_id), DELIVERY_CHECK_MS);
    }
  }

  close(code?: number, reason?: string): void {
    this._emitClose({ code: code ?? ABNORMAL_CLOSURE, reason });
  }

  open(): void {
    if (!this._opened && !this._isClosed) {
      this._opened = true;
      this._emitOpen();
      this._state.takeUndelivered().forEach(message => this.deliver(message));
    }
  }

  deliver(message: LocalMessage): void {
    this._emitMessage(message);
  }

  flush(): void {
    while (this._buffer.length > 0 && !this._state.paused && !this._stopped) {
      try {
        this._process(this._buffer.shift());
      } catch (reason) {
        reportError(reason); // as browsers do when a handler throws: the next message is delivered anyway
      }
    }
  }

  stopDelivering(): void {
    this._stopped = true;
    this._buffer.length = 0;
  }

  protected override _emitClose(event: CloseEventInit): void {
    this._reachability.changed.disconnect(this._onReachabilityChanged, this);
    window.removeEventListener('online', this._reconnect);
    this._discardSocket();
    if (this._state.socket === this) {
      this._state.socket = null;
    }
    super._emitClose(event);
  }

  private async _connect(): Promise<void> {
    await this._state.whenResumed;
    await this._reachability.whenReachable;
    if (this._isClosed || this._socket) {
      return;
    }
    this._mode = 'unknown'; // this may be another server
    const after = this._state.receivedPosition ?? 'now';
    const socket = new WebSocket(`${this.url}${this.url.includes('?') ? '&' : '?'}ownlab_after=${after}&language=${pageLanguage()}`, this._protocols);
    this._socket = socket;
    socket.binaryType = 'arraybuffer';
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this._protocol = socket.protocol;
      for (const data of this._state.outbox.values()) {
        socket.send(data);
      }
      this.open();
    };
    socket.onmessage = ({ data }) => this._receive(data);
    socket.onclose = event => void this._onSocketClose(opened, event);
  }

  private async _onSocketClose(opened: boolean, event: CloseEvent): Promise<void> {
    this._socket = null;
    if (this._mode === 'plain' && opened) {
      void this._reachability.check();
      this._emitClose(event);
      return;
    }
    const reachable = await this._reachability.check();
    if (this._isClosed || this._socket) {
      return;
    }
    if (reachable && !opened) {
      this._emitError();
      this._emitClose({ code: ABNORMAL_CLOSURE });
      return;
    }
    this._attempts += 1;
    if (this._attempts > 1) {
      await new Promise(done => window.setTimeout(done, Math.min(this._attempts * 500, MAX_RETRY_DELAY_MS)));
    }
    void this._connect();
  }

  /** Close the browser's socket without reporting it. */
  private _discardSocket(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  /** After a network failure a socket may be dead without noticing. */
  private readonly _reconnect = (): void => {
    if (this._mode !== 'plain' && !this._isClosed) {
      this._discardSocket();
      void this._connect();
    }
  };

  private _onReachabilityChanged(_: Reachability, reach: Reach): void {
    if (reach !== 'reachable') {
      this._reconnect();
    }
  }

  private _checkDelivery(id: string): void {
    if (this._socket?.readyState === WebSocket.OPEN && this._mode === 'journal' && this._state.outbox.has(id)) {
      void this._reachability.check();
    }
  }

  private _receive(data: unknown): void {
    if (this._mode === 'unknown') {
      const frame = typeof data === 'string' ? parseFrame(data) : null;
      if (frame?.type === 'hello') {
        this._mode = 'journal';
        this._attempts = 0;
        this._state.receivedPosition ??= frame.position ?? 0;
        return;
      }
      this._mode = 'plain'; // not a runtime of ownlab, or not an ownlab server
      this._state.outbox.clear();
      if (frame?.type === 'plain') {
        return;
      }
    }
    if (this._mode === 'plain') {
      this._emitMessage(data);
    } else if (this._state.paused || this._buffer.length > 0) {
      this._buffer.push(data);
    } else {
      this._process(data);
    }
  }

  private _process(data: unknown): void {
    if (this._stopped) {
      return;
    }
    if (data instanceof ArrayBuffer) {
      const position = Number(new DataView(data).getBigUint64(0, true));
      if (position === 0 || this._advance(position)) {
        this._emitMessage(new NumberedMessage(position, data.slice(POSITION_BYTES), this._state.onMessage));
      }
    } else if (typeof data === 'string') {
      this._handleFrame(parseFrame(data));
    }
  }

  private _handleFrame(frame: IFrame | null): void {
    const { type, position = 0, msg_id = '', parent, value = null, ack = false, death, notes = [] } = frame ?? {};
    switch (type) {
      case 'taken':
        this._state.outbox.delete(msg_id);
        this._advance(position);
        break;
      case 'answered':
        if (this._advance(position) && parent) {
          this._state.inputAnswered(parent, value, position);
        }
        break;
      case 'replied':
        if (this._advance(position)) {
          this._state.colabReplied(msg_id, ack);
        }
        break;
      case 'died':
        if (this._advance(position) && death) {
          this._state.kernelDied(death, notes, position);
        }
        break;
      case 'not-run':
        if (this._advance(position)) {
          this._state.cellsNotRun(notes, position);
        }
        break;
      case 'behind':
        this._state.requestAttach();
        break;
    }
  }

  /** Return whether a position is new, and record it as received. */
  private _advance(position: number): boolean {
    const isNew = position > (this._state.receivedPosition ?? 0);
    if (isNew) {
      this._state.receivedPosition = position;
    }
    return isNew;
  }

  private readonly _buffer: unknown[] = [];
  private _mode: 'unknown' | 'journal' | 'plain' = 'unknown';
  private _protocol = V1;
  private _opened = false;
  private _stopped = false;
  private _attempts = 0;
}

function parseFrame(data: string): IFrame | null {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === 'object' && value !== null && 'type' in value ? (value as IFrame) : null;
  } catch {
    return null; // a text frame of another server
  }
}
