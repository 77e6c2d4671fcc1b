/** Between notebooks that are open in this page and their runtimes. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { LiveSnapshot } from './live';
import type { Runtime } from './records';

export function runtimeOf(panel: NotebookPanel | null, live: LiveSnapshot): Runtime | undefined {
  return live.runtime(panel?.sessionContext.session?.kernel?.id);
}

/** The open notebook that has this runtime. */
export function panelOf(runtime: Runtime, notebooks: INotebookTracker): NotebookPanel | undefined {
  return notebooks.find(panel => panel.sessionContext.session?.kernel?.id === runtime.id);
}
