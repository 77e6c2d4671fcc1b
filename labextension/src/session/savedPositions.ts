/** Tells the server up to which journal position a saved notebook is complete, and reads that of a notebook that is opened. */
import type { ConnectionStates } from './connectionState';

const CONTENTS = /\/api\/contents\/([^?]*)/;
const RESTART = /\/api\/kernels\/([^/?]+)\/restart/;
const POSITION_HEADER = 'X-Ownlab-Position';
const SEEN_HEADER = 'X-Ownlab-Seen';

type Fetch = (input: RequestInfo, init?: RequestInit) => Promise<Response>;

export class SavedPositions {
  constructor(
    private readonly _connections: ConnectionStates,
    private readonly _fetch: Fetch
  ) {}

  /** Send a request, like `fetch`, and add or read the headers. */
  readonly fetch = async (input: RequestInfo, init?: RequestInit): Promise<Response> => {
    if (!(input instanceof Request)) {
      return this._fetch(input, init);
    }
    const contents = CONTENTS.exec(input.url)?.[1];
    const restart = input.method === 'POST' ? RESTART.exec(input.url)?.[1] : undefined;
    if (restart) {
      this._connections.onRestartRequested(restart);
    } else if (contents && input.method === 'PUT') {
      const seen = this._saving.get(decodeURIComponent(contents))?.[0];
      if (seen) {
        input.headers.set(SEEN_HEADER, seen);
      }
    }
    const response = await this._fetch(input, init);
    if (restart && response.ok) {
      this._connections.onRestarted(restart);
    } else if (contents && input.method === 'GET') {
      this._readPosition(response.headers.get(POSITION_HEADER));
    }
    return response;
  };

  /** A save starts: its body contains everything up to these positions, and possibly more. */
  saveStarted(path: string, seen: string): void {
    this._saving.set(path, [...(this._saving.get(path) ?? []), seen]);
  }

  /** Saves of one notebook may overlap. The oldest one counts: reporting too low a position is safe, too high is not. */
  saveFinished(path: string): void {
    const rest = this._saving.get(path)?.slice(1) ?? [];
    if (rest.length > 0) {
      this._saving.set(path, rest);
    } else {
      this._saving.delete(path);
    }
  }

  private _readPosition(header: string | null): void {
    const [kernel, number] = header?.split('/') ?? [];
    if (kernel && number && Number.isSafeInteger(Number(number))) {
      this._connections.expectAttachment(kernel, Number(number));
    }
  }

  /** Path -> the positions of each save in progress. */
  private readonly _saving = new Map<string, string[]>();
}
