/** Records which packages the cells of a notebook installed, and offers to install them in other runtimes. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { offerInstall } from './installOffer';
import { type PackageChanges, updatePackages } from './notebookPackages';

export const packages: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:packages',
  description: 'Records a notebook’s packages, and offers to install them.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, notebooks: INotebookTracker) => {
    // Several views of a notebook share a kernel; offer only once for each kernel.
    const offered = new Set<string>();
    const addPanel = (panel: NotebookPanel): void => {
      const { sessionContext, context } = panel;
      const onMessage = (_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void => {
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
  }
};
