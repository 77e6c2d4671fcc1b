/**
 * Sends what changes in one open notebook, as it is typed, and shows what others change.
 *
 * One request at a time. A patch whose answer was lost is sent again as it was: the server applies each number once.
 */
import { type ISignal, Signal } from '@lumino/signaling';
import type { Changes, Conflict, OutputsPatch, Patch, Recovered } from '../records';
import { RequestError } from '../requestError';
import { Baseline, type INotebookState, type IUnsent, type OutputsOf } from './baseline';
import { type IEditableNotebook, RemoteChanges } from './remoteChanges';

/** After the last keystroke, and after the first one that was not sent. */
const REST_MS = 300;
const LONGEST_MS = 1_000;
/** Outputs of a kernel without a journal are sent whole, so not as often. */
const OUTPUTS_REST_MS = 2_000;
const OUTPUTS_LONGEST_MS = 10_000;

const RETRY_MS = 500;
const FAILED_RETRY_MS = 3_000;
const REFUSED_RETRY_MS = 15_000;
/** How often a notebook may be missing at its path. */
const MAX_MISSING = 20;
/** Status codes of a server that is not there, see Reachability, or that does not know this page any more. */
const UNREACHABLE = [401, 403, 424, 502, 503, 504];

export interface ISessionNotebook extends IEditableNotebook {
  /** Call functions that change the notebook, without taking it as an edit. */
  change(work: () => void): void;
  outputs(id: string): OutputsPatch | null;
  hasNoOutputs(id: string): boolean;
  isIdle(id: string): boolean;
}

/** The server's routes. They throw RequestError, or something else if the server is not reachable. */
export interface IEditsServer {
  send(patch: Patch): Promise<Changes>;
  fetch(notebook: string, version: number): Promise<Changes>;
}

export interface ISessionOptions {
  /** Identifies this page's session. */
  readonly page: string;
  readonly server: IEditsServer;
  readonly reachability: { check(): Promise<boolean>; readonly whenReachable: Promise<void> };
  readonly path: () => string;
  /** The position in the journal that the notebook shows. */
  readonly seen: () => string | null;
  /** The session in the headers of what the page sends to its kernel; null: there is none. */
  readonly client: () => string | null;
  /** Whether the kernel's outputs are in a journal; null: not known. */
  readonly hasJournal: () => boolean | null;
  readonly setDirty: (dirty: boolean) => void;
}

/** `ours`: the text of this page was kept. */
export interface IConflictNotice extends Conflict {
  readonly ours: boolean;
}

export class EditSession {
  constructor(
    private readonly _options: ISessionOptions,
    private readonly _notebook: ISessionNotebook,
    version: number,
    /** The cells that the server has: JupyterLab adds one to an empty notebook. */
    ids: readonly string[] = _notebook.order
  ) {
    this._baseline = new Baseline(_notebook, ids);
    this._remote = new RemoteChanges(this._baseline, version);
    _notebook.order.filter(id => !_notebook.hasNoOutputs(id)).forEach(id => this._hadOutputs.add(id));
  }

  /** Whether the server has everything. */
  get isSaved(): boolean {
    return !this._notebookChanged && this._changed.size === 0 && this._inFlight === null;
  }

  /** Whether something has to be sent, or may have to. */
  get mayBeUnsaved(): boolean {
    return !this.isSaved || this._maybeCleared.size > 0;
  }

  /** Whether the page has sent edits. */
  get hasSent(): boolean {
    return this._number > 0;
  }

  /** Whether edits are sent. Otherwise JupyterLab saves the notebook as a whole. */
  get isActive(): boolean {
    return this._isActive;
  }

  /** Why the server cannot store edits at the moment; empty if it can. */
  get failure(): string {
    return this._failure;
  }

  /** Why the server accepts no edits of this notebook, so that JupyterLab saves it as a whole; empty if it does. */
  get refusal(): string {
    return this._refusal;
  }

  /** Emitted with the reason when the server accepts no more edits. */
  get refused(): ISignal<this, string> {
    return this._refused;
  }

  get failureChanged(): ISignal<this, string> {
    return this._failureChanged;
  }

  get conflicted(): ISignal<this, IConflictNotice> {
    return this._conflicted;
  }

  /** The cells that show the code that ran, instead of what their file had. */
  get recovered(): readonly Recovered[] {
    return this._recovered;
  }

  get recoveredChanged(): ISignal<this, void> {
    return this._recoveredChanged;
  }

  // What the notebook reports.

  onNotebookChanged(): void {
    if (this._unsent(this._baseline) !== null) {
      this._notebookChanged = true;
      this._schedule(REST_MS, LONGEST_MS);
    }
  }

  /** A cell is about to run. From now on the version of the kernel's language is saved, which JupyterLab sets when it is known. */
  onRun(): void {
    this._hasRun = true;
    this.onNotebookChanged();
  }

  onCellChanged(id: string, kind: 'content' | 'outputs'): void {
    if (kind === 'content') {
      this._changed.add(id);
      this._schedule(REST_MS, LONGEST_MS);
      return;
    }
    const isEmpty = this._notebook.hasNoOutputs(id);
    if (!isEmpty || !this._notebook.isIdle(id)) {
      this._hadOutputs.add(id);
    }
    const hasJournal = this._options.hasJournal();
    if (hasJournal === false || (hasJournal === null && !isEmpty)) {
      this._changed.add(id);
      this._schedule(OUTPUTS_REST_MS, OUTPUTS_LONGEST_MS);
    } else if (isEmpty && this._hadOutputs.has(id)) {
      // Cleared by the user, or about to run: known when it is sent.
      this._maybeCleared.add(id);
      this._schedule(REST_MS, LONGEST_MS);
    }
  }

  // What others report.

  /** The server has a version. */
  onVersion(version: number): void {
    this._newestVersion = Math.max(this._newestVersion, version);
    if (version > this._remote.version) {
      void this.flush(); // the answer to a patch in flight may have it
    }
  }

  /** Ask the server what has changed. */
  refresh(): void {
    this._mustFetch = true;
    void this.flush();
  }

  /** Return whether the server has acknowledged the present source of a cell. */
  hasSource(id: string): boolean {
    const now = this._notebook.cell(id);
    return now !== undefined && this._baseline.cells.get(id)?.source === now.source;
  }

  /** The cursor has left a cell. */
  settle(): void {
    if (this._remote.isPending && this._inFlight === null) {
      this._notebook.change(() => this._remote.settle(this._notebook));
      this._updateDirty();
    }
  }

  /** JupyterLab has loaded the notebook again. */
  onReloaded(version: number, ids: readonly string[]): void {
    this._restart(this._notebook, version, ids);
  }

  /** JupyterLab has saved the whole notebook, as it was before; perhaps since the server had refused edits. */
  onSavedWhole(saved: INotebookState): void {
    this._restart(saved, this._remote.version, saved.order);
    this.refresh();
  }

  /** The mark of a recovered cell was dismissed. */
  forgetRecovered(cell: string): void {
    this._setRecovered(this._recovered.filter(recovered => recovered.cell !== cell));
  }

  /** Send everything that has changed until now. Resolved when the server has it; never while it is unreachable. */
  flush(): Promise<void> {
    window.clearTimeout(this._timer);
    this._timer = 0;
    this._firstChange = null;
    const exchanged = this._exchanges.then(() => this._exchange());
    this._exchanges = exchanged;
    return exchanged;
  }

  /**
   * The page goes away: send what is left, without waiting for the request in flight. Which of the two arrives first, if at
   * all, nobody knows, so the last one brings the other along.
   */
  sendLast(): void {
    const before = this._isActive ? this._inFlight : null;
    const unsent = this._isActive ? this._take(before ? this._baseline.after(before.unsent) : this._baseline) : null;
    if (unsent) {
      this._options.server.send({ ...this._patch(unsent, ++this._number), ...(before ? { before: before.patch } : {}) }).then(
        changes => this._accept(unsent, changes),
        () => this._restore(unsent)
      );
    } else if (before) {
      this._options.server.send(before.patch).catch(() => undefined); // perhaps it waits for a server that was away
    }
  }

  dispose(): void {
    this._isActive = false;
    window.clearTimeout(this._refusedTimer);
    window.clearTimeout(this._timer);
    Signal.clearData(this);
  }

  private _schedule(rest: number, longest: number): void {
    if (!this._isActive) {
      return;
    }
    this._updateDirty();
    const now = Date.now();
    this._firstChange ??= now;
    window.clearTimeout(this._timer);
    this._timer = window.setTimeout(() => void this.flush(), Math.max(0, Math.min(rest, this._firstChange + longest - now)));
  }

  private async _exchange(): Promise<void> {
    if (this._isActive && (this._mustFetch || this._newestVersion > this._remote.version)) {
      this._mustFetch = false;
      const changes = await this._attempt(() => this._options.server.fetch(this._options.path(), this._remote.version));
      if (changes) {
        this._receive(changes, null);
      }
    }
    const unsent = this._isActive ? this._take(this._baseline) : null;
    if (unsent) {
      const patch = this._patch(unsent, ++this._number);
      this._inFlight = { unsent, patch };
      const changes = await this._attempt(() => this._options.server.send({ ...patch, notebook: this._options.path() }));
      this._inFlight = null;
      if (changes) {
        this._accept(unsent, changes);
      } else {
        this._restore(unsent);
      }
    }
    this.settle();
    this._updateDirty();
  }

  /** Make a request until the server has answered; null: it refuses edits of this notebook, or the notebook was closed. */
  private async _attempt(request: () => Promise<Changes>): Promise<Changes | null> {
    for (let missing = 0; this._isActive; ) {
      try {
        const changes = await request();
        this._setFailure('');
        this._refusal = '';
        return changes;
      } catch (reason) {
        const status = reason instanceof RequestError ? reason.status : null;
        if (status === null || UNREACHABLE.includes(status)) {
          await this._options.reachability.check();
          await this._options.reachability.whenReachable;
          await delay(RETRY_MS);
        } else if (status >= 500) {
          this._setFailure((reason as Error).message);
          await delay(FAILED_RETRY_MS);
        } else if ((status === 400 || status === 404) && missing < MAX_MISSING && this._refusal === '') {
          missing += 1;
          await delay(RETRY_MS); // it was renamed: this page learns its new path from its own request, or from the server
        } else {
          this._refuse((reason as Error).message);
          console.warn('ownlab: the server accepts no edits of this notebook, so JupyterLab saves it as a whole', reason);
        }
      }
    }
    return null;
  }

  /** The file may become writable, or come back: try again from time to time. */
  private _refuse(reason: string): void {
    const isKnown = this._refusal === reason;
    this._isActive = false;
    this._refusal = reason;
    this._refusedTimer = window.setTimeout(() => {
      this._isActive = true;
      void this.flush();
    }, REFUSED_RETRY_MS);
    if (!isKnown) {
      this._refused.emit(reason);
    }
  }

  private _accept(unsent: IUnsent, changes: Changes): void {
    this._baseline.accept(unsent);
    for (const { id, outputs } of unsent.cells) {
      if (outputs && outputs.outputs.length === 0 && outputs.execution_count === null) {
        // The cell may have run, or be running, since it was sent as empty.
        if (this._notebook.hasNoOutputs(id) && this._notebook.isIdle(id)) {
          this._hadOutputs.delete(id);
        }
      } else if (outputs) {
        this._hadOutputs.add(id);
      }
    }
    this._receive(changes, unsent);
  }

  private _receive(changes: Changes, sent: IUnsent | null): void {
    if (!this._isActive) {
      return;
    }
    this._remote.receive(changes, sent);
    this._setRecovered(changes.recovered);
    changes.conflicts.forEach(conflict => this._conflicted.emit({ ...conflict, ours: sent !== null }));
  }

  /** Return what has to be sent, and take it as sent. */
  private _take(baseline: Baseline): IUnsent | null {
    this._undecided.forEach(id => this._changed.add(id));
    const unsent = this._unsent(baseline);
    // Outputs may come before it is known whether a journal has them: these cells are looked at again.
    this._undecided = this._options.hasJournal() === null ? [...this._changed].filter(id => !this._notebook.hasNoOutputs(id)) : [];
    this._changed.clear();
    this._maybeCleared.clear();
    this._notebookChanged = false;
    if (this._undecided.length > 0) {
      this._schedule(OUTPUTS_REST_MS, OUTPUTS_LONGEST_MS);
    }
    return unsent;
  }

  private _unsent(baseline: Baseline): IUnsent | null {
    return baseline.unsent(this._notebook, new Set([...this._changed, ...this._maybeCleared]), this._outputsOf, this._hasRun);
  }

  /** Outputs are in the journal, apart from those that only this page knows. */
  private readonly _outputsOf: OutputsOf = (id, kind) => {
    const { _notebook: notebook, _hadOutputs: hadOutputs } = this;
    const isCleared = notebook.hasNoOutputs(id) && notebook.isIdle(id);
    if (kind === 'retyped' || (kind === 'new' && !notebook.hasNoOutputs(id) && notebook.isIdle(id))) {
      return notebook.outputs(id);
    }
    if (kind === 'known' && this._options.hasJournal() === false && this._changed.has(id) && hadOutputs.has(id)) {
      return notebook.outputs(id);
    }
    return kind === 'known' && isCleared && hadOutputs.has(id) ? { outputs: [], execution_count: null } : null;
  };

  private _patch({ cells, deleted, order, metadata }: IUnsent, number: number): Patch {
    const { page, path, seen, client } = this._options;
    const hasOutputs = cells.some(({ outputs }) => outputs !== undefined);
    const sender = { notebook: path(), page, number, version: this._remote.version, client: client(), at: Date.now() / 1000 };
    return { ...sender, seen: hasOutputs ? seen() : null, cells, deleted, order, metadata };
  }

  /** A patch was not sent: look at its cells again. */
  private _restore(unsent: IUnsent): void {
    unsent.cells.forEach(({ id }) => this._changed.add(id));
    this._notebookChanged = true;
    this._updateDirty();
  }

  private _restart(known: INotebookState, version: number, ids: readonly string[]): void {
    this._baseline = new Baseline(known, ids);
    this._remote = new RemoteChanges(this._baseline, version);
    this._isActive = true;
    this._refusal = '';
    window.clearTimeout(this._refusedTimer);
    this._changed.clear();
    this._maybeCleared.clear();
    this._notebook.order.forEach(id => this._changed.add(id));
    this._notebookChanged = true;
    void this.flush();
  }

  private _updateDirty(): void {
    if (this._isActive || !this.isSaved) {
      this._options.setDirty(!this.isSaved);
    }
  }

  private _setFailure(failure: string): void {
    if (failure !== this._failure) {
      this._failure = failure;
      this._failureChanged.emit(failure);
    }
  }

  private _setRecovered(recovered: readonly Recovered[]): void {
    if (recovered.length > 0 || this._recovered.length > 0) {
      this._recovered = recovered;
      this._recoveredChanged.emit();
    }
  }

  private _baseline: Baseline;
  private _remote: RemoteChanges;
  private _isActive = true;
  private _number = 0;
  private _inFlight: { readonly unsent: IUnsent; readonly patch: Patch } | null = null;
  private _mustFetch = false;
  private _newestVersion = 0;
  private _exchanges: Promise<void> = Promise.resolve();
  private _timer = 0;
  private _firstChange: number | null = null;
  /** Cells whose content may differ from what the server has; whether order or metadata may. */
  private readonly _changed = new Set<string>();
  private _notebookChanged = false;
  private _hasRun = false;
  private readonly _maybeCleared = new Set<string>();
  private _undecided: readonly string[] = [];
  /** Cells of which the server or a journal has outputs. */
  private readonly _hadOutputs = new Set<string>();
  private _failure = '';
  private _refusal = '';
  private _refusedTimer = 0;
  private _recovered: readonly Recovered[] = [];
  private readonly _refused = new Signal<this, string>(this);
  private readonly _failureChanged = new Signal<this, string>(this);
  private readonly _conflicted = new Signal<this, IConflictNotice>(this);
  private readonly _recoveredChanged = new Signal<this, void>(this);
}

function delay(milliseconds: number): Promise<void> {
  return new Promise(done => window.setTimeout(done, milliseconds));
}
