/**
 * Requests that open a notebook wait while the server is unreachable.
 *
 * JupyterLab closes a notebook if one of them fails, even the one for checkpoints, and never connects it to its kernel if the
 * list of sessions fails.
 */

type Fetch = (input: RequestInfo, init?: RequestInit) => Promise<Response>;

/** The part of Reachability that is used here. */
export interface IReachable {
  check(): Promise<boolean>;
  readonly whenReachable: Promise<void>;
}

const CHECKPOINTS = /\/api\/contents\/[^?]*\/checkpoints(?:[?]|$)/;
const SESSIONS = /\/api\/sessions(?:[?]|$)/;
const NOTEBOOK = /\/api\/contents\/[^?]+\?(?:[^#]*&)?type=notebook(?:&|$)/;

/** Failures although the server answers: then waiting does not help. */
const MAX_FAILURES = 3;
const RETRY_DELAY_MS = 300;

/** Return whether a request may be repeated, and JupyterLab does not bear its failure. */
export function mustSucceed(method: string, url: string): boolean {
  if (method === 'GET') {
    return CHECKPOINTS.test(url) || SESSIONS.test(url) || NOTEBOOK.test(url);
  }
  return method === 'POST' && CHECKPOINTS.test(url); // a second checkpoint replaces the first one
}

/** Return a `fetch` that repeats such requests as soon as the server is reachable again. */
export function patientFetch(fetch: Fetch, reachability: IReachable): Fetch {
  return async (input, init) => {
    if (!(input instanceof Request) || !mustSucceed(input.method, input.url)) {
      return fetch(input, init);
    }
    for (let failures = 1; ; ) {
      try {
        return await fetch(input.clone(), init);
      } catch (reason) {
        const reachable = await reachability.check();
        failures += reachable ? 1 : 0;
        if (input.signal.aborted || failures > MAX_FAILURES) {
          throw reason;
        }
        await reachability.whenReachable;
        await new Promise(done => window.setTimeout(done, RETRY_DELAY_MS));
      }
    }
  };
}
