/** The edit sessions of this page: one for each open notebook of a server that stores edits. */
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchEdits, openChanges, sendEdits } from '../api';
import type { NewVersion, Renamed } from '../records';
import type { Reachability } from '../session/reachability';
import type { EditSession, IEditsServer } from './editSession';

const MIN_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** If this page has renamed it, it knows the new path by then. */
const RENAMED_MS = 1_000;

/** A notebook file that is damaged. */
export interface IDamagedNotebook {
  readonly path: string;
  /** What is wrong with it, and where. */
  readonly reason: string;
}

/** A notebook as it was last loaded from the server. */
export interface ILoadedNotebook {
  readonly version: number;
  readonly ids: readonly string[];
  readonly lastModified: string;
}

export class EditSessions {
  constructor(
    readonly settings: ServerConnection.ISettings,
    readonly reachability: Reachability
  ) {
    this.server = { send: patch => sendEdits(settings, patch), fetch: (notebook, version) => fetchEdits(settings, notebook, version) };
    document.addEventListener('focusout', () => this._settleLater());
    window.addEventListener('blur', () => this._settleLater());
    // The user may still decide to stay.
    window.addEventListener('beforeunload', () => this._all.forEach(({ session }) => void session.flush()));
    window.addEventListener('pagehide', () => this._all.forEach(({ session }) => session.sendLast()));
  }

  readonly server: IEditsServer;

  /** Add the session of an open notebook. Returns a function that removes it. */
  add(session: EditSession, path: () => string): () => void {
    const entry = { session, path };
    this._all.push(entry);
    this._connect();
    return () => {
      this._all = this._all.filter(other => other !== entry);
      this._loaded.delete(path());
    };
  }

  /** Return the session of a notebook. */
  find(path: string): EditSession | undefined {
    return this._all.find(entry => entry.path() === path)?.session;
  }

  /** A notebook was loaded, with its edits. */
  onLoaded(path: string, version: number, model: Contents.IModel): void {
    const { cells = [] } = (model.content ?? {}) as { cells?: { id?: string }[] };
    const loaded = { version, ids: cells.map(({ id = '' }) => id), lastModified: model.last_modified };
    this._loaded.set(path, loaded);
    const session = this.find(path);
    if (session) {
      // JupyterLab replaces the cells in this task.
      window.setTimeout(() => session.onReloaded(loaded.version, loaded.ids));
    }
  }

  /** Return how a notebook was last loaded; undefined: the server stores no edits of it. */
  loaded(path: string): ILoadedNotebook | undefined {
    return this._loaded.get(path);
  }

  /** A notebook that is open here, or a folder with one, was renamed by another client. */
  get renamedElsewhere(): ISignal<this, Renamed> {
    return this._renamedElsewhere;
  }

  /** A notebook cannot be opened, because its file is damaged. */
  get damaged(): ISignal<this, IDamagedNotebook> {
    return this._damaged;
  }

  onDamaged(damaged: IDamagedNotebook): void {
    this._damaged.emit(damaged);
  }

  onRenamed(before: string, path: string): void {
    const loaded = this._loaded.get(before);
    if (loaded) {
      this._loaded.delete(before);
      this._loaded.set(path, loaded);
    }
  }

  /** The cursor has left a cell, and may be in another one now. */
  private _settleLater(): void {
    window.setTimeout(() => this._all.forEach(({ session }) => session.settle()));
  }

  /** Follow which notebooks others change. */
  private _connect(): void {
    if (this._isFollowing) {
      return;
    }
    this._isFollowing = true;
    const socket = openChanges(this.settings);
    socket.onopen = () => {
      this._retryDelay = MIN_RETRY_MS;
      this._all.forEach(({ session }) => session.refresh());
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(String(data)) as NewVersion | Renamed;
      if ('renamed' in message) {
        window.setTimeout(() => this._onRenamedElsewhere(message), RENAMED_MS);
      } else {
        this.find(message.notebook)?.onVersion(message.version);
      }
    };
    socket.onclose = () => {
      window.setTimeout(() => void this.reachability.whenReachable.then(() => this._reconnect()), this._retryDelay);
      this._retryDelay = Math.min(2 * this._retryDelay, MAX_RETRY_MS);
    };
  }

  private _onRenamedElsewhere(message: Renamed): void {
    const isInside = (path: string): boolean => path === message.renamed || path.startsWith(`${message.renamed}/`);
    if (this._all.some(({ path }) => isInside(path()))) {
      this._renamedElsewhere.emit(message);
    }
  }

  private _reconnect(): void {
    this._isFollowing = false;
    if (this._all.length > 0) {
      this._connect();
    }
  }

  private _all: { session: EditSession; path: () => string }[] = [];
  private readonly _loaded = new Map<string, ILoadedNotebook>();
  private readonly _renamedElsewhere = new Signal<this, Renamed>(this);
  private readonly _damaged = new Signal<this, IDamagedNotebook>(this);
  private _isFollowing = false;
  private _retryDelay = MIN_RETRY_MS;
}
