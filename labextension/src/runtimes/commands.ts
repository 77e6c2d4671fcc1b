/** The commands that stop and extend a runtime and change its type. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { extendRuntime, stopRuntime } from '../api';
import { reportFailure } from '../failures';
import { formatDuration, notebookName } from '../formatting';
import type { Runtime } from '../records';
import { sentences, text } from '../text';
import { commandIds, ILiveSnapshot } from '../tokens';
import { type LiveSnapshot, runtimeOf } from './liveSnapshot';
import { TypeChoice } from './typeChoice';

export const runtimes: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:runtimes',
  description: 'Commands to stop, extend and change runtimes.',
  autoStart: true,
  requires: [ILiveSnapshot],
  optional: [INotebookTracker, ICommandPalette],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, notebooks: INotebookTracker | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager } = app;
    const current = (): NotebookPanel | null => notebooks?.currentWidget ?? null;
    /** Return the runtime with an id, or that of the current notebook. */
    const findRuntime = (id: unknown): Runtime | undefined => (typeof id === 'string' ? live.runtime(id) : runtimeOf(current(), live));

    commands.addCommand(commandIds.changeType, {
      label: () => text('Change Runtime Type…'),
      caption: () => text('Run this notebook on another card, a part of a card, or the CPU'),
      isEnabled: () => current() !== null && (live.current?.types.length ?? 0) > 0,
      execute: () => changeType(current(), live)
    });
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
    commands.addCommand(commandIds.stopRuntime, {
      label: () => text('Stop Runtime…'),
      caption: () => text('End this notebook’s runtime and release its cards'),
      isEnabled: ({ id }) => findRuntime(id)?.mine === true,
      execute: async ({ id }) => {
        const runtime = findRuntime(id);
        if (runtime && (await confirmStop(runtime, live))) {
          await reportFailure(stopRuntime(serviceManager.serverSettings, runtime.id));
          await Promise.allSettled([serviceManager.sessions.refreshRunning(), serviceManager.kernels.refreshRunning()]);
        }
      }
    });
    for (const command of [commandIds.changeType, commandIds.extendRuntime, commandIds.stopRuntime]) {
      palette?.addItem({ command, category: 'ownlab' });
      live.changed.connect(() => commands.notifyCommandChanged(command));
    }
  }
};

/** Ask for a type, and return whether it was changed. */
async function changeType(panel: NotebookPanel | null, live: LiveSnapshot): Promise<boolean> {
  if (!panel) {
    return false;
  }
  const kernel = panel.sessionContext.session?.kernel;
  const others = live.current?.types.some(type => type.name !== kernel?.name) === true;
  const describeChange = (): string => {
    if (!others) {
      return text('This machine has no other runtime type.');
    }
    if (!kernel) {
      return '';
    }
    const waits = live.runtime(kernel.id)?.state === 'waiting';
    return waits
      ? text('The notebook leaves the queue. Nothing is lost.')
      : sentences(text('The current kernel is shut down.'), describeLoss());
  };
  const { button, value } = await showDialog({
    title: text('Change Runtime Type'),
    body: new TypeChoice({ live, currentType: kernel?.name, replacedRuntime: kernel?.id, describeChange }),
    buttons: others ? [Dialog.cancelButton(), Dialog.okButton({ label: text('Change') })] : [Dialog.cancelButton({ label: text('Close') })]
  });
  return button.accept && !!value && reportFailure(panel.sessionContext.changeKernel({ name: value }));
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
