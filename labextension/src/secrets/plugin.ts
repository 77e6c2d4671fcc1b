/** The side panel with the user's secrets. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { secretsIcon } from '../icons';
import type { Secret } from '../records';
import { text } from '../text';
import { commandIds } from '../tokens';
import { SecretsModel } from './secretsModel';
import { SecretsPanel } from './secretsPanel';

export const secrets: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:secrets',
  description: 'A side panel with the user’s secrets and the notebooks that may read them.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager, shell } = app;
    const model = new SecretsModel(serviceManager.serverSettings, () => notebooks.currentWidget?.context.path ?? '');
    const panel = new SecretsPanel(model, secret => void remove(model, secret));
    notebooks.currentChanged.connect(() => panel.isVisible && void model.refresh());
    shell.add(panel, 'left', { rank: 260, type: 'Secrets' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showSecrets, {
      label: () => text('Show Secrets'),
      icon: secretsIcon,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showSecrets, category: 'ownlab' });
  }
};

async function remove(model: SecretsModel, secret: Secret): Promise<void> {
  const { button } = await showDialog({
    title: text('Remove the secret {name}?', { name: secret.name }),
    body: text('Its value is deleted, and notebooks can no longer read it.'),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Remove') })]
  });
  if (button.accept) {
    await model.remove(secret);
  }
}
