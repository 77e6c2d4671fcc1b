/** Tells the server the language of the page, in which it writes its sentences. The browser would state its own. */
import { pageLanguage } from '../text';

type Fetch = (input: RequestInfo, init?: RequestInit) => Promise<Response>;

const HEADER = 'Accept-Language';

/** Return a `fetch` that states the language of the page. */
export function inPageLanguage(fetch: Fetch): Fetch {
  return (input, init) => {
    if (input instanceof Request) {
      input.headers.set(HEADER, pageLanguage());
    }
    return fetch(input, init);
  };
}
