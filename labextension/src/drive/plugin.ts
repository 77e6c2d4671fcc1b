/** The user's drive in a file browser of its own. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { driveIcon } from '../icons';
import { text } from '../text';
import { commandIds } from '../tokens';
import { DrivePanel } from './drivePanel';
import { PersonalDrive } from './personalDrive';

export const drive: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:drive',
  description: 'A side panel with the folder that drive.mount provides.',
  autoStart: true,
  requires: [IFileBrowserFactory],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, factory: IFileBrowserFactory, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager, shell } = app;
    const personalDrive = new PersonalDrive(serviceManager.serverSettings);
    serviceManager.contents.addDrive(personalDrive);
    const panel = new DrivePanel(factory, personalDrive);
    shell.add(panel, 'left', { rank: 105, type: 'Drive' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showDrive, {
      label: () => text('Show Drive'),
      icon: driveIcon,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showDrive, category: 'ownlab' });
  }
};
