/** Notebooks show what runs in their kernels, also what was begun before they were opened. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import type { Reachability } from '../session/reachability';
import { ILine, ILiveSnapshot, IReachability } from '../tokens';
import { Attachment, type ILine as Line } from './attachment';

export const attach: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:attach',
  description: 'Shows in each notebook what runs in its kernel.',
  autoStart: true,
  requires: [INotebookTracker, ILine, IReachability, ILiveSnapshot],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, line: Line, reachability: Reachability, live: LiveSnapshot) => {
    const { serverSettings } = app.serviceManager;
    // Several views of a notebook share its cells' contents: one of them shows what comes.
    const attached = new Map<NotebookPanel['context'], NotebookPanel>();
    const take = (panel: NotebookPanel): void => {
      const { context } = panel;
      if (attached.has(context) || panel.isDisposed) {
        return;
      }
      attached.set(context, panel);
      new Attachment(panel, line, serverSettings, reachability, () => live.now());
      panel.disposed.connect(() => {
        attached.delete(context);
        const other = notebooks.find(one => one !== panel && one.context === context);
        if (other) {
          take(other);
        }
      });
    };
    notebooks.forEach(take);
    notebooks.widgetAdded.connect((_, panel) => take(panel));
  }
};
