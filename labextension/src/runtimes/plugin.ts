/** One stream of snapshots for the whole page. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { ColabModes } from '../colab/colabMode';
import { runtimesIcon } from '../icons';
import type { Runtime } from '../records';
import type { Reachability } from '../session/reachability';
import { commandIds, IColabModes, ILiveSnapshot, IReachability } from '../tokens';
import { Indicator } from './indicator';
import { LiveSnapshot } from './liveSnapshot';
import { type IRuntimeActions, Popover } from './popover';
import { RuntimesPanel } from './runtimesPanel';
import { Proposer } from './typeProposal';

export const stream: JupyterFrontEndPlugin<LiveSnapshot> = {
  id: 'ownlab:stream',
  description: 'All runtimes, cards and types of this machine, live.',
  autoStart: true,
  requires: [IReachability],
  provides: ILiveSnapshot,
  activate: (app: JupyterFrontEnd, reachability: Reachability) => {
    const live = new LiveSnapshot(app.serviceManager.serverSettings, reachability);
    void live.start();
    return live;
  }
};

export const panel: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:panel',
  description: 'All runtimes, cards, and the last minutes, in the left side bar.',
  autoStart: true,
  requires: [ILiveSnapshot],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, restorer: ILayoutRestorer | null, palette: ICommandPalette | null) => {
    const { commands, shell } = app;
    const panel = new RuntimesPanel(live, {
      extend: ({ id }) => void commands.execute(commandIds.extendRuntime, { id }),
      stop: ({ id }) => void commands.execute(commandIds.stopRuntime, { id }),
      opener: runtime => opener(app, runtime)
    });
    shell.add(panel, 'left', { rank: 250, type: 'Runtimes' });
    restorer?.add(panel, panel.id);
    commands.addCommand(commandIds.showRuntimes, {
      label: 'Show Runtimes and Cards',
      icon: runtimesIcon,
      execute: () => shell.activateById(panel.id)
    });
    palette?.addItem({ command: commandIds.showRuntimes, category: 'ownlab' });
  }
};

/** A runtime of this lab has a session; the session knows the notebook's path. */
function opener({ commands, serviceManager }: JupyterFrontEnd, { id }: Runtime): (() => void) | undefined {
  for (const session of serviceManager.sessions.running()) {
    if (session.kernel?.id === id && session.type === 'notebook') {
      return () => void commands.execute('docmanager:open', { path: session.path });
    }
  }
  return undefined;
}

export const indicator: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:indicator',
  description: 'Shows each notebook’s runtime in its toolbar.',
  autoStart: true,
  requires: [ILiveSnapshot, IToolbarWidgetRegistry],
  optional: [IColabModes],
  activate: ({ commands }: JupyterFrontEnd, live: LiveSnapshot, toolbars: IToolbarWidgetRegistry, modes: ColabModes | null) => {
    const actions: IRuntimeActions = {
      extend: ({ id }) => void commands.execute(commandIds.extendRuntime, { id }),
      stop: ({ id }) => void commands.execute(commandIds.stopRuntime, { id }),
      changeType: () => void commands.execute(commandIds.changeType),
      showAll: () => void commands.execute(commandIds.showRuntimes),
      toggleColab: () => void commands.execute(commandIds.colabMode)
    };
    let shown: Popover | null = null;
    const open = (from: Indicator, anchor: HTMLElement): void => {
      if (shown) {
        shown.dispose();
        return;
      }
      const popover = new Popover({ live, anchor, runtime: () => from.runtime, colab: () => modes?.get(from.sessionContext)?.on ?? null, actions });
      shown = popover;
      from.expanded = true;
      popover.disposed.connect(() => {
        shown = null;
        from.expanded = false;
      });
      popover.open();
    };
    toolbars.addFactory<NotebookPanel>(
      'Notebook',
      'ownlab-runtime',
      ({ sessionContext }) => new Indicator({ live, sessionContext, open })
    );
  }
};

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
