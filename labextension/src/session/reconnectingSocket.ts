/**
 * A WebSocket for terminals and for the snapshot stream that waits for an unreachable server instead of failing.
 *
 * It opens as soon as the server is reachable again. Messages sent before are not repeated.
 */
import type { Reachability } from './reachability';
import { ABNORMAL_CLOSURE, type Sendable, SocketBase } from './socketBase';

export class ReconnectingSocket extends SocketBase {
  constructor(
    url: string | URL,
    private readonly _protocols: string | string[],
    private readonly _reachability: Reachability
  ) {
    super(url);
    void this._connect();
  }

  get readyState(): number {
    if (this._isClosed) {
      return this.CLOSED;
    }
    return this._opened && this._socket !== null ? this._socket.readyState : this.CONNECTING;
  }

  send(data: Sendable): void {
    if (this._socket === null || !this._opened) {
      throw new DOMException('Still in CONNECTING state', 'InvalidStateError');
    }
    this._socket.send(data);
  }

  close(code?: number, reason?: string): void {
    this._abandoned = true;
    if (this._opened && this._socket !== null) {
      this._socket.close(code, reason);
      return;
    }
    this._socket?.close();
    this._emitClose({ code: ABNORMAL_CLOSURE });
  }

  private async _connect(): Promise<void> {
    await this._reachability.whenReachable;
    if (this._abandoned) {
      return;
    }
    const socket = new WebSocket(this.url, this._protocols);
    this._socket = socket;
    socket.binaryType = this.binaryType;
    socket.onopen = () => {
      this._opened = true;
      this._emitOpen();
    };
    socket.onmessage = ({ data }) => this._emitMessage(data);
    socket.onclose = event => void this._onSocketClose(event);
  }

  private async _onSocketClose(event: CloseEvent): Promise<void> {
    if (this._abandoned) {
      this._emitClose(event);
    } else if (this._opened) {
      void this._reachability.check();
      this._emitClose(event);
    } else if (await this._reachability.check()) {
      this._emitError();
      this._emitClose(event);
    } else {
      void this._connect();
    }
  }

  private _opened = false;
  private _abandoned = false;
}
