/**
 * Gives notebooks their runtimes. Opening a notebook starts nothing; running a cell, or Connect, starts the type that the
 * notebook had last.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookModel } from '@jupyterlab/notebook';
import { type ISignal, Signal } from '@lumino/signaling';
import { chooseType, type IChosenType, type IKernelMetadata } from './runtimeType';
import { whenInitialized } from './startOnDemand';

export interface IConnectorMessages {
  /** A notebook names a type that this lab does not have, and gets another one. */
  typeMissing(notebook: string, missing: string, started: string): void;
  /** No type of this lab can run a notebook: ask which one to start. */
  selectType(sessionContext: ISessionContext): Promise<void>;
}

export class Connector {
  constructor(private readonly _messages: IConnectorMessages) {}

  /** Called before a type is started; false: a person does not want it any more. */
  prepare: (type: string, sessionContext: ISessionContext) => Promise<boolean> = () => Promise.resolve(true);

  /** Emitted when a notebook begins to connect, and when that is over. */
  get changed(): ISignal<this, ISessionContext> {
    return this._changed;
  }

  /** Whether this page is just starting a runtime for a notebook. */
  isConnecting(sessionContext: ISessionContext): boolean {
    return this._connecting.has(sessionContext);
  }

  /** Return the type that a notebook would get now; null: there is none, or the list of types has not arrived. */
  typeFor(sessionContext: ISessionContext, model: INotebookModel | null): IChosenType | null {
    const metadata: unknown = model?.getMetadata('kernelspec');
    const given = typeof metadata === 'object' && metadata !== null ? (metadata as IKernelMetadata) : undefined;
    return chooseType(given, sessionContext.kernelPreference.name, sessionContext.specsManager.specs);
  }

  /** Start a runtime for a notebook, once for everybody who asks. Return false if there is still none: JupyterLab has said why. */
  connect(sessionContext: ISessionContext, model: INotebookModel | null): Promise<boolean> {
    let connected = this._connecting.get(sessionContext);
    if (!connected) {
      connected = this._connect(sessionContext, model)
        .catch((reason: unknown) => {
          console.error('ownlab: the runtime was not started', reason); // JupyterLab shows the server's message
          return false;
        })
        .finally(() => {
          this._connecting.delete(sessionContext);
          this._changed.emit(sessionContext);
        });
      this._connecting.set(sessionContext, connected);
      this._changed.emit(sessionContext);
    }
    return connected;
  }

  private async _connect(sessionContext: ISessionContext, model: INotebookModel | null): Promise<boolean> {
    await Promise.all([whenInitialized(sessionContext), sessionContext.specsManager.ready]);
    const gone = sessionContext.session?.kernel;
    if (gone) {
      if (gone.status !== 'dead' && !gone.isDisposed) {
        return true; // another client has started it meanwhile
      }
      await sessionContext.sessionManager.refreshRunning(); // drops the session of a kernel that is gone
    }
    const type = await this._currentType(sessionContext, model);
    if (!type) {
      await this._messages.selectType(sessionContext);
      return !sessionContext.hasNoKernel;
    }
    if (!(await this.prepare(type.name, sessionContext))) {
      return false;
    }
    const kernel = await sessionContext.changeKernel({ name: type.name });
    if (kernel && type.missing !== null) {
      this._messages.typeMissing(sessionContext.path, type.missing, type.name);
    }
    return kernel !== null;
  }

  /** JupyterLab asks for the types once a minute: one that it does not know may be of an environment that was just built. */
  private async _currentType(sessionContext: ISessionContext, model: INotebookModel | null): Promise<IChosenType | null> {
    const type = this.typeFor(sessionContext, model);
    if (type?.missing === null) {
      return type;
    }
    await sessionContext.specsManager.refreshSpecs().catch(() => undefined); // then what is known must do
    return this.typeFor(sessionContext, model);
  }

  private readonly _changed = new Signal<this, ISessionContext>(this);
  private readonly _connecting = new Map<ISessionContext, Promise<boolean>>();
}
