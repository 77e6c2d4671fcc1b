/** What the page and the server tell each other about a notebook that is read or saved: up to where it was merged. */
import type { Followers } from './connectionState';

const CONTENTS = /\/api\/contents\/([^?]*)/;
const RESTART = /\/api\/kernels\/([^/?]+)\/restart/;
const POSITION = 'X-Ownlab-Position';
const SEEN = 'X-Ownlab-Seen';

type Fetch = (input: RequestInfo, init?: RequestInit) => Promise<Response>;

export class Seen {
  constructor(
    private readonly _followers: Followers,
    private readonly _next: Fetch
  ) {}

  /** Sends a request, as `fetch`. */
  readonly fetch = async (input: RequestInfo, init?: RequestInit): Promise<Response> => {
    if (!(input instanceof Request)) {
      return this._next(input, init);
    }
    const contents = CONTENTS.exec(input.url)?.[1];
    const restart = input.method === 'POST' ? RESTART.exec(input.url)?.[1] : undefined;
    if (restart) {
      this._followers.restarting(restart);
    } else if (contents && input.method === 'PUT') {
      const seen = this._saving.get(decodeURIComponent(contents))?.[0];
      if (seen) {
        input.headers.set(SEEN, seen);
      }
    }
    const response = await this._next(input, init);
    if (restart && response.ok) {
      this._followers.restarted(restart);
    } else if (contents && input.method === 'GET') {
      this._read(response.headers.get(POSITION));
    }
    return response;
  };

  /** A save begins: its body has everything up to these positions, and perhaps more. */
  saves(path: string, seen: string): void {
    this._saving.set(path, [...(this._saving.get(path) ?? []), seen]);
  }

  /** Saves of one notebook may overlap; the oldest that is under way counts, since less may be said than was seen, never more. */
  saved(path: string): void {
    const rest = this._saving.get(path)?.slice(1) ?? [];
    if (rest.length > 0) {
      this._saving.set(path, rest);
    } else {
      this._saving.delete(path);
    }
  }

  private _read(header: string | null): void {
    const [kernel, number] = header?.split('/') ?? [];
    if (kernel && number && Number.isSafeInteger(Number(number))) {
      this._followers.expect(kernel, Number(number));
    }
  }

  /** Path -> what each save under way has seen. */
  private readonly _saving = new Map<string, string[]>();
}
