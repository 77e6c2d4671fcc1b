/** The person's drive as a drive of JupyterLab's: paths that begin with "drive:". */
import { PathExt, URLExt } from '@jupyterlab/coreutils';
import { type Contents, Drive, ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';

/** As the server's lab/runtimes/remotes.py has them: the drive's name, and its one folder. */
const NAME = 'drive';
export const MINE = 'MyDrive';
/** It is a remote that is not mounted. */
const NOT_THERE = 409;
const ROOT = 'ownlab/drive';

export class PersonsDrive extends Drive {
  constructor(serverSettings: ServerConnection.ISettings) {
    super({ name: NAME, apiEndpoint: `${ROOT}/api/contents`, serverSettings });
  }

  /** Why there is nothing to be seen; empty where there is. */
  get trouble(): string {
    return this._trouble;
  }

  get troubleChanged(): ISignal<this, void> {
    return this._troubleChanged;
  }

  /** A drive that is not there is an empty one: the file browser would tell of it in a dialog every few seconds. */
  override async get(localPath: string, options?: Contents.IFetchOptions): Promise<Contents.IModel> {
    try {
      const found = await super.get(localPath, options);
      this._setTrouble('');
      return found;
    } catch (reason) {
      if (!(reason instanceof ServerConnection.ResponseError) || reason.response.status !== NOT_THERE) {
        throw reason;
      }
      this._setTrouble(reason.message);
      if (options?.type === 'file' || options?.type === 'notebook' || options?.content === false) {
        throw reason; // whoever has it open must not take an empty folder for it
      }
      return { ...NOTHING, path: localPath, name: PathExt.basename(localPath) };
    }
  }

  override async getDownloadUrl(localPath: string): Promise<string> {
    const url = new URL(await super.getDownloadUrl(localPath));
    const { baseUrl } = this.serverSettings;
    return URLExt.join(baseUrl, ROOT, 'files', URLExt.encodeParts(localPath)) + url.search;
  }

  private _setTrouble(words: string): void {
    if (words !== this._trouble) {
      this._trouble = words;
      this._troubleChanged.emit();
    }
  }

  private readonly _troubleChanged = new Signal<this, void>(this);
  private _trouble = '';
}

const NOTHING: Contents.IModel = {
  name: '',
  path: '',
  type: 'directory',
  writable: false,
  created: new Date(0).toISOString(),
  last_modified: new Date(0).toISOString(),
  mimetype: '',
  content: [],
  format: 'json'
};
