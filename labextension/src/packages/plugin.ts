/** Records which packages the cells of a notebook installed, offers to install them in other runtimes, and to restart where that is needed. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContextDialogs } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { forOneViewOfEach } from '../notebook/views';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { ILiveSnapshot } from '../tokens';
import { offerInstall } from './installOffer';
import { type PackageChanges, updatePackages } from './notebookPackages';
import { offerPackages } from './packageOffer';
import { RestartNotice } from './restartNotice';

export const packages: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:packages',
  description: 'Records a notebook’s packages, and offers to install them.',
  autoStart: true,
  requires: [INotebookTracker, ILiveSnapshot, ISessionContextDialogs],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, live: LiveSnapshot, dialogs: ISessionContextDialogs) => {
    // Several views of a notebook share a kernel; offer only once for each kernel.
    const offered = new Set<string>();
    const addPanel = (panel: NotebookPanel): void => {
      const { sessionContext, context } = panel;
      const restartNotice = new RestartNotice(panel);
      const onMessage = (_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void => {
        restartNotice.onMessage(message);
        if ((message.header.msg_type as string) === 'ownlab_packages') {
          updatePackages(context.model, message.content as PackageChanges);
        }
      };
      let connected: Kernel.IKernelConnection | null = null;
      const onKernelChanged = (): void => {
        const kernel = sessionContext.session?.kernel ?? null;
        if (kernel === connected) {
          return;
        }
        connected?.iopubMessage.disconnect(onMessage);
        connected = kernel;
        kernel?.iopubMessage.connect(onMessage);
        if (kernel && !offered.has(kernel.id)) {
          offered.add(kernel.id);
          // JupyterLab itself reports notebooks that cannot be read.
          offerInstall(panel, kernel).catch(reason => console.warn('ownlab: no packages are offered', reason));
        }
      };
      sessionContext.kernelChanged.connect(onKernelChanged);
      panel.disposed.connect(() => connected?.iopubMessage.disconnect(onMessage));
      onKernelChanged();
    };
    notebooks.forEach(addPanel);
    notebooks.widgetAdded.connect((_, panel) => addPanel(panel));
    forOneViewOfEach(notebooks, panel => {
      offerPackages(app, panel, live, dialogs);
      return () => undefined;
    });
  }
};
