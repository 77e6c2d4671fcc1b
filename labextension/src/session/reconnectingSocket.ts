/**
 * A WebSocket that waits for the server instead of failing while it is away: for terminals, and for our stream.
 *
 * It opens as soon as the server is back, however long that takes. What was said on it before is not said again.
 */
import type { Reachability } from './reachability';
import { LOST, type Sendable, SocketFront } from './socketBase';

export class PatientSocket extends SocketFront {
  constructor(
    url: string | URL,
    private readonly _protocols: string | string[],
    private readonly _reachability: Reachability
  ) {
    super(url);
    void this._open();
  }

  get readyState(): number {
    if (this._ended) {
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
    this._dropped = true;
    if (this._opened && this._socket !== null) {
      this._socket.close(code, reason);
      return;
    }
    this._socket?.close();
    this._ends({ code: LOST });
  }

  private async _open(): Promise<void> {
    await this._reachability.back;
    if (this._dropped) {
      return;
    }
    const socket = new WebSocket(this.url, this._protocols);
    this._socket = socket;
    socket.binaryType = this.binaryType;
    socket.onopen = () => {
      this._opened = true;
      this._opens();
    };
    socket.onmessage = ({ data }) => this._says(data);
    socket.onclose = event => void this._closed(event);
  }

  private async _closed(event: CloseEvent): Promise<void> {
    if (this._dropped) {
      this._ends(event);
    } else if (this._opened) {
      void this._reachability.check();
      this._ends(event);
    } else if (await this._reachability.check()) {
      this._fails();
      this._ends(event);
    } else {
      void this._open();
    }
  }

  private _opened = false;
  private _dropped = false;
}
