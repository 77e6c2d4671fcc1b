/** One stream of snapshots for the whole page. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { LiveSnapshot } from '../live';
import type { Reachability } from '../reachability';
import { ILiveSnapshot, IReachability } from '../tokens';

export const stream: JupyterFrontEndPlugin<LiveSnapshot> = {
  id: 'ownlab:stream',
  description: 'All runtimes, cards and types of this machine, live.',
  autoStart: true,
  requires: [IReachability],
  provides: ILiveSnapshot,
  activate: (app: JupyterFrontEnd, reachability: Reachability) => {
    const live = new LiveSnapshot(app.serviceManager.serverSettings, reachability);
    void live.start();
    return live;
  }
};
