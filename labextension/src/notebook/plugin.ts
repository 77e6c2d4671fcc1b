/** Attaches notebooks to what runs in their kernels. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import type { Reachability } from '../session/reachability';
import { IJournal, ILiveSnapshot, IReachability } from '../tokens';
import { NotebookAttachment } from './attachment';
import { forOneViewOfEach } from './views';

export const attach: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:attach',
  description: 'Shows in each notebook what runs in its kernel.',
  autoStart: true,
  requires: [INotebookTracker, IJournal, IReachability, ILiveSnapshot],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, journal: IJournal, reachability: Reachability, live: LiveSnapshot) => {
    const { serverSettings } = app.serviceManager;
    forOneViewOfEach(notebooks, panel => {
      new NotebookAttachment(panel, journal, serverSettings, reachability, () => live.now());
      return () => undefined; // it disconnects itself
    });
  }
};
