/** Asks the server what forms cells have: for all cells of the page that changed, in one request. */
import type { ServerConnection } from '@jupyterlab/services';
import { fetchForms } from '../api';
import type { Reachability } from '../session/reachability';
import type { IQuestion, IReading } from './parsedForm';

/** Somebody types: one question when they pause. */
const PAUSE = 150;
/** In one request; the server takes 2,000 cells and 16 MB. */
const MOST_CELLS = 500;
const MOST_LETTERS = 2_000_000;
/** What was read is kept, so that undo and a second view need no request. */
const KEPT = 2_000;
/** A server that answers, but not to this, is not asked for ever. */
const ATTEMPTS = 3;

/** Who wants to know: what it is then, when the question is sent. */
export interface IAsker {
  readonly question: IQuestion | null;
  answered(reading: IReading): void;
}

export class Reader {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability
  ) {}

  /** What is known already. */
  find(question: IQuestion): IReading | undefined {
    return this._known.get(keyOf(question));
  }

  /** Answer by and by. `now`: a notebook was opened, nobody is typing. */
  ask(asker: IAsker, now = false): void {
    if (this._gone) {
      return;
    }
    this._askers.add(asker);
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this._flush(), now ? 0 : PAUSE);
  }

  /** Whoever is disposed need not be answered. */
  forget(asker: IAsker): void {
    this._askers.delete(asker);
  }

  private _flush(): void {
    const askers = [...this._askers];
    this._askers.clear();
    const questions = new Map<string, IQuestion>();
    for (const { question } of askers) {
      if (question) {
        questions.set(keyOf(question), question);
      }
    }
    for (const batch of batches([...questions.values()])) {
      void this._send(batch, askers);
    }
  }

  private async _send(batch: readonly IQuestion[], askers: readonly IAsker[], attempt = 1): Promise<void> {
    try {
      const forms = await fetchForms(this._settings, batch);
      this._gone ||= forms === null;
      batch.forEach((question, at) => forms && this._keep({ ...question, form: forms[at] ?? null }));
      this._tell(askers);
    } catch (reason) {
      if (!(await this._reachability.check())) {
        await this._reachability.back;
        askers.forEach(asker => this.ask(asker, true)); // what they want to know by then
      } else if (attempt < ATTEMPTS) {
        await this._send(batch, askers, attempt + 1);
      } else {
        console.warn('ownlab: forms were not read:', reason);
      }
    }
  }

  private _keep(reading: IReading): void {
    this._known.set(keyOf(reading), reading);
    for (const key of this._known.keys()) {
      if (this._known.size <= KEPT) {
        break;
      }
      this._known.delete(key);
    }
  }

  private _tell(askers: readonly IAsker[]): void {
    for (const asker of askers) {
      const reading = asker.question && this.find(asker.question);
      if (reading) {
        asker.answered(reading);
      }
    }
  }

  private readonly _askers = new Set<IAsker>();
  private readonly _known = new Map<string, IReading>();
  private _timer = 0;
  /** This server has no such route: it is a plain Jupyter server. */
  private _gone = false;
}

function keyOf({ source, view }: IQuestion): string {
  return `${view ?? ''}\n${source}`;
}

function* batches(questions: readonly IQuestion[]): Generator<IQuestion[]> {
  let batch: IQuestion[] = [];
  let letters = 0;
  for (const question of questions) {
    if (batch.length === MOST_CELLS || (batch.length > 0 && letters + question.source.length > MOST_LETTERS)) {
      yield batch;
      batch = [];
      letters = 0;
    }
    batch.push(question);
    letters += question.source.length;
  }
  if (batch.length > 0) {
    yield batch;
  }
}
