/** Plugins that show the machine's runtimes and cards. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { ColabModes } from '../colab/colabMode';
import { runtimesIcon } from '../icons';
import type { Connector } from '../notebook/connector';
import type { Runtime } from '../records';
import type { OwnShutdowns } from '../session/ownShutdowns';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import { commandIds, IColabModes, IConnector, ILiveSnapshot, IOwnShutdowns, IReachability } from '../tokens';
import { hasKernel, hasPackages } from './commands';
import { keepSpecsFresh } from './freshSpecs';
import { Indicator, TOOLBAR_ITEM } from './indicator';
import { LimitNotices } from './limitNotices';
import { LiveSnapshot } from './liveSnapshot';
import { type IRuntimeActions, Popover } from './popover';
import { QueueDialogs } from './queueDialog';
import { RuntimesPanel } from './runtimesPanel';
import { TypeProposal } from './typeProposal';

export const stream: JupyterFrontEndPlugin<LiveSnapshot> = {
  id: 'ownlab:stream',
  description: 'Streams the runtimes, cards and runtime types of this machine.',
  autoStart: true,
  requires: [IReachability],
  provides: ILiveSnapshot,
  activate: (app: JupyterFrontEnd, reachability: Reachability) => {
    const live = new LiveSnapshot(app.serviceManager.serverSettings, reachability);
    keepSpecsFresh(app.serviceManager.kernelspecs, live);
    void live.start();
    return live;
  }
};

export const panel: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:panel',
  description: 'A side panel with all runtimes, the cards, and their recent utilization.',
  autoStart: true,
  requires: [ILiveSnapshot],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const { commands, shell } = app;
    const panel = new RuntimesPanel(live, {
      extend: ({ id }) => void commands.execute(commandIds.extendRuntime, { id }),
      openTerminal: ({ id }) => void commands.execute(commandIds.openNodeTerminal, { id }),
      stop: ({ id }) => void commands.execute(commandIds.stopRuntime, { id }),
      opener: runtime => opener(app, runtime)
    });
    shell.add(panel, 'left', { rank: 250, type: 'Runtimes' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showRuntimes, {
      label: () => text('Show Runtimes and Cards'),
      icon: runtimesIcon,
      execute: () => shell.activateById(panel.id)
    });
    commands.addCommand(commandIds.showResources, {
      label: () => text('View Resources'),
      caption: () => text('Show what this notebook’s runtime and the others use'),
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showRuntimes, category: 'ownlab' });
  }
};

/** Return a function that opens the notebook of a runtime; undefined if the runtime belongs to another lab. */
function opener({ commands, serviceManager }: JupyterFrontEnd, { id }: Runtime): (() => void) | undefined {
  for (const session of serviceManager.sessions.running()) {
    if (session.kernel?.id === id && session.type === 'notebook') {
      return () => void commands.execute('docmanager:open', { path: session.path });
    }
  }
  return undefined;
}

/** Its place in the toolbar is in schema/indicator.json. */
export const indicator: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:indicator',
  description: 'Shows each notebook’s runtime in its toolbar.',
  autoStart: true,
  requires: [ILiveSnapshot, IConnector, IToolbarWidgetRegistry],
  optional: [IColabModes],
  activate: ({ commands }: JupyterFrontEnd, live: LiveSnapshot, connector: Connector, toolbars: IToolbarWidgetRegistry, modes: ColabModes | null) => {
    const actions: IRuntimeActions = {
      connect: () => void commands.execute(commandIds.connect),
      extend: ({ id }) => void commands.execute(commandIds.extendRuntime, { id }),
      changeType: () => void commands.execute(commandIds.changeType),
      showResources: () => void commands.execute(commandIds.showResources),
      restart: () => void commands.execute(commandIds.restartRuntime),
      restartRunAll: () => void commands.execute(commandIds.restartRunAll),
      deleteRuntime: () => void commands.execute(commandIds.deleteRuntime),
      factoryReset: () => void commands.execute(commandIds.factoryReset),
      toggleColab: () => void commands.execute(commandIds.colabMode)
    };
    let shown: Popover | null = null;
    const open = (panel: NotebookPanel, from: Indicator, anchor: HTMLElement): void => {
      if (shown) {
        shown.dispose();
        return;
      }
      const popover = new Popover({
        live,
        anchor,
        runtime: () => from.runtime,
        hasKernel: () => hasKernel(panel, connector),
        nextType: () => from.nextType,
        hasPackages: () => hasPackages(panel),
        colab: () => modes?.get(from.sessionContext)?.on ?? null,
        actions
      });
      shown = popover;
      from.expanded = true;
      popover.disposed.connect(() => {
        shown = null;
        from.expanded = false;
      });
      popover.open();
    };
    toolbars.addFactory<NotebookPanel>('Notebook', TOOLBAR_ITEM, panel => {
      const { sessionContext, context } = panel;
      const connect = (): void => void connector.connect(sessionContext, context.model);
      return new Indicator({ live, connector, sessionContext, model: context.model, connect, open: (from, anchor) => open(panel, from, anchor) });
    });
  }
};

export const proposal: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:proposal',
  description: 'Proposes a runtime type for notebooks that were written for a GPU on Colab.',
  autoStart: true,
  requires: [INotebookTracker, IConnector],
  activate: ({ serviceManager }: JupyterFrontEnd, notebooks: INotebookTracker, connector: Connector) => {
    const open = (panel: NotebookPanel): void => void new TypeProposal(panel, serviceManager.serverSettings, connector);
    notebooks.forEach(open);
    notebooks.widgetAdded.connect((_, panel) => open(panel));
  }
};

export const queue: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:queue',
  description: 'Asks what to do if a notebook’s runtime must wait for a card.',
  autoStart: true,
  requires: [ILiveSnapshot, INotebookTracker],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, notebooks: INotebookTracker) => {
    const dialogs = new QueueDialogs(app, live, notebooks);
    live.changed.connect(() => dialogs.update());
  }
};

export const warnings: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:warnings',
  description: 'Warns before a limit ends a runtime, and notifies when a runtime was ended or stopped.',
  autoStart: true,
  requires: [ILiveSnapshot, IOwnShutdowns, INotebookTracker],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, ownShutdowns: OwnShutdowns, notebooks: INotebookTracker) => {
    const notices = new LimitNotices(live, ownShutdowns, notebooks, id => void app.commands.execute(commandIds.extendRuntime, { id }));
    live.changed.connect(() => notices.update());
  }
};
