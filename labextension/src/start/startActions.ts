/** What the start page does: it creates, opens and uploads notebooks, and gives its place to what was opened. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Notification } from '@jupyterlab/apputils';
import type { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import type { ILauncher } from '@jupyterlab/launcher';
import type { KernelSpec } from '@jupyterlab/services';
import type { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { openAddress, openExample } from '../api';
import { reportFailure } from '../failures';
import type { ListedDataSet } from '../records';
import { text } from '../text';
import { commandIds } from '../tokens';
import { isConsole } from './launcherItems';

export interface IStartActions {
  createNotebook: (type: string | undefined) => void;
  open: (path: string) => void;
  /** Throws what the server says if it cannot be opened. */
  openAddress: (address: string) => Promise<void>;
  openExample: (name: string) => void;
  canUpload: boolean;
  upload: (files: readonly File[]) => void;
  /** The folder in which notebooks are created, for people. */
  folderName: () => string;
  showDoctor: () => void;
  /** Show its folder in the file browser, or copy its path if it is not in the lab's folder. */
  showDataSet: (dataSet: ListedDataSet) => void;
  launch: (item: ILauncher.IItemOptions) => void;
  describeItem: (item: ILauncher.IItemOptions) => { label: string; caption: string; icon: LabIcon.IMaybeResolvable };
}

export interface IStartActionsOptions {
  app: JupyterFrontEnd;
  browser: IDefaultFileBrowser | null;
  folder: () => string;
  /** Called with a widget that was opened and may take the place of the start page. */
  replace: (widget: Widget) => void;
}

export function startActions({ app, browser, folder, replace }: IStartActionsOptions): IStartActions {
  const { commands, serviceManager, shell } = app;
  const settings = serviceManager.serverSettings;
  const run = async (command: string, args: Record<string, unknown>): Promise<void> => {
    const before = new Set(shell.widgets('main'));
    const widget: unknown = await commands.execute(command, args as never);
    // One that was open already stays where it is.
    if (widget instanceof Widget && !before.has(widget)) {
      replace(widget);
    }
  };
  const open = (path: string): Promise<void> => run('docmanager:open', { path });
  const itemArgs = (item: ILauncher.IItemOptions): Record<string, unknown> => ({ ...item.args, cwd: folder() });
  return {
    createNotebook: type => {
      const kernel = type === undefined ? {} : { kernelName: type };
      const create = (): Promise<void> => run('notebook:create-new', { cwd: folder(), isLauncher: true, ...kernel });
      void reportFailure(whenKnown(type, serviceManager.kernelspecs).then(create));
    },
    open: path => void reportFailure(open(path)),
    openAddress: async address => open((await openAddress(settings, address, folder())).path),
    openExample: name => void reportFailure(openExample(settings, name).then(open)),
    canUpload: browser !== null,
    upload: files => void uploadFiles(files, browser, open),
    folderName: () => folder() || text('the lab’s folder'),
    showDoctor: () => void commands.execute(commandIds.showDoctor),
    showDataSet: ({ path, place }) => {
      if (place !== null && browser !== null) {
        void reportFailure(commands.execute('filebrowser:go-to-path', { path: place }));
        return;
      }
      Clipboard.copyToSystem(path);
      Notification.info(text('The path was copied: {path}', { path }), { autoClose: 5_000 });
    },
    launch: item => void reportFailure(run(item.command, itemArgs(item))),
    describeItem: item => {
      const args = itemArgs(item) as never;
      if (!commands.hasCommand(item.command)) {
        return { label: '', caption: '', icon: undefined };
      }
      const label = commands.label(item.command, args);
      const caption = commands.caption(item.command, args) || label;
      // JupyterLab's label of a console is the name of its kernel.
      return { label: isConsole(item.args) ? text('Console') : label, caption, icon: commands.icon(item.command, args) };
    }
  };
}

/** JupyterLab may not know a type yet whose environment was just built. */
async function whenKnown(type: string | undefined, kernelspecs: KernelSpec.IManager): Promise<void> {
  if (type !== undefined && !kernelspecs.specs?.kernelspecs[type]) {
    await kernelspecs.refreshSpecs().catch(() => undefined); // a notebook without a known type is better than none
  }
}

/** Upload files to the folder that the file browser shows. One notebook is opened. */
async function uploadFiles(files: readonly File[], browser: IDefaultFileBrowser | null, open: (path: string) => Promise<void>): Promise<void> {
  const uploaded: string[] = [];
  for (const file of files) {
    const upload = browser?.model.upload(file).then(
      ({ path }) => void uploaded.push(path),
      (reason: unknown) => {
        // JupyterLab throws a string if people did not want to overwrite a file, or to upload a large one.
        if (typeof reason !== 'string') {
          throw reason;
        }
      }
    );
    await reportFailure(upload ?? Promise.resolve(), error => text('{name} was not uploaded: {error}', { name: file.name, error }));
  }
  const [first] = uploaded;
  if (first !== undefined && uploaded.length === 1 && first.endsWith('.ipynb')) {
    await reportFailure(open(first));
  } else if (first !== undefined) {
    Notification.success(
      uploaded.length === 1 ? text('{path} was uploaded.', { path: first }) : text('{n} files were uploaded.', { n: uploaded.length }),
      { autoClose: 5_000 }
    );
  }
}
