/** The files of the runtime and of the drive, in JupyterLab's file browser beside the lab's folder; and the use of the disk. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, CommandToolbarButton, ICommandPalette, ISessionContextDialogs } from '@jupyterlab/apputils';
import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import { type FileBrowser, IDefaultFileBrowser, IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { copyIcon, folderIcon, searchIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { Token } from '@lumino/coreutils';
import type { PanelLayout } from '@lumino/widgets';
import type { ColabModes } from '../colab/colabMode';
import { reportFailure } from '../failures';
import { driveIcon } from '../icons';
import { sentences, text } from '../text';
import { commandIds, IColabModes } from '../tokens';
import { canBeInspected, startInspection } from './dataInspection';
import { askBeforeDeleting } from './deletion';
import { DiskUseLine, DiskUseMonitor, warnWhenFull } from './diskUse';
import { explainDrive, mountDrive } from './mount';
import { MY_DRIVE, PersonalDrive } from './personalDrive';
import { RuntimeDrives } from './runtimeDrive';
import { type ISource, SourcePanel } from './sourcePanel';
import { SourceSwitch } from './sourceSwitch';

export const IDiskUse = new Token<DiskUseMonitor>('ownlab:IDiskUse', 'How full the disk with the lab’s folder is.');

export const diskUse: JupyterFrontEndPlugin<DiskUseMonitor> = {
  id: 'ownlab:disk-use',
  description: 'Shows how full the disk is, and warns before it is full.',
  autoStart: true,
  provides: IDiskUse,
  activate: (app: JupyterFrontEnd) => {
    const monitor = new DiskUseMonitor(app.serviceManager.serverSettings);
    // Notifications that come before the page is restored are not shown.
    void app.restored.then(() => warnWhenFull(monitor));
    return monitor;
  }
};

export const files: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:files',
  description: 'The files of the runtime and of the drive beside the lab’s folder.',
  autoStart: true,
  requires: [IDefaultFileBrowser, IFileBrowserFactory, INotebookTracker, IDiskUse, IColabModes],
  optional: [ISessionContextDialogs, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    browser: FileBrowser,
    factory: IFileBrowserFactory,
    notebooks: INotebookTracker,
    monitor: DiskUseMonitor,
    modes: ColabModes,
    dialogs: ISessionContextDialogs | null,
    palette: ICommandPalette | null
  ) => {
    const { contents, serverSettings } = app.serviceManager;
    const personalDrive = new PersonalDrive(serverSettings);
    contents.addDrive(personalDrive);
    const runtimeDrives = new RuntimeDrives(contents, serverSettings);
    const runtime = new SourcePanel('ownlab-files-runtime', text('Files of the runtime'), factory, () =>
      runtimeSource(notebooks.currentWidget, modes, runtimeDrives)
    );
    const drive = new SourcePanel(
      'ownlab-files-drive',
      text('Drive'),
      factory,
      () => driveSource(personalDrive, monitor),
      () => new CommandToolbarButton({ commands: app.commands, id: commandIds.mountDrive, label: text('Mount Drive') })
    );
    monitor.changed.connect(() => drive.refresh());
    explainDrive(monitor, () => void app.commands.execute(commandIds.showDrive));
    addMountCommand(app, notebooks, modes, dialogs, palette);
    personalDrive.failureChanged.connect(() => drive.refresh());
    followNotebooks(notebooks, modes, runtime);

    askBeforeDeleting(browser.model.manager, app.serviceManager.sessions);
    const isOurs = (name: string): boolean => name === personalDrive.name || runtimeDrives.has(name);
    openAddressedFile(app, browser, factory, isOurs);

    const tabs = new SourceSwitch(browser);
    tabs.addTab(text('Runtime'), text('The /content of the notebook in front'), runtime);
    tabs.addTab(text('Drive'), text('What drive.mount provides'), drive);
    browser.header.addWidget(tabs);
    (browser.layout as PanelLayout).addWidget(new DiskUseLine(monitor));

    const pathOf = (path: string): string => fullPath(contents.driveName(path), contents.localPath(path), monitor, runtimeDrives);
    addCommands(app, browser, factory, pathOf, { tabs, runtime, drive }, palette);
  }
};

/** JupyterLab opens the file in the page's address only if a file browser shows its drive: provide one until it is open. */
function openAddressedFile(app: JupyterFrontEnd, labBrowser: FileBrowser, factory: IFileBrowserFactory, isOurs: (drive: string) => boolean): void {
  const { commands, serviceManager } = app;
  const driveName = serviceManager.contents.driveName(decodeURIComponent(PageConfig.getOption('treePath')));
  if (!isOurs(driveName)) {
    return;
  }
  const browser = factory.createFileBrowser(`ownlab-files-${driveName}`, { driveName, auto: false });
  const onExecuted = (_: unknown, { id, result }: CommandRegistry.ICommandExecutedArgs): void => {
    if (id === 'filebrowser:open-path') {
      commands.commandExecuted.disconnect(onExecuted);
      void result
        .catch(() => undefined)
        .then(() => {
          browser.dispose();
          return labBrowser.model.refresh(); // JupyterLab has opened a folder in the other one only
        });
    }
  };
  commands.commandExecuted.connect(onExecuted);
}

/** Refresh the panel when another notebook comes to the front, or its runtime changes. */
function followNotebooks(notebooks: INotebookTracker, modes: ColabModes, runtime: SourcePanel): void {
  const refresh = (): void => runtime.refresh();
  notebooks.currentChanged.connect(refresh);
  const follow = ({ sessionContext }: NotebookPanel): void => {
    sessionContext.kernelChanged.connect(refresh);
    sessionContext.statusChanged.connect((_, status) => {
      if (status === 'dead') {
        refresh();
      }
    });
    modes.get(sessionContext)?.changed.connect(refresh);
  };
  notebooks.forEach(follow);
  notebooks.widgetAdded.connect((_, panel) => follow(panel));
}

function driveSource({ name, failure }: PersonalDrive, monitor: DiskUseMonitor): ISource {
  const folder = monitor.current?.drive;
  const usual = sentences(
    typeof folder === 'string' ? text('The folder {folder} of this machine, not Google Drive.', { folder }) : '',
    text('After drive.mount, notebooks have it as MyDrive. It is kept when runtimes end.')
  );
  return { driveName: name, folder: MY_DRIVE, message: failure || usual, warn: failure !== '' };
}

function runtimeSource(panel: NotebookPanel | null, modes: ColabModes, drives: RuntimeDrives): ISource {
  const none = { driveName: '', folder: '' };
  if (!panel) {
    return { ...none, message: text('Open a notebook to see the files of its runtime.') };
  }
  const name = PathExt.basename(panel.context.localPath);
  const kernel = panel.sessionContext.session?.kernel;
  if (!kernel || kernel.status === 'dead') {
    return { ...none, message: text('{name} has no runtime. It gets one when a cell runs.', { name }) };
  }
  const isColab = modes.get(panel.sessionContext)?.on;
  if (!isColab) {
    const message =
      isColab === false
        ? text('The runtime of {name} has no /content, because it is not in Colab mode. It works in the folder of the notebook.', { name })
        : '';
    return { ...none, message };
  }
  const message = text('/content of {name}. It is deleted some days after the runtime has ended.', { name });
  return { driveName: drives.of(kernel.id).name, folder: '', message };
}

/** The path that code in a notebook uses. */
function fullPath(drive: string, localPath: string, monitor: DiskUseMonitor, drives: RuntimeDrives): string {
  if (drives.has(drive)) {
    return PathExt.joinWithLeadingSlash('/content', localPath);
  }
  return drive ? PathExt.joinWithLeadingSlash('/content/drive', localPath) : PathExt.joinWithLeadingSlash(monitor.current?.folder ?? '', localPath);
}

function addMountCommand(
  { commands, shell }: JupyterFrontEnd,
  notebooks: INotebookTracker,
  modes: ColabModes,
  dialogs: ISessionContextDialogs | null,
  palette: ICommandPalette | null
): void {
  commands.addCommand(commandIds.mountDrive, {
    label: () => text('Mount Drive'),
    caption: () => text('Insert code into the current notebook that mounts this folder as /content/drive, and run it'),
    icon: driveIcon,
    isEnabled: () => notebooks.currentWidget !== null,
    execute: async () => {
      const panel = notebooks.currentWidget;
      if (panel) {
        shell.activateById(panel.id);
        await reportFailure(mountDrive(panel, modes.get(panel.sessionContext), dialogs ?? undefined));
      }
    }
  });
  notebooks.currentChanged.connect(() => commands.notifyCommandChanged(commandIds.mountDrive));
  palette?.addItem({ command: commandIds.mountDrive, category: 'ownlab' });
}

interface ISources {
  tabs: SourceSwitch;
  runtime: SourcePanel;
  drive: SourcePanel;
}

function addCommands(
  app: JupyterFrontEnd,
  browser: FileBrowser,
  factory: IFileBrowserFactory,
  pathOf: (path: string) => string,
  { tabs, runtime, drive }: ISources,
  palette: ICommandPalette | null
): void {
  const { commands, contextMenu, shell } = app;
  const show = (panel: SourcePanel): void => {
    shell.activateById(browser.id);
    tabs.select(panel);
  };
  commands.addCommand(commandIds.showDrive, { label: () => text('Show Drive'), icon: driveIcon, execute: () => show(drive) });
  commands.addCommand(commandIds.showRuntimeFiles, {
    label: () => text('Show Files of the Runtime'),
    icon: folderIcon,
    execute: () => show(runtime)
  });
  const selectedPath = (): string | undefined => [...(factory.tracker.currentWidget?.selectedItems() ?? [])][0]?.path;
  commands.addCommand(commandIds.copyFullPath, {
    label: () => text('Copy Path for Code'),
    icon: copyIcon,
    isVisible: () => selectedPath() !== undefined,
    execute: () => {
      const path = selectedPath();
      if (path !== undefined) {
        Clipboard.copyToSystem(pathOf(path));
      }
    }
  });
  contextMenu.addItem({ command: commandIds.copyFullPath, selector: '.jp-DirListing-item[data-isdir]', rank: 14.5 });
  addInspection(app, () => [...(factory.tracker.currentWidget?.selectedItems() ?? [])], pathOf);
  [commandIds.showDrive, commandIds.showRuntimeFiles].forEach(command => palette?.addItem({ command, category: 'ownlab' }));
}

/** Add "Inspect Data" for what is selected in the lab's folder: the files of runtimes and of the drive have other paths in a terminal. */
function addInspection({ commands, contextMenu, serviceManager }: JupyterFrontEnd, selected: () => Contents.IModel[], pathOf: (path: string) => string): void {
  const { contents, terminals } = serviceManager;
  const chosen = (): Contents.IModel | undefined => {
    const [item, ...others] = selected();
    return item && !others.length && !contents.driveName(item.path) && canBeInspected(item) ? item : undefined;
  };
  commands.addCommand(commandIds.inspectData, {
    label: () => text('Inspect Data'),
    caption: () => text('Show kinds, classes, image sizes, broken images and duplicates'),
    icon: searchIcon,
    isVisible: () => chosen() !== undefined,
    execute: async () => {
      const item = chosen();
      if (item) {
        await reportFailure(startInspection(terminals, pathOf(item.path)).then(name => commands.execute('terminal:open', { name })));
      }
    }
  });
  contextMenu.addItem({ command: commandIds.inspectData, selector: '.jp-DirListing-item[data-isdir]', rank: 14.6 });
}
