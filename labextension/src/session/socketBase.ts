/** Base class of our sockets: the interface of the browser's WebSocket. */

export type Handler<E extends Event> = ((this: WebSocket, event: E) => unknown) | null;
export type Sendable = string | ArrayBufferLike | Blob | ArrayBufferView<ArrayBuffer>;

/** "Going away", sent by a server that stops. JupyterLab takes it as final and would not reconnect. */
const GOING_AWAY = 1001;
export const ABNORMAL_CLOSURE = 1006;

export abstract class SocketBase extends EventTarget implements WebSocket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly CONNECTING = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readonly CLOSED = 3;

  readonly url: string;
  onopen: Handler<Event> = null;
  onmessage: Handler<MessageEvent> = null;
  onerror: Handler<Event> = null;
  onclose: Handler<CloseEvent> = null;

  constructor(url: string | URL) {
    super();
    this.url = String(url);
  }

  get binaryType(): BinaryType {
    return this._binaryType;
  }
  set binaryType(value: BinaryType) {
    this._binaryType = value;
    if (this._socket !== null) {
      this._socket.binaryType = value;
    }
  }
  get bufferedAmount(): number {
    return this._socket?.bufferedAmount ?? 0;
  }
  get extensions(): string {
    return this._socket?.extensions ?? '';
  }
  get protocol(): string {
    return this._socket?.protocol ?? '';
  }

  abstract get readyState(): number;
  abstract send(data: Sendable): void;
  abstract close(code?: number, reason?: string): void;

  protected _emitOpen(): void {
    const event = new Event('open');
    this.onopen?.call(this, event);
    this.dispatchEvent(event);
  }

  protected _emitMessage(data: unknown): void {
    const event = new MessageEvent('message', { data });
    this.onmessage?.call(this, event);
    this.dispatchEvent(event);
  }

  /** The server is reachable and refuses this socket. */
  protected _emitError(): void {
    const event = new Event('error');
    this.onerror?.call(this, event);
    this.dispatchEvent(event);
  }

  /** Emit the close event, once. */
  protected _emitClose({ code = ABNORMAL_CLOSURE, reason = '', wasClean = false }: CloseEventInit): void {
    if (this._isClosed) {
      return;
    }
    this._isClosed = true;
    const event = new CloseEvent('close', { code: code === GOING_AWAY ? ABNORMAL_CLOSURE : code, reason, wasClean });
    this.onclose?.call(this, event);
    this.dispatchEvent(event);
  }

  /** The browser's own socket, while there is one. */
  protected _socket: WebSocket | null = null;
  protected _isClosed = false;
  private _binaryType: BinaryType = 'blob';
}
