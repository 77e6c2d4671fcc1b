/** A side panel with the variables of the current notebook. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { variablesIcon } from '../icons';
import { text } from '../text';
import { commandIds } from '../tokens';
import { VariablesModel } from './variablesModel';
import { VariablesPanel } from './variablesPanel';

export const variables: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:variables',
  description: 'A side panel with the variables of the current notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: ({ commands, shell }: JupyterFrontEnd, notebooks: INotebookTracker, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const panel = new VariablesPanel(new VariablesModel(notebooks));
    shell.add(panel, 'left', { rank: 255, type: 'Variables' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showVariables, {
      label: () => text('Show Variables'),
      icon: variablesIcon,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showVariables, category: 'ownlab' });
  }
};
