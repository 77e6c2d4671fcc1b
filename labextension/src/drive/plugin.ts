/** The person's drive, in a file browser of its own. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { driveIcon } from '../icons';
import { commandIds } from '../tokens';
import { DrivePanel } from './drivePanel';
import { PersonsDrive } from './personalDrive';

export const drive: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:drive',
  description: 'The folder that drive.mount shows, in the left side bar.',
  autoStart: true,
  requires: [IFileBrowserFactory],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, factory: IFileBrowserFactory, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager, shell } = app;
    const persons = new PersonsDrive(serviceManager.serverSettings);
    serviceManager.contents.addDrive(persons);
    const panel = new DrivePanel(factory, persons);
    shell.add(panel, 'left', { rank: 105, type: 'Drive' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showDrive, {
      label: 'Show Drive',
      icon: driveIcon,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showDrive, category: 'ownlab' });
  }
};
