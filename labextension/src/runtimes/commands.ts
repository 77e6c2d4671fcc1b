/** Commands that act on one runtime: stop, extend, change its type. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { extendRuntime, stopRuntime } from '../api';
import { activity, notebookName } from '../formatting';
import type { Runtime } from '../records';
import { commandIds, ILiveSnapshot } from '../tokens';
import { type LiveSnapshot, runtimeOf } from './liveSnapshot';
import { TypeChoice } from './typeChoice';

const WHAT_IS_LOST = 'Its variables and the work that it is doing are lost. The notebook, its outputs and your files stay.';

export const runtimes: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:runtimes',
  description: 'Stop, extend and change runtimes.',
  autoStart: true,
  requires: [ILiveSnapshot],
  optional: [INotebookTracker, ICommandPalette],
  activate: (app: JupyterFrontEnd, live: LiveSnapshot, notebooks: INotebookTracker | null, palette: ICommandPalette | null) => {
    const { commands, serviceManager } = app;
    const current = (): NotebookPanel | null => notebooks?.currentWidget ?? null;
    /** Named by its id, or that of the notebook in front. */
    const named = (id: unknown): Runtime | undefined => (typeof id === 'string' ? live.runtime(id) : runtimeOf(current(), live));

    commands.addCommand(commandIds.changeType, {
      label: 'Change Runtime Type…',
      caption: 'Run this notebook on another card, on a part of one, or on the CPU',
      isEnabled: () => current() !== null && (live.current?.types.length ?? 0) > 0,
      execute: () => changeType(current(), live)
    });
    commands.addCommand(commandIds.extendRuntime, {
      label: 'Extend Runtime',
      caption: 'Give this notebook’s runtime more time',
      isEnabled: ({ id }) => named(id)?.may_extend === true,
      execute: async ({ id }) => {
        const runtime = named(id);
        if (runtime) {
          await said(extendRuntime(serviceManager.serverSettings, runtime.id));
        }
      }
    });
    commands.addCommand(commandIds.stopRuntime, {
      label: 'Stop Runtime…',
      caption: 'End this notebook’s runtime and free its card',
      isEnabled: ({ id }) => named(id)?.mine === true,
      execute: async ({ id }) => {
        const runtime = named(id);
        if (runtime && (await mayStop(runtime, live))) {
          await said(stopRuntime(serviceManager.serverSettings, runtime.id));
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

/** Whether it was changed. */
async function changeType(panel: NotebookPanel | null, live: LiveSnapshot): Promise<boolean> {
  if (!panel) {
    return false;
  }
  const kernel = panel.sessionContext.session?.kernel;
  const others = live.current?.types.some(type => type.name !== kernel?.name) === true;
  const about = (): string => {
    if (!others) {
      return 'This machine offers no other type.';
    }
    if (!kernel) {
      return '';
    }
    const waits = live.runtime(kernel.id)?.state === 'waiting';
    return waits ? 'This notebook leaves the queue; nothing is lost.' : `The present kernel ends. ${WHAT_IS_LOST}`;
  };
  const { button, value } = await showDialog({
    title: 'Change Runtime Type',
    body: new TypeChoice({ live, present: kernel?.name, ends: kernel?.id, about }),
    buttons: others ? [Dialog.cancelButton(), Dialog.okButton({ label: 'Change' })] : [Dialog.cancelButton({ label: 'Close' })]
  });
  return button.accept && !!value && said(panel.sessionContext.changeKernel({ name: value }));
}

async function mayStop(runtime: Runtime, live: LiveSnapshot): Promise<boolean> {
  const { button } = await showDialog({
    title: `Stop the runtime of ${notebookName(runtime.notebook)}?`,
    body: runtime.state === 'running' ? `It has been ${activity(runtime, live.now())}. ${WHAT_IS_LOST}` : 'It gives up its place.',
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Stop' })]
  });
  return button.accept;
}

/** Whether it was done; what went wrong is said where the person looks. */
async function said(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (reason) {
    Notification.error(reason instanceof Error ? reason.message : String(reason), { autoClose: false });
    return false;
  }
}
