/** The indicator in each notebook's toolbar; schema/indicator.json gives it its place. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ColabModes } from '../colab/modes';
import type { LiveSnapshot } from '../live';
import { commandIds, IColabModes, ILiveSnapshot } from '../tokens';
import { Indicator } from '../widgets/indicator';
import { type IRuntimeActions, Popover } from '../widgets/popover';

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
