/** Attaches notebooks to what runs in their kernels, and runs cells. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContextDialogs, Notification } from '@jupyterlab/apputils';
import { INotebookCellExecutor, INotebookTracker, runCell } from '@jupyterlab/notebook';
import type { RunStates } from '../cells/runStates';
import { notebookName } from '../formatting';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import type { OwnShutdowns } from '../session/ownShutdowns';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import { type Attachments, IAttachments, IConnector, IJournal, ILiveSnapshot, IOwnShutdowns, IReachability, IRunGates, IRunStates } from '../tokens';
import { NotebookAttachment } from './attachment';
import { isAsking } from './askingCell';
import { CellExecutor, RunGates } from './cellExecutor';
import { Connector } from './connector';
import { EnvironmentWait } from './environmentWait';
import { KernelGate } from './kernelGate';
import { runOnlyLoadedNotebooks } from './loadedNotebook';
import { NotRunNotices, watchSentCell } from './sentCell';
import { removeStaleInput } from './staleInput';
import { StartOnDemand, whenInitialized } from './startOnDemand';
import { forOneViewOfEach } from './views';

const TYPE_MISSING_MS = 20_000;

export const attach: JupyterFrontEndPlugin<Attachments> = {
  id: 'ownlab:attach',
  description: 'Shows in each notebook what runs in its kernel.',
  autoStart: true,
  provides: IAttachments,
  requires: [INotebookTracker, IJournal, IReachability, IRunStates, ISessionContextDialogs],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    journal: IJournal,
    reachability: Reachability,
    runStates: RunStates,
    dialogs: ISessionContextDialogs
  ) => {
    const { serverSettings } = app.serviceManager;
    const attachments: Attachments = new WeakMap();
    forOneViewOfEach(notebooks, panel => {
      attachments.set(panel.context, new NotebookAttachment(panel, journal, serverSettings, reachability, runStates, dialogs));
      return () => undefined; // it disconnects itself
    });
    return attachments;
  }
};

export const runGates: JupyterFrontEndPlugin<RunGates> = {
  id: 'ownlab:run-gates',
  description: 'What must happen before a cell runs.',
  autoStart: true,
  provides: IRunGates,
  activate: () => new RunGates()
};

export const connector: JupyterFrontEndPlugin<Connector> = {
  id: 'ownlab:connector',
  description: 'Starts the runtime of a notebook when it is needed, and not before.',
  autoStart: true,
  provides: IConnector,
  requires: [ISessionContextDialogs],
  activate: (app: JupyterFrontEnd, dialogs: ISessionContextDialogs) => {
    app.docRegistry.addWidgetExtension('Notebook', new StartOnDemand());
    return new Connector({
      selectType: sessionContext => dialogs.selectKernel(sessionContext),
      typeMissing: (path, missing, started) => {
        const name = app.serviceManager.kernelspecs.specs?.kernelspecs[started]?.display_name ?? started;
        const notebook = notebookName(path);
        const message = text('This lab has no runtime type {missing}: {notebook} was connected to {name}.', { missing, notebook, name });
        Notification.warning(message, { autoClose: TYPE_MISSING_MS });
      }
    });
  }
};

export const kernelGate: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:kernel-gate',
  description: 'Lets cells wait until their notebook is loaded and their kernel takes requests.',
  autoStart: true,
  requires: [IRunGates, IConnector, IJournal, IOwnShutdowns, ILiveSnapshot, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    gates: RunGates,
    connector: Connector,
    { connections }: IJournal,
    ownShutdowns: OwnShutdowns,
    live: LiveSnapshot,
    notebooks: INotebookTracker
  ) => {
    runOnlyLoadedNotebooks(app.commands, notebooks);
    const isDying = ({ id, clientId }: { id: string; clientId: string }): boolean =>
      connections.hasDied(id, clientId) || ownShutdowns.has(id) || live.runtime(id)?.state === 'ending';
    gates.add(new KernelGate(isDying, (sessionContext, model) => connector.connect(sessionContext, model), whenInitialized).pass);
  }
};

export const environmentWait: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:environment-wait',
  description: 'Lets notebooks wait while the default environment is built.',
  autoStart: true,
  requires: [IConnector, ILiveSnapshot, INotebookTracker],
  activate: (app: JupyterFrontEnd, connector: Connector, live: LiveSnapshot, notebooks: INotebookTracker) => {
    const environment = new EnvironmentWait(app.serviceManager.serverSettings, live, notebooks);
    connector.prepare = environment.wait;
    void app.restored.then(() => environment.look());
  }
};

/** Replaces JupyterLab's own, which package.json disables. */
export const executor: JupyterFrontEndPlugin<INotebookCellExecutor> = {
  id: 'ownlab:cell-executor',
  description: 'Runs cells in their order, after what must happen before.',
  autoStart: true,
  requires: [IRunGates, IJournal, IOwnShutdowns],
  provides: INotebookCellExecutor,
  activate: (_: JupyterFrontEnd, gates: RunGates, { connections }: IJournal, ownShutdowns: OwnShutdowns) => {
    const notices = new NotRunNotices();
    return new CellExecutor({
      gates,
      called: ({ cell, sessionContext }) => {
        const kernel = sessionContext?.session?.kernel;
        if (kernel) {
          connections.find(kernel.id, kernel.clientId)?.cellRun(cell.model.id);
        }
      },
      isAsking,
      run: options => {
        // JupyterLab refuses it while a cell asks for input: nothing has run then.
        const refused = options.sessionContext?.pendingInput === true;
        return runCell(gates.recordTiming ? { ...options, notebookConfig: { ...options.notebookConfig, recordTiming: true } } : options).finally(() => {
          if (!refused) {
            removeStaleInput(options.cell, options.sessionContext);
          }
        });
      },
      watch: options => watchSentCell(options, connections, ownShutdowns),
      report: (reason, options) => notices.show(reason, options)
    });
  }
};
