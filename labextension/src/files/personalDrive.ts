/** The user's drive as a drive of JupyterLab, with paths that start with "drive:". */
import { URLExt } from '@jupyterlab/coreutils';
import { type Contents, Drive, ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { emptyFolder } from './emptyFolder';

/** The drive's name and its only folder, as on the server. */
const NAME = 'drive';
export const MY_DRIVE = 'MyDrive';
/** The drive is a remote that is not mounted. */
const NOT_MOUNTED = 409;
const ROOT = 'ownlab/drive';
const CONTENTS = `${ROOT}/api/contents`;

export class PersonalDrive extends Drive {
  constructor(serverSettings: ServerConnection.ISettings) {
    super({ name: NAME, apiEndpoint: CONTENTS, serverSettings });
  }

  /** Where notebooks are loaded from and saved to. */
  readonly contentsEndpoint = CONTENTS;

  /** Why the drive is not available; empty if it is. */
  get failure(): string {
    return this._failure;
  }

  get failureChanged(): ISignal<this, void> {
    return this._failureChanged;
  }

  /** Show a missing drive as an empty folder: the file browser would show an error dialog every few seconds. */
  override async get(localPath: string, options?: Contents.IFetchOptions): Promise<Contents.IModel> {
    try {
      const model = await super.get(localPath, options);
      this._setFailure('');
      return model;
    } catch (reason) {
      if (!(reason instanceof ServerConnection.ResponseError) || reason.response.status !== NOT_MOUNTED) {
        throw reason;
      }
      this._setFailure(reason.message);
      if (options?.type === 'file' || options?.type === 'notebook' || options?.content === false) {
        throw reason; // an open document must not be replaced by an empty folder
      }
      return emptyFolder(localPath);
    }
  }

  override async getDownloadUrl(localPath: string): Promise<string> {
    const url = new URL(await super.getDownloadUrl(localPath));
    const { baseUrl } = this.serverSettings;
    return URLExt.join(baseUrl, ROOT, 'files', URLExt.encodeParts(localPath)) + url.search;
  }

  private _setFailure(failure: string): void {
    if (failure !== this._failure) {
      this._failure = failure;
      this._failureChanged.emit();
    }
  }

  private readonly _failureChanged = new Signal<this, void>(this);
  private _failure = '';
}
