/** The /content of a runtime as a drive of JupyterLab. */
import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { type Contents, Drive, ServerConnection } from '@jupyterlab/services';
import { text } from '../text';
import { emptyFolder } from './emptyFolder';

const PREFIX = 'content-';
/** Of a runtime's id, in paths that people see. */
const ID_LENGTH = 8;
/** Runtimes whose files were opened in this browser: their drives must exist before JupyterLab restores open files. */
const STORED = 'ownlab:content-drives';
const MAX_STORED = 20;

export class RuntimeDrive extends Drive {
  constructor(
    serverSettings: ServerConnection.ISettings,
    readonly runtime: string
  ) {
    super({ name: PREFIX + runtime.slice(0, ID_LENGTH), apiEndpoint: `ownlab/content/${runtime}/api/contents`, serverSettings });
  }

  /** A notebook needs a place that outlives its runtime. */
  override async get(localPath: string, options?: Contents.IFetchOptions): Promise<Contents.IModel> {
    if (options?.content !== false && PathExt.extname(localPath) === '.ipynb') {
      throw new Error(text('Notebooks are opened in the lab’s folder or in the drive. Copy {name} there first.', { name: PathExt.basename(localPath) }));
    }
    try {
      return await super.get(localPath, options);
    } catch (reason) {
      const isFolder = options?.content !== false && options?.type !== 'file';
      if (isFolder && isMissing(reason) && (localPath === '' || (await this._isGone()))) {
        return emptyFolder(localPath);
      }
      throw reason;
    }
  }

  /** Whether /content was deleted with its runtime. */
  private async _isGone(): Promise<boolean> {
    return super.get('', { content: false }).then(() => false, isMissing);
  }

  override async newUntitled(options?: Contents.ICreateOptions): Promise<Contents.IModel> {
    if (options?.type === 'notebook') {
      throw new Error(text('Notebooks are created in the lab’s folder or in the drive. Choose one of them in Files first.'));
    }
    return super.newUntitled(options);
  }

  override async getDownloadUrl(localPath: string): Promise<string> {
    const url = new URL(await super.getDownloadUrl(localPath));
    return URLExt.join(this.serverSettings.baseUrl, 'ownlab/content', this.runtime, 'files', URLExt.encodeParts(localPath)) + url.search;
  }
}

function isMissing(reason: unknown): boolean {
  return reason instanceof ServerConnection.ResponseError && reason.response.status === 404;
}

/** The drives of this page, one for each runtime; JupyterLab cannot remove a drive. */
export class RuntimeDrives {
  constructor(
    private readonly _contents: Contents.IManager,
    private readonly _settings: ServerConnection.ISettings
  ) {
    readStored().forEach(runtime => this._add(runtime));
  }

  of(runtime: string): RuntimeDrive {
    const drive = this._drives.get(runtime) ?? this._add(runtime);
    const others = readStored().filter(each => each !== runtime);
    window.localStorage.setItem(STORED, JSON.stringify([...others, runtime].slice(-MAX_STORED)));
    return drive;
  }

  /** Whether a drive of JupyterLab is a runtime's. */
  has(name: string): boolean {
    return [...this._drives.values()].some(drive => drive.name === name);
  }

  private _add(runtime: string): RuntimeDrive {
    const drive = new RuntimeDrive(this._settings, runtime);
    this._drives.set(runtime, drive);
    this._contents.addDrive(drive);
    return drive;
  }

  private readonly _drives = new Map<string, RuntimeDrive>();
}

function readStored(): string[] {
  try {
    const stored: unknown = JSON.parse(window.localStorage.getItem(STORED) ?? '[]');
    return Array.isArray(stored) ? stored.filter((each): each is string => typeof each === 'string') : [];
  } catch {
    return []; // written by something else
  }
}
