/** Packages that notebooks install are remembered with them, and installed again in runtimes that lack them. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { offer } from './installOffer';
import { type Changes, remember } from './notebookPackages';

export const packages: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:packages',
  description: 'Remembers packages with notebooks, and offers to install them.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, notebooks: INotebookTracker) => {
    // Several views of a notebook have one kernel; and nobody is asked twice for it.
    const offered = new Set<string>();
    const take = (panel: NotebookPanel): void => {
      const { sessionContext, context } = panel;
      const hear = (_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void => {
        if ((message.header.msg_type as string) === 'ownlab_packages') {
          remember(context.model, message.content as Changes);
        }
      };
      let heard: Kernel.IKernelConnection | null = null;
      const look = (): void => {
        const kernel = sessionContext.session?.kernel ?? null;
        if (kernel === heard) {
          return;
        }
        heard?.iopubMessage.disconnect(hear);
        heard = kernel;
        kernel?.iopubMessage.connect(hear);
        if (kernel && !offered.has(kernel.id)) {
          offered.add(kernel.id);
          // JupyterLab tells of a notebook that cannot be read.
          offer(panel, kernel).catch(reason => console.warn('ownlab: no packages are offered', reason));
        }
      };
      sessionContext.kernelChanged.connect(look);
      panel.disposed.connect(() => heard?.iopubMessage.disconnect(hear));
      look();
    };
    notebooks.forEach(take);
    notebooks.widgetAdded.connect((_, panel) => take(panel));
  }
};
