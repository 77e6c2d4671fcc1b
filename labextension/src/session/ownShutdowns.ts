/** Records what this page itself shut down, so that the user is not notified of it. */

const DELETE_URL = /\/api\/(?:kernels|sessions)\/([^/?]+)/;
const STOP_URL = /\/ownlab\/api\/runtimes\/([^/?]+)\/stop/;

export class OwnShutdowns {
  /** Send a request, like `fetch`, and record what it shuts down. */
  readonly fetch = (input: RequestInfo, init?: RequestInit): Promise<Response> => {
    if (input instanceof Request) {
      const match = (input.method === 'DELETE' ? DELETE_URL : STOP_URL).exec(input.url);
      if (match?.[1]) {
        this._ids.add(match[1]);
      }
    }
    return fetch(input, init);
  };

  /** Return whether this page shut down a session or a runtime. */
  has(id: string): boolean {
    return this._ids.has(id);
  }

  private readonly _ids = new Set<string>();
}
