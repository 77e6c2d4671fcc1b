/** The page's part of google.colab: it answers requests of kernels, and provides an API to scripts in outputs. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, ISessionContextDialogs } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { reportFailure } from '../failures';
import { forOneViewOfEach } from '../notebook/views';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import { commandIds, IColabModes, IReachability } from '../tokens';
import { ColabActions } from './actions';
import { ColabMode, type ColabModes } from './colabMode';
import { offerColabMode } from './colabOffer';
import { forwardAddresses } from './localAddresses';
import { installPageApi } from './pageApi';
import { RequestBroker } from './requestBroker';
import { renderScripts } from './scripts';

export const colab: JupyterFrontEndPlugin<ColabModes> = {
  id: 'ownlab:colab',
  description: 'Answers the requests of google.colab.',
  autoStart: true,
  requires: [INotebookTracker, IReachability, ISessionContextDialogs],
  optional: [ICommandPalette],
  provides: IColabModes,
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    reachability: Reachability,
    dialogs: ISessionContextDialogs,
    palette: ICommandPalette | null
  ) => {
    const { serverSettings } = app.serviceManager;
    const modes: ColabModes = new WeakMap();
    const actions = new ColabActions(app, reachability);
    const brokers = new Map<NotebookPanel, RequestBroker>();
    const addPanel = (panel: NotebookPanel): void => {
      const mode = new ColabMode(panel, serverSettings);
      modes.set(panel.sessionContext, mode);
      mode.changed.connect(() => app.commands.notifyCommandChanged(commandIds.colabMode));
      const inColabMode = (): boolean => mode.on === true;
      renderScripts(panel, inColabMode, serverSettings.baseUrl);
      forwardAddresses(panel, inColabMode, serverSettings.baseUrl);
    };
    installPageApi(notebooks, brokers, actions, serverSettings);
    notebooks.forEach(addPanel);
    notebooks.widgetAdded.connect((_, panel) => addPanel(panel));
    forOneViewOfEach(notebooks, panel => {
      brokers.set(panel, new RequestBroker(panel, actions));
      const mode = modes.get(panel.sessionContext);
      if (mode) {
        offerColabMode(panel, mode, dialogs);
      }
      return () => brokers.delete(panel);
    });

    const current = (): ColabMode | undefined => notebooks.currentWidget ? modes.get(notebooks.currentWidget.sessionContext) : undefined;
    app.commands.addCommand(commandIds.colabMode, {
      label: () => text('Colab Mode'),
      caption: () => text('Run this notebook’s kernel with google.colab and /content'),
      isToggleable: true,
      isToggled: () => current()?.on === true,
      isEnabled: () => current() !== undefined,
      execute: () =>
        reportFailure(Promise.resolve(current()?.toggle()), error => text('Colab mode was not changed: {error}', { error }))
    });
    notebooks.currentChanged.connect(() => app.commands.notifyCommandChanged(commandIds.colabMode));
    palette?.addItem({ command: commandIds.colabMode, category: 'ownlab' });
    return modes;
  }
};
