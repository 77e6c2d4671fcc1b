/** Several views may show one notebook (New View for Notebook). */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

/**
 * Call `open` for one view of each notebook: several views share the contents of their cells and a kernel.
 *
 * When that view is closed, the function that `open` returned is called, and another view takes over.
 */
export function forOneViewOfEach(notebooks: INotebookTracker, open: (panel: NotebookPanel) => () => unknown): void {
  const opened = new Set<NotebookPanel['context']>();
  const add = (panel: NotebookPanel): void => {
    const { context } = panel;
    if (opened.has(context) || panel.isDisposed) {
      return;
    }
    opened.add(context);
    const close = open(panel);
    panel.disposed.connect(() => {
      opened.delete(context);
      close();
      const other = notebooks.find(view => view !== panel && view.context === context);
      if (other) {
        add(other);
      }
    });
  };
  notebooks.forEach(add);
  notebooks.widgetAdded.connect((_, panel) => add(panel));
}
