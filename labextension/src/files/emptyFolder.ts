/** What a drive shows when it is not there: the file browser would show an error dialog every few seconds. */
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';

export function emptyFolder(path: string): Contents.IModel {
  const never = new Date(0).toISOString();
  return {
    name: PathExt.basename(path),
    path,
    type: 'directory',
    writable: false,
    created: never,
    last_modified: never,
    mimetype: '',
    content: [],
    format: 'json'
  };
}
