/** Proposes the runtime type that a notebook was made for. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { Proposer } from '../proposal/proposer';

export const proposal: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:proposal',
  description: 'Offers a card to notebooks that were made for one on Colab.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: ({ serviceManager }: JupyterFrontEnd, notebooks: INotebookTracker) => {
    const open = (panel: NotebookPanel): void => void new Proposer(panel, serviceManager.serverSettings);
    notebooks.forEach(open);
    notebooks.widgetAdded.connect((_, panel) => open(panel));
  }
};
