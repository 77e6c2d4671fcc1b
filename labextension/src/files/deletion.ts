/** Deleting a notebook ends its runtime: JupyterLab's dialog does not say so. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { FileBrowser } from '@jupyterlab/filebrowser';
import type { Session } from '@jupyterlab/services';
import { notebookName } from '../formatting';
import { listing, plural, text } from '../text';

type Manager = FileBrowser['model']['manager'];

/** Ask before notebooks are deleted that have runtimes. */
export function askBeforeDeleting(manager: Manager, sessions: Session.IManager): void {
  const deleteFile = manager.deleteFile.bind(manager);
  manager.deleteFile = async path => {
    const names = [...sessions.running()]
      .filter(({ path: running }) => running === path || running.startsWith(`${path}/`))
      .map(({ path: running }) => notebookName(running));
    if (names.length === 0 || (await mayEnd(names))) {
      await deleteFile(path);
    }
  };
}

async function mayEnd(names: readonly string[]): Promise<boolean> {
  const notebooks = listing(names);
  const { button } = await showDialog({
    title: plural(names.length, 'End the runtime of {notebooks}?', 'End the runtimes of {notebooks}?', { notebooks }),
    body: text('What runs there stops, and its variables are lost. The notebook with its outputs can be restored: File, Restore Deleted Notebook.'),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('End and delete') })]
  });
  return button.accept;
}
