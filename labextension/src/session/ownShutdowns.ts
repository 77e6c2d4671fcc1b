/** What this page itself asked the server to end: who pressed the button need not be told. */

const DELETED = /\/api\/(?:kernels|sessions)\/([^/?]+)/;
const STOPPED = /\/ownlab\/api\/runtimes\/([^/?]+)\/stop/;

export class OwnEnds {
  /** Sends a request, as `fetch`, and remembers what it ends. */
  readonly fetch = (input: RequestInfo, init?: RequestInit): Promise<Response> => {
    if (input instanceof Request) {
      const found = (input.method === 'DELETE' ? DELETED : STOPPED).exec(input.url);
      if (found?.[1]) {
        this._ids.add(found[1]);
      }
    }
    return fetch(input, init);
  };

  /** Whether a session, or a runtime, was ended by this page. */
  has(id: string): boolean {
    return this._ids.has(id);
  }

  private readonly _ids = new Set<string>();
}
