/** Holds back commands that run cells until their notebook was loaded: before, JupyterLab runs an empty cell in its place. */
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { CommandRegistry } from '@lumino/commands';

const RUNS_CELLS = /^(notebook|runmenu):(run|restart)/;

export function runOnlyLoadedNotebooks(commands: CommandRegistry, notebooks: INotebookTracker): void {
  const execute = commands.execute.bind(commands);
  // Menus, toolbars and shortcuts all call this function. Lumino has no other way to delay a command.
  commands.execute = async (id, args) => {
    const context = RUNS_CELLS.test(id) ? notebooks.currentWidget?.context : undefined;
    if (context && !context.isReady) {
      await context.ready;
    }
    return execute(id, args) as Promise<unknown>;
  };
}
