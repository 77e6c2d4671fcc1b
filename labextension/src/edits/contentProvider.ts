/** Loads and saves notebooks whose edits the server has: saving them sends no outputs, and asks nothing. */
import { PathExt } from '@jupyterlab/coreutils';
import { type Contents, type IContentProvider, RestContentProvider, type ServerConnection } from '@jupyterlab/services';
import { fetchContents, type ILoadedContents, isDamage, writeNotebook } from '../api';
import { text } from '../text';
import type { ICellState, INotebookState, Metadata } from './baseline';
import type { EditSessions } from './editSessions';

export const PROVIDER_ID = 'ownlab';

const SAVE_TIMEOUT_MS = 10_000;

export interface IProviderOptions {
  readonly settings: ServerConnection.ISettings;
  /** The contents API of the drive. */
  readonly endpoint: string;
  /** Return the path in JupyterLab, with the name of the drive. */
  readonly globalPath: (localPath: string) => string;
}

export class EditsContentProvider implements IContentProvider {
  constructor(
    private readonly _sessions: EditSessions,
    private readonly _options: IProviderOptions
  ) {
    this._rest = new RestContentProvider({ apiEndpoint: _options.endpoint, serverSettings: _options.settings });
  }

  async get(localPath: string, options?: Contents.IFetchOptions): Promise<Contents.IModel> {
    const { settings, endpoint, globalPath } = this._options;
    const path = globalPath(localPath);
    let loaded: ILoadedContents;
    try {
      loaded = await fetchContents(settings, endpoint, localPath, options);
    } catch (reason) {
      if (!isDamage(reason) || this._sessions.find(path)) {
        throw reason;
      }
      this._sessions.onDamaged({ path, reason: reason.message });
      return emptyNotebook(localPath);
    }
    const { model, version } = loaded;
    if (version !== null && options?.content) {
      this._sessions.onLoaded(path, version, model);
    }
    return this._sessions.loaded(path) ? this._unchanging(path, model) : model;
  }

  async save(localPath: string, options: Partial<Contents.IModel> = {}): Promise<Contents.IModel> {
    const path = this._options.globalPath(localPath);
    const session = this._sessions.find(path);
    if (session?.isActive) {
      await withinTime(session.flush());
    }
    if (session?.isActive) {
      return this._unchanging(path, await writeNotebook(this._options.settings, path));
    }
    const model = await this._rest.save(localPath, options);
    session?.onSavedWhole(stateOfContent(options.content));
    return model;
  }

  /** The server merges what other programs write: JupyterLab must not notice it, and ask which version to keep. */
  private _unchanging(path: string, model: Contents.IModel): Contents.IModel {
    const { hash: _, hash_algorithm: __, ...others } = model;
    return { ...others, last_modified: this._sessions.loaded(path)?.lastModified ?? model.last_modified };
  }

  private readonly _rest: RestContentProvider;
}

/**
 * Stands in for a damaged notebook until its tab is closed: JupyterLab would show the error as it is, and then ask to save the
 * notebook that it could not open. It cannot be written.
 */
function emptyNotebook(path: string): Contents.IModel {
  const content = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };
  const name = PathExt.basename(path);
  const now = new Date().toISOString();
  return { name, path, type: 'notebook', format: 'json', content, writable: false, created: now, last_modified: now, mimetype: '' };
}

async function withinTime(saved: Promise<void>): Promise<void> {
  const late = new Promise<never>((_, reject) => {
    window.setTimeout(() => {
      reject(new Error(text('The lab’s server does not answer. This page keeps your edits, and sends them as soon as it does.')));
    }, SAVE_TIMEOUT_MS);
  });
  await Promise.race([saved, late]);
}

/** Return the state of a notebook that was saved as a whole. */
function stateOfContent(content: unknown): INotebookState {
  const { cells, metadata } = content as { cells: ISavedCell[]; metadata: Metadata };
  const states = new Map<string, ICellState>(
    cells.map(({ id, cell_type, source, metadata: { execution: _, trusted: __, ...kept }, attachments }) => [
      id,
      { type: cell_type, source: typeof source === 'string' ? source : source.join(''), metadata: kept, attachments: attachments ?? null }
    ])
  );
  const { widgets: _, ...kept } = metadata;
  return { order: [...states.keys()], metadata: kept, cell: id => states.get(id) };
}

interface ISavedCell {
  id: string;
  cell_type: string;
  source: string | string[];
  metadata: Metadata;
  attachments?: Metadata;
}
