/** The page's half of google.colab: what kernels ask of it, and the object that scripts in outputs speak to. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Reachability } from '../session/reachability';
import { commandIds, IColabModes, IReachability } from '../tokens';
import { Deeds } from './actions';
import { ColabMode, type ColabModes } from './colabMode';
import { install } from './pageApi';
import { ColabDesk } from './requestBroker';
import { renderScripts } from './scripts';

export const colab: JupyterFrontEndPlugin<ColabModes> = {
  id: 'ownlab:colab',
  description: 'Answers google.colab.',
  autoStart: true,
  requires: [INotebookTracker, IReachability],
  optional: [ICommandPalette],
  provides: IColabModes,
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, reachability: Reachability, palette: ICommandPalette | null) => {
    const { serverSettings } = app.serviceManager;
    const modes: ColabModes = new WeakMap();
    const deeds = new Deeds(app, reachability);
    const desks = new Map<NotebookPanel, ColabDesk>();
    // Several views of a notebook share its kernel: one of them answers.
    const answering = new Set<NotebookPanel['context']>();
    const take = (panel: NotebookPanel): void => {
      const { context } = panel;
      if (answering.has(context) || panel.isDisposed) {
        return;
      }
      answering.add(context);
      desks.set(panel, new ColabDesk(panel, deeds));
      panel.disposed.connect(() => {
        answering.delete(context);
        desks.delete(panel);
        const other = notebooks.find(one => one !== panel && one.context === context);
        if (other) {
          take(other);
        }
      });
    };
    const open = (panel: NotebookPanel): void => {
      const mode = new ColabMode(panel, serverSettings);
      modes.set(panel.sessionContext, mode);
      mode.changed.connect(() => app.commands.notifyCommandChanged(commandIds.colabMode));
      renderScripts(panel, () => mode.on === true);
      take(panel);
    };
    install(notebooks, desks, deeds, serverSettings);
    notebooks.forEach(open);
    notebooks.widgetAdded.connect((_, panel) => open(panel));

    const current = (): ColabMode | undefined => notebooks.currentWidget ? modes.get(notebooks.currentWidget.sessionContext) : undefined;
    app.commands.addCommand(commandIds.colabMode, {
      label: 'Colab Mode',
      caption: 'Whether this notebook’s kernel has google.colab and /content',
      isToggleable: true,
      isToggled: () => current()?.on === true,
      isEnabled: () => current() !== undefined,
      execute: async () => {
        try {
          await current()?.toggle();
        } catch (reason) {
          Notification.error(`Colab mode was not changed: ${reason instanceof Error ? reason.message : String(reason)}`, { autoClose: false });
        }
      }
    });
    notebooks.currentChanged.connect(() => app.commands.notifyCommandChanged(commandIds.colabMode));
    palette?.addItem({ command: commandIds.colabMode, category: 'ownlab' });
    return modes;
  }
};
