/** Lets the server parse the forms of cells: all cells of the page that have changed, in one request. */
import type { ServerConnection } from '@jupyterlab/services';
import { fetchForms } from '../api';
import type { Reachability } from '../session/reachability';
import type { ICellSource, IParsedForm } from './parsedForm';

/** While the user types, send one request when they pause. */
const DEBOUNCE_MS = 150;
/** Limits of one request; the server accepts 2,000 cells and 16 MB. */
const MAX_BATCH_CELLS = 500;
const MAX_BATCH_CHARS = 2_000_000;
/** Parsed forms are cached, so that undo and a second view need no request. */
const MAX_CACHED = 2_000;
/** Limit for a server that is reachable but does not answer this request. */
const MAX_ATTEMPTS = 3;

/** A form that is to be parsed. Its source is read when the request is sent. */
export interface IFormClient {
  readonly cellSource: ICellSource | null;
  onParsed(parsed: IParsedForm): void;
}

export class FormReader {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability
  ) {}

  /** Return a cached result. */
  find(cellSource: ICellSource): IParsedForm | undefined {
    return this._parsed.get(keyOf(cellSource));
  }

  /** Parse the source of a client later. `now`: do not wait, since a notebook was opened and nobody is typing. */
  request(client: IFormClient, now = false): void {
    if (this._unsupported) {
      return;
    }
    this._clients.add(client);
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this._flush(), now ? 0 : DEBOUNCE_MS);
  }

  /** A client was disposed. */
  cancel(client: IFormClient): void {
    this._clients.delete(client);
  }

  private _flush(): void {
    const clients = [...this._clients];
    this._clients.clear();
    const sources = new Map<string, ICellSource>();
    for (const { cellSource } of clients) {
      if (cellSource) {
        sources.set(keyOf(cellSource), cellSource);
      }
    }
    for (const batch of batches([...sources.values()])) {
      void this._send(batch, clients);
    }
  }

  private async _send(batch: readonly ICellSource[], clients: readonly IFormClient[], attempt = 1): Promise<void> {
    try {
      const forms = await fetchForms(this._settings, batch);
      this._unsupported ||= forms === null;
      batch.forEach((cellSource, at) => forms && this._store({ ...cellSource, form: forms[at] ?? null }));
      this._notify(clients);
    } catch (reason) {
      if (!(await this._reachability.check())) {
        await this._reachability.whenReachable;
        clients.forEach(client => this.request(client, true)); // their sources may have changed meanwhile
      } else if (attempt < MAX_ATTEMPTS) {
        await this._send(batch, clients, attempt + 1);
      } else {
        console.warn('ownlab: forms were not read:', reason);
      }
    }
  }

  private _store(parsed: IParsedForm): void {
    this._parsed.set(keyOf(parsed), parsed);
    for (const key of this._parsed.keys()) {
      if (this._parsed.size <= MAX_CACHED) {
        break;
      }
      this._parsed.delete(key);
    }
  }

  private _notify(clients: readonly IFormClient[]): void {
    for (const client of clients) {
      const parsed = client.cellSource && this.find(client.cellSource);
      if (parsed) {
        client.onParsed(parsed);
      }
    }
  }

  private readonly _clients = new Set<IFormClient>();
  private readonly _parsed = new Map<string, IParsedForm>();
  private _timer = 0;
  /** This is a plain Jupyter server, without ownlab's routes. */
  private _unsupported = false;
}

function keyOf({ source, view }: ICellSource): string {
  return `${view ?? ''}\n${source}`;
}

function* batches(sources: readonly ICellSource[]): Generator<ICellSource[]> {
  let batch: ICellSource[] = [];
  let chars = 0;
  for (const cellSource of sources) {
    if (batch.length === MAX_BATCH_CELLS || (batch.length > 0 && chars + cellSource.source.length > MAX_BATCH_CHARS)) {
      yield batch;
      batch = [];
      chars = 0;
    }
    batch.push(cellSource);
    chars += cellSource.source.length;
  }
  if (batch.length > 0) {
    yield batch;
  }
}
