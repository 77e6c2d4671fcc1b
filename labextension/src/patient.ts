/**
 * A WebSocket that waits for the server instead of failing while it is away.
 *
 * JupyterLab's kernel connections give up after seven attempts, and one that failed to open asks again 10 to 30 s later and
 * then tears down whatever connection there is by that time. Given this class as settings.WebSocket they meet no failure:
 * the socket opens as soon as the server is back, however long that takes.
 */
import type { Reachability } from './reachability';

/** "Going away": a server that is stopped says so. JupyterLab takes it as meant for ever and would not connect again. */
const GOING_AWAY = 1001;
const LOST = 1006;

type Handler<E extends Event> = ((this: WebSocket, event: E) => unknown) | null;

export function patientSocket(reachability: Reachability): typeof WebSocket {
  return class PatientSocket extends EventTarget implements WebSocket {
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

    constructor(url: string | URL, protocols: string | string[] = []) {
      super();
      this.url = String(url);
      this._protocols = protocols;
      void this._open();
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

    get readyState(): number {
      if (this._ended) {
        return this.CLOSED;
      }
      return this._opened && this._socket !== null ? this._socket.readyState : this.CONNECTING;
    }

    send(data: string | ArrayBufferLike | Blob | ArrayBufferView<ArrayBuffer>): void {
      if (this._socket === null || !this._opened) {
        throw new DOMException('Still in CONNECTING state', 'InvalidStateError');
      }
      this._socket.send(data);
    }

    close(code?: number, reason?: string): void {
      this._dropped = true;
      if (this._opened && this._socket !== null) {
        this._socket.close(code, reason);
        return;
      }
      this._socket?.close();
      this._end(new CloseEvent('close', { code: LOST }));
    }

    private async _open(): Promise<void> {
      await reachability.back;
      if (this._dropped) {
        return;
      }
      const socket = new WebSocket(this.url, this._protocols);
      this._socket = socket;
      socket.binaryType = this._binaryType;
      socket.onopen = () => {
        this._opened = true;
        const event = new Event('open');
        this.onopen?.call(this, event);
        this.dispatchEvent(event);
      };
      socket.onmessage = ({ data, origin }) => {
        const event = new MessageEvent('message', { data, origin });
        this.onmessage?.call(this, event);
        this.dispatchEvent(event);
      };
      socket.onclose = event => void this._closed(event);
    }

    private async _closed({ code, reason, wasClean }: CloseEvent): Promise<void> {
      if (this._dropped) {
        this._end(new CloseEvent('close', { code, reason, wasClean }));
      } else if (this._opened) {
        void reachability.check();
        this._end(new CloseEvent('close', { code: code === GOING_AWAY ? LOST : code, reason, wasClean }));
      } else if (await reachability.check()) {
        // The server is there and does not want this socket.
        const event = new Event('error');
        this.onerror?.call(this, event);
        this.dispatchEvent(event);
        this._end(new CloseEvent('close', { code, reason, wasClean }));
      } else {
        void this._open();
      }
    }

    private _end(event: CloseEvent): void {
      if (this._ended) {
        return;
      }
      this._ended = true;
      this.onclose?.call(this, event);
      this.dispatchEvent(event);
    }

    private readonly _protocols: string | string[];
    private _binaryType: BinaryType = 'blob';
    private _socket: WebSocket | null = null;
    private _opened = false;
    private _dropped = false;
    private _ended = false;
  };
}
