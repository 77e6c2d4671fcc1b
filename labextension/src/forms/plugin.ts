/** Colab forms: fields beside the code for `#@title`, `#@param` and `#@markdown`. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, ISessionContextDialogs } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import { IReachability } from '../tokens';
import { FormReader } from './formReader';
import { NotebookForms } from './notebookForms';

const TOGGLE = 'ownlab:toggle-form-code';

export const forms: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:forms',
  description: 'Shows the forms that cells define in their comments.',
  autoStart: true,
  requires: [INotebookTracker, IReachability],
  optional: [ISessionContextDialogs, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    reachability: Reachability,
    dialogs: ISessionContextDialogs | null,
    palette: ICommandPalette | null
  ) => {
    const reader = new FormReader(app.serviceManager.serverSettings, reachability);
    const formsOf = new WeakMap<NotebookPanel, NotebookForms>();
    const addPanel = (panel: NotebookPanel): void => {
      formsOf.set(panel, new NotebookForms(panel, reader, dialogs));
    };
    notebooks.forEach(addPanel);
    notebooks.widgetAdded.connect((_, panel) => addPanel(panel));

    const active = () => (notebooks.currentWidget ? formsOf.get(notebooks.currentWidget)?.active : undefined);
    app.commands.addCommand(TOGGLE, {
      label: () => (active()?.form?.hidden ? text('Show the Form’s Code') : text('Hide the Form’s Code')),
      isEnabled: () => Boolean(active()?.form),
      execute: () => active()?.toggle()
    });
    app.contextMenu.addItem({ command: TOGGLE, selector: '.jp-Notebook .jp-CodeCell.ownlab-mod-form', rank: 7 });
    palette?.addItem({ command: TOGGLE, category: 'ownlab' });
  }
};
