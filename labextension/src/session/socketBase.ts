/** What every WebSocket of ours has in front: it looks like the browser's own. */

export type Handler<E extends Event> = ((this: WebSocket, event: E) => unknown) | null;
export type Sendable = string | ArrayBufferLike | Blob | ArrayBufferView<ArrayBuffer>;

/** "Going away": a server that is stopped says so. JupyterLab takes it as meant for ever and would not connect again. */
const GOING_AWAY = 1001;
export const LOST = 1006;

export abstract class SocketFront extends EventTarget implements WebSocket {
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

  protected _opens(): void {
    const event = new Event('open');
    this.onopen?.call(this, event);
    this.dispatchEvent(event);
  }

  protected _says(data: unknown): void {
    const event = new MessageEvent('message', { data });
    this.onmessage?.call(this, event);
    this.dispatchEvent(event);
  }

  /** The server is there and does not want this socket. */
  protected _fails(): void {
    const event = new Event('error');
    this.onerror?.call(this, event);
    this.dispatchEvent(event);
  }

  /** Only the first end is told. */
  protected _ends({ code = LOST, reason = '', wasClean = false }: CloseEventInit): void {
    if (this._ended) {
      return;
    }
    this._ended = true;
    const event = new CloseEvent('close', { code: code === GOING_AWAY ? LOST : code, reason, wasClean });
    this.onclose?.call(this, event);
    this.dispatchEvent(event);
  }

  /** The browser's own socket, while there is one. */
  protected _socket: WebSocket | null = null;
  protected _ended = false;
  private _binaryType: BinaryType = 'blob';
}
