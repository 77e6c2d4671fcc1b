/** Keeps JupyterLab from starting a kernel when a notebook is opened. One that already runs is attached to as before. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { PromiseDelegate } from '@lumino/coreutils';
import type { Signal } from '@lumino/signaling';
import { drawSavedWidgets } from './savedWidgets';

const initialized = new WeakMap<ISessionContext, PromiseDelegate<void>>();

/** Resolved when it is known whether a notebook has a kernel. Its `ready` waits for the first kernel, as if none had been chosen. */
export function whenInitialized(sessionContext: ISessionContext): Promise<void> {
  return initializationOf(sessionContext).promise;
}

/** Created by whoever asks first: the toolbar of a notebook exists before `createNew` is called. */
function initializationOf(sessionContext: ISessionContext): PromiseDelegate<void> {
  let initialization = initialized.get(sessionContext);
  if (!initialization) {
    initialization = new PromiseDelegate<void>();
    initialized.set(sessionContext, initialization);
  }
  return initialization;
}

/** JupyterLab calls `createNew` before it loads the notebook. */
export class StartOnDemand implements DocumentRegistry.IWidgetExtension<NotebookPanel, INotebookModel> {
  createNew(_: NotebookPanel, context: DocumentRegistry.IContext<INotebookModel>): void {
    const { sessionContext } = context;
    if (this._known.has(sessionContext)) {
      return; // another view of it
    }
    this._known.add(sessionContext);
    const initialization = initializationOf(sessionContext);
    if (sessionContext.isReady || sessionContext.kernelPreference.id) {
      void sessionContext.ready.then(() => initialization.resolve()); // opened for a kernel that runs
      return;
    }
    startOnlyOnRequest(sessionContext, initialization);
    const chosen = sessionContext.kernelPreference.name;
    if (chosen) {
      void initialization.promise.then(() => recordType(context, chosen)); // then edits are sent
    }
  }

  private readonly _known = new WeakSet<ISessionContext>();
}

/**
 * Let a session behave as if the user still had to choose a kernel, without asking. Other extensions then wait for one: with
 * `shouldStart: false` alone they are told that the session is ready, and fail since it has no kernel.
 */
function startOnlyOnRequest(sessionContext: ISessionContext, initialization: PromiseDelegate<void>): void {
  const initialize = sessionContext.initialize.bind(sessionContext);
  const startKernel = sessionContext.startKernel.bind(sessionContext);
  sessionContext.startKernel = () => Promise.resolve(true);
  sessionContext.initialize = async () => {
    await initialize();
    sessionContext.startKernel = startKernel;
    sessionContext.kernelPreference = { ...sessionContext.kernelPreference, shouldStart: false };
    if (!sessionContext.session) {
      // What shows the status still has "initializing".
      (sessionContext as unknown as { _statusChanged?: Signal<unknown, string> })._statusChanged?.emit('unknown');
    }
    initialization.resolve();
    return false; // true: JupyterLab would ask which kernel to start
  };
  drawSavedWidgets(sessionContext, initialization.promise);
}

/** A notebook that was created with a type keeps it from its first edit on, even if it is closed before it connects. */
function recordType({ model, sessionContext }: DocumentRegistry.IContext<INotebookModel>, name: string): void {
  const named = model.getMetadata('kernelspec') as { name?: string } | undefined;
  if (sessionContext.isDisposed || model.readOnly || named?.name) {
    return;
  }
  const spec = sessionContext.specsManager.specs?.kernelspecs[name];
  if (spec) {
    model.setMetadata('kernelspec', { name, display_name: spec.display_name, language: spec.language });
  }
}
