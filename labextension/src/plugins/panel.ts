/** The side panel with all runtimes. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { LiveSnapshot } from '../live';
import type { Runtime } from '../records';
import { commandIds, ILiveSnapshot } from '../tokens';
import { runtimesIcon } from '../widgets/icon';
import { RuntimesPanel } from '../widgets/panel';

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
