/** The commands of a notebook's connection: connect, change the type, restart, extend, stop and delete. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, ISessionContextDialogs, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { extendRuntime, openNodeTerminal, stopRuntime } from '../api';
import { reportFailure } from '../failures';
import { formatDuration, notebookName } from '../formatting';
import type { Connector } from '../notebook/connector';
import { readPackages } from '../packages/notebookPackages';
import type { Runtime } from '../records';
import { sentences, text } from '../text';
import { commandIds, IConnector, ILiveSnapshot } from '../tokens';
import { deleteRuntime, factoryReset, type IDeletionOptions } from './deletion';
import { type LiveSnapshot, runtimeOf } from './liveSnapshot';
import { TypeChoice } from './typeChoice';

/** JupyterLab's own commands, which ours use. */
const RUN_ALL = 'notebook:run-all-cells';
const SHUT_DOWN = 'kernelmenu:shutdown';
const CHANGE_KERNEL = 'notebook:change-kernel';
const RESTART_RUN_ALL = 'notebook:restart-run-all';

export const runtimes: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:runtimes',
  description: 'Commands to connect, stop, extend, change and delete runtimes.',
  autoStart: true,
  requires: [ILiveSnapshot, IConnector, ISessionContextDialogs, INotebookTracker],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    live: LiveSnapshot,
    connector: Connector,
    dialogs: ISessionContextDialogs,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null
  ) => {
    const added = [
      ...addConnectionCommands(app, live, connector, dialogs, notebooks),
      ...addRuntimeCommands(app, live, notebooks),
      ...addDeletionCommands(app, live, connector, notebooks)
    ];
    const notify = (): void => added.forEach(command => app.commands.notifyCommandChanged(command));
    for (const command of added) {
      palette?.addItem({ command, category: 'ownlab' });
    }
    live.changed.connect(notify);
    connector.changed.connect(notify);
    notebooks.currentChanged.connect(notify);
  }
};

/** Connect, change the type, restart. Return the ids of the commands. */
function addConnectionCommands(
  { commands, serviceManager: { kernelspecs: specs } }: JupyterFrontEnd,
  live: LiveSnapshot,
  connector: Connector,
  dialogs: ISessionContextDialogs,
  notebooks: INotebookTracker
): string[] {
  const current = (): NotebookPanel | null => notebooks.currentWidget;
  commands.addCommand(commandIds.connect, {
    label: () => text('Connect'),
    caption: () => text('Start a runtime for this notebook'),
    isEnabled: () => current() !== null && !hasKernel(current(), connector),
    execute: () => connect(current(), connector)
  });
  commands.addCommand(commandIds.changeType, {
    label: () => text('Change Runtime Type…'),
    caption: () => text('Run this notebook on another card, a part of a card, or the CPU'),
    isEnabled: () => current() !== null && (live.current?.types.length ?? 0) > 0,
    execute: () => changeType(current(), live, connector)
  });
  commands.addCommand(commandIds.otherKernel, {
    label: () => text('Other Kernel…'),
    caption: () => text('Run this notebook in a kernel that is no runtime of ownlab, of another language for instance'),
    isEnabled: () => current() !== null,
    isVisible: () => Object.keys(specs.specs?.kernelspecs ?? {}).some(name => live.type(name) === undefined),
    execute: () => commands.execute(CHANGE_KERNEL) as Promise<unknown>
  });
  commands.addCommand(commandIds.restartRuntime, {
    label: () => text('Restart…'),
    caption: () => text('Restart this notebook’s kernel: all variables are lost'),
    isEnabled: () => current() !== null,
    execute: async () => {
      const panel = current();
      if (panel) {
        await (hasKernel(panel, connector) ? dialogs.restart(panel.sessionContext) : connect(panel, connector));
      }
    }
  });
  commands.addCommand(commandIds.restartRunAll, {
    label: () => text('Restart and Run All…'),
    caption: () => text('Run all cells of this notebook with a new kernel'),
    isEnabled: () => current() !== null,
    execute: () => commands.execute(hasKernel(current(), connector) ? RESTART_RUN_ALL : RUN_ALL) as Promise<unknown>
  });
  return [commandIds.connect, commandIds.changeType, commandIds.otherKernel, commandIds.restartRuntime, commandIds.restartRunAll];
}

/** Extend and stop any runtime. Return the ids of the commands. */
function addRuntimeCommands({ commands, serviceManager }: JupyterFrontEnd, live: LiveSnapshot, notebooks: INotebookTracker): string[] {
  /** Return the runtime with an id, or that of the current notebook. */
  const findRuntime = (id: unknown): Runtime | undefined =>
    typeof id === 'string' ? live.runtime(id) : runtimeOf(notebooks.currentWidget, live);
  commands.addCommand(commandIds.extendRuntime, {
    label: () => text('Extend Runtime'),
    caption: () => text('Give this notebook’s runtime more time'),
    isEnabled: ({ id }) => findRuntime(id)?.may_extend === true,
    execute: async ({ id }) => {
      const runtime = findRuntime(id);
      if (runtime) {
        await reportFailure(extendRuntime(serviceManager.serverSettings, runtime.id));
      }
    }
  });
  /** Whether the current notebook has a kernel that is no runtime of ownlab. */
  const hasOther = (id: unknown): boolean => id === undefined && !findRuntime(id) && Boolean(notebooks.currentWidget?.sessionContext.session?.kernel);
  commands.addCommand(commandIds.stopRuntime, {
    label: () => text('Stop Runtime…'),
    caption: () => text('End this notebook’s runtime and release its cards'),
    isEnabled: ({ id }) => findRuntime(id)?.mine === true || hasOther(id),
    execute: async ({ id, confirmed }) => {
      const runtime = findRuntime(id);
      if (hasOther(id)) {
        await commands.execute(SHUT_DOWN);
      }
      if (runtime && (confirmed === true || (await confirmStop(runtime, live)))) {
        await reportFailure(stopRuntime(serviceManager.serverSettings, runtime.id));
        await Promise.allSettled([serviceManager.sessions.refreshRunning(), serviceManager.kernels.refreshRunning()]);
      }
    }
  });
  commands.addCommand(commandIds.openNodeTerminal, {
    label: () => text('Open Terminal on Node'),
    caption: () => text('Open a terminal where this notebook’s kernel is, in its job'),
    isEnabled: ({ id }) => hasNodeTerminal(findRuntime(id)),
    isVisible: () => live.current?.types.some(type => type.engine !== '') === true,
    execute: async ({ id }) => {
      const runtime = findRuntime(id);
      if (runtime) {
        await reportFailure(
          openNodeTerminal(serviceManager.serverSettings, runtime.id).then(name => commands.execute('terminal:open', { name }) as Promise<unknown>)
        );
      }
    }
  });
  return [commandIds.extendRuntime, commandIds.stopRuntime, commandIds.openNodeTerminal];
}

/** Whether a terminal can be opened on the node of a runtime. */
export function hasNodeTerminal(runtime: Runtime | undefined): boolean {
  return runtime?.mine === true && runtime.node !== '' && runtime.state === 'running';
}

/** Disconnect and delete runtime, and Factory reset. Return the ids of the commands. */
function addDeletionCommands({ commands, serviceManager }: JupyterFrontEnd, live: LiveSnapshot, connector: Connector, notebooks: INotebookTracker): string[] {
  const current = (): NotebookPanel | null => notebooks.currentWidget;
  const options = (panel: NotebookPanel): IDeletionOptions => {
    const type = panel.sessionContext.session?.kernel?.name ?? connector.typeFor(panel.sessionContext, panel.context.model)?.name;
    const environment = type === undefined ? undefined : live.type(type)?.environment;
    return { panel, runtime: runtimeOf(panel, live), type: environment === undefined ? undefined : type, environment: environment ?? '', services: serviceManager };
  };
  commands.addCommand(commandIds.deleteRuntime, {
    label: () => text('Disconnect and Delete Runtime…'),
    caption: () => text('End this notebook’s runtime and delete its /content'),
    isEnabled: () => hasKernel(current(), connector),
    execute: async () => {
      const panel = current();
      if (panel) {
        await reportFailure(deleteRuntime(options(panel)));
      }
    }
  });
  commands.addCommand(commandIds.factoryReset, {
    label: () => text('Factory Reset…'),
    caption: () => text('End this notebook’s runtime, delete its /content, uninstall the packages that the notebook installed, and put back those that it replaced'),
    isEnabled: () => hasKernel(current(), connector) || hasPackages(current()),
    execute: async () => {
      const panel = current();
      if (panel) {
        await reportFailure(factoryReset(options(panel)));
      }
    }
  });
  return [commandIds.deleteRuntime, commandIds.factoryReset];
}

/** Return whether a notebook has a kernel that is not dead, or just gets one. */
export function hasKernel(panel: NotebookPanel | null, connector: Connector): boolean {
  const kernel = panel?.sessionContext.session?.kernel;
  return panel !== null && ((kernel !== null && kernel !== undefined && kernel.status !== 'dead') || connector.isConnecting(panel.sessionContext));
}

/** Return whether the cells of a notebook have installed packages. */
export function hasPackages(panel: NotebookPanel | null): boolean {
  return panel?.model ? readPackages(panel.model).pip.length > 0 : false;
}

async function connect(panel: NotebookPanel | null, connector: Connector): Promise<void> {
  if (panel) {
    await panel.context.ready;
    await connector.connect(panel.sessionContext, panel.context.model);
  }
}

/** Ask for a type, and return whether it was changed. */
async function changeType(panel: NotebookPanel | null, live: LiveSnapshot, connector: Connector): Promise<boolean> {
  if (!panel) {
    return false;
  }
  const { sessionContext, context } = panel;
  const kernel = sessionContext.session?.kernel;
  const others = live.current?.types.some(type => type.name !== kernel?.name) === true;
  const describeChange = (): string => {
    if (!others) {
      return text('This machine has no other runtime type.');
    }
    if (!kernel) {
      return text('The notebook is connected to a runtime of this type.');
    }
    const waits = live.runtime(kernel.id)?.state === 'waiting';
    return waits
      ? text('The notebook leaves the queue. Nothing is lost.')
      : sentences(text('The current kernel is shut down.'), describeLoss());
  };
  const selected = kernel ? undefined : connector.typeFor(sessionContext, context.model)?.name;
  const accept = Dialog.okButton({ label: kernel ? text('Change') : text('Connect') });
  const { button, value } = await showDialog({
    title: text('Change Runtime Type'),
    body: new TypeChoice({ live, currentType: kernel?.name, selected, replacedRuntime: kernel?.id, describeChange }),
    buttons: others ? [Dialog.cancelButton(), accept] : [Dialog.cancelButton({ label: text('Close') })]
  });
  return button.accept && !!value && (await connector.prepare(value, sessionContext)) && reportFailure(sessionContext.changeKernel({ name: value }));
}

async function confirmStop(runtime: Runtime, live: LiveSnapshot): Promise<boolean> {
  const { button } = await showDialog({
    title: text('Stop the runtime of {notebook}?', { notebook: notebookName(runtime.notebook) }),
    body:
      runtime.state === 'running'
        ? sentences(describeWork(runtime, live.now()), describeLoss())
        : text('The notebook leaves the queue. Nothing is lost.'),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Stop') })]
  });
  return button.accept;
}

function describeWork(runtime: Runtime, now: number): string {
  const duration = formatDuration(now - runtime.changed_at);
  return runtime.busy ? text('It has been busy for {duration}.', { duration }) : text('It has been idle for {duration}.', { duration });
}

function describeLoss(): string {
  return text('Its variables and running work are lost. The notebook, its outputs and your files are kept.');
}
