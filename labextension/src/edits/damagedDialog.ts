/** A notebook whose file is damaged: what is wrong with it, and what can be done. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { notebookName } from '../formatting';
import { text } from '../text';
import { commandIds } from '../tokens';
import type { IDamagedNotebook } from './editSessions';

/** Ask what to do, and close the tab, in which nothing can be shown. The file is not changed. */
export async function showDamaged(commands: CommandRegistry, notebooks: INotebookTracker, { path, reason }: IDamagedNotebook): Promise<void> {
  const { button } = await showDialog({
    title: text('{notebook} cannot be opened as a notebook', { notebook: notebookName(path) }),
    body: explanation(reason),
    buttons: [
      Dialog.cancelButton({ label: text('Close') }),
      Dialog.okButton({ label: text('Open as text'), actions: ['text'] }),
      Dialog.okButton({ label: text('Earlier versions'), actions: ['history'] })
    ],
    defaultButton: 0
  });
  // Not before: other extensions are at work on a notebook that was just opened.
  notebooks.find(({ context }) => context.path === path)?.dispose();
  if (button.actions.includes('text')) {
    await commands.execute('docmanager:open', { path, factory: 'Editor' });
  } else if (button.actions.includes('history')) {
    await commands.execute(commandIds.history, { path });
  }
}

function explanation(reason: string): Widget {
  const body = new Widget();
  body.addClass('ownlab-Damaged');
  for (const sentence of [reason, text('The file is unchanged. A restored version replaces it; a copy of the damaged file is kept beside it.')]) {
    const paragraph = document.createElement('p');
    paragraph.textContent = sentence;
    body.node.append(paragraph);
  }
  return body;
}
