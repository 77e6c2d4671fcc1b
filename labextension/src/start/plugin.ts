/** Plugins of the start page, which takes the place of JupyterLab's launcher, and of the product's logo. */
import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { addIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { doctorIcon, ownlabIcon } from '../icons';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { commandIds, ILiveSnapshot } from '../tokens';
import { DoctorPanel } from './doctorReport';
import { EnvironmentsModel } from './environmentsModel';
import { LauncherItems } from './launcherItems';
import { startActions } from './startActions';
import { StartModel } from './startModel';
import { StartPanel } from './startPanel';

/** Its places in menus and toolbars are in schema/start.json. */
export const startPage: JupyterFrontEndPlugin<ILauncher> = {
  id: 'ownlab:start',
  description: 'The start page, in place of JupyterLab’s launcher.',
  autoStart: true,
  requires: [ILiveSnapshot],
  optional: [ILabShell, ICommandPalette, IDefaultFileBrowser],
  provides: ILauncher,
  activate: (
    app: JupyterFrontEnd,
    live: LiveSnapshot,
    labShell: ILabShell | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null
  ) => {
    const { commands, serviceManager } = app;
    const items = new LauncherItems();
    const model = new StartModel(serviceManager.serverSettings);
    const environments = new EnvironmentsModel(serviceManager.serverSettings);
    model.changed.connect(() => environments.update(model.page?.environments ?? null));
    refreshWithRuntimes(model, live, app);
    addDoctor(app, model, palette);
    let count = 0;
    commands.addCommand(commandIds.launcher, {
      label: () => text('Start Page'),
      caption: () => text('Create or open a notebook'),
      icon: args => (args.toolbar ? addIcon : undefined),
      execute: args => {
        const folder = (): string => (typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? ''));
        const id = `launcher-${count++}`;
        const actions = startActions({ app, browser, folder, replace: replaces(app, id) });
        return addStartPage(app, labShell, id, args, new StartPanel({ model, environments, live, items, actions }));
      }
    });
    palette?.addItem({ command: commandIds.launcher, category: 'ownlab' });
    if (labShell) {
      showWhenEmpty(app, labShell, browser);
    }
    return items;
  }
};

/** Return a function that puts a widget in the place of a start page. */
function replaces({ shell }: JupyterFrontEnd, id: string): (widget: Widget) => void {
  return widget => {
    const page = [...shell.widgets('main')].find(each => each.id === id);
    if (page && [...shell.widgets('main')].includes(widget)) {
      shell.add(widget, 'main', { ref: id });
      page.dispose();
    }
  };
}

function addStartPage(
  { shell }: JupyterFrontEnd,
  labShell: ILabShell | null,
  id: string,
  { activate, ref }: { activate?: unknown; ref?: unknown },
  content: StartPanel
): MainAreaWidget<StartPanel> {
  const main = new MainAreaWidget({ content });
  main.id = id;
  main.toolbar.hide(); // it is empty
  // The last tab cannot be closed: another start page would take its place.
  const update = (): void => {
    main.title.closable = [...shell.widgets('main')].length > (main.isAttached ? 1 : 0);
  };
  update();
  shell.add(main, 'main', { activate: activate !== false, ...(typeof ref === 'string' ? { ref } : {}) });
  labShell?.layoutModified.connect(update);
  main.disposed.connect(() => labShell?.layoutModified.disconnect(update));
  return main;
}

/** Show the start page if nothing else is open, and when "+" is pressed. */
function showWhenEmpty({ commands, restored }: JupyterFrontEnd, labShell: ILabShell, browser: IDefaultFileBrowser | null): void {
  void Promise.all([restored, browser?.model.restored]).then(() => {
    labShell.layoutModified.connect(() => {
      if (labShell.isEmpty('main')) {
        void commands.execute(commandIds.launcher);
      }
    });
  });
  labShell.addButtonEnabled = true;
  labShell.addRequested.connect((_, bar) => {
    const ref = bar.currentTitle?.owner.id ?? bar.titles.at(-1)?.owner.id;
    void commands.execute(commandIds.launcher, ref === undefined ? {} : { ref });
  });
}

/** Refresh a visible start page when a runtime has started or ended. */
function refreshWithRuntimes(model: StartModel, live: LiveSnapshot, { shell }: JupyterFrontEnd): void {
  let before: string | null = null;
  live.changed.connect(() => {
    const now = JSON.stringify(live.current?.runtimes.map(({ id, busy }) => [id, busy]) ?? []);
    const { currentWidget } = shell;
    if (before !== null && now !== before && currentWidget instanceof MainAreaWidget && currentWidget.content instanceof StartPanel) {
      model.refresh();
    }
    before = now;
  });
}

function addDoctor({ commands, shell }: JupyterFrontEnd, model: StartModel, palette: ICommandPalette | null): void {
  let main: MainAreaWidget<DoctorPanel> | null = null;
  commands.addCommand(commandIds.showDoctor, {
    label: () => text('Examine This Machine'),
    caption: () => text('Whether GPU work runs here, and what to fix if not'),
    icon: doctorIcon,
    execute: () => {
      if (!main || main.isDisposed) {
        main = new MainAreaWidget({ content: new DoctorPanel(model) });
        main.id = 'ownlab-doctor';
        main.toolbar.hide();
        shell.add(main, 'main');
      }
      shell.activateById(main.id);
      return main;
    }
  });
  palette?.addItem({ command: commandIds.showDoctor, category: 'ownlab' });
}

export const logo: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:logo',
  description: 'The product’s name and icon at the top left; opens the start page.',
  autoStart: true,
  requires: [ILabShell],
  activate: ({ commands }: JupyterFrontEnd, labShell: ILabShell) => {
    const button = document.createElement('button');
    button.className = 'ownlab-Logo';
    button.title = text('Start page');
    button.setAttribute('aria-label', text('ownlab: start page'));
    ownlabIcon.element({ container: button, tag: 'span' });
    button.append('ownlab');
    button.addEventListener('click', () => {
      const open = [...labShell.widgets('main')].find(each => each instanceof MainAreaWidget && each.content instanceof StartPanel);
      if (open) {
        labShell.activateById(open.id);
      } else {
        void commands.execute(commandIds.launcher);
      }
    });
    const widget = new Widget();
    widget.id = 'jp-MainLogo'; // JupyterLab's layout of the top line knows it
    widget.node.append(button);
    labShell.add(widget, 'top', { rank: 0 });
  }
};
