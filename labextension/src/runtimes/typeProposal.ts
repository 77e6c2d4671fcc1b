/** Proposes another runtime type if an opened notebook was written for another kind of machine. */
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { fetchProposal } from '../api';
import { reportFailure } from '../failures';
import type { Connector } from '../notebook/connector';
import { whenInitialized } from '../notebook/startOnDemand';
import type { Proposal } from '../records';
import { text } from '../text';

/** A proposal without a choice closes by itself. */
const AUTO_CLOSE_MS = 15_000;

/** The notice says "this notebook": it waits until the notebook is in front. */
function whenVisible(panel: NotebookPanel): Promise<void> {
  return new Promise(resolve => {
    const observer = new IntersectionObserver(entries => {
      if (entries.some(entry => entry.isIntersecting)) {
        observer.disconnect();
        resolve();
      }
    });
    observer.observe(panel.node);
    panel.disposed.connect(() => observer.disconnect());
  });
}

export class TypeProposal {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _settings: ServerConnection.ISettings,
    private readonly _connector: Connector
  ) {
    // JupyterLab itself reports notebooks that cannot be read, and an unreachable server.
    this._load().catch(reason => console.warn('ownlab: no runtime type is proposed', reason));
  }

  private async _load(): Promise<void> {
    const { context, sessionContext } = this._panel;
    await Promise.all([context.ready, whenInitialized(sessionContext), sessionContext.specsManager.ready, whenVisible(this._panel)]);
    const kernel = sessionContext.session?.kernel;
    const type = kernel?.name ?? this._connector.typeFor(sessionContext, context.model)?.name;
    if (this._panel.isDisposed || !type || !context.model.getMetadata('accelerator')) {
      return;
    }
    this._panel.disposed.connect(this._withdraw, this);
    this._type = type;
    sessionContext.kernelChanged.connect(this._onKernelChanged, this);
    NotebookActions.executionScheduled.connect(this._onScheduled, this);
    const { metadata } = context.model.sharedModel;
    const proposal = await fetchProposal(this._settings, { metadata, runtime: kernel?.id ?? '', type });
    if (proposal && !this._withdrawn && !this._panel.isDisposed) {
      this._notice = this._notify(proposal, sessionContext);
    }
  }

  private _notify({ words, type, free }: Proposal, sessionContext: ISessionContext): string {
    const decline = (): void => void this._decline();
    if (type === null) {
      return Notification.info(words, { autoClose: AUTO_CLOSE_MS, actions: [{ label: text('Do not say this again'), callback: decline }] });
    }
    const never = { label: text('Not for this notebook'), callback: decline };
    const change = {
      label: free ? text('Run it there') : text('Wait for it'),
      displayType: 'accent' as const,
      callback: () => void reportFailure(sessionContext.changeKernel({ name: type }))
    };
    return Notification.info(words, { autoClose: false, actions: [change, never] });
  }

  /** Store the decision in the notebook, so that it applies to every page and to `ownlab run`. */
  private async _decline(): Promise<void> {
    const { context } = this._panel;
    const { model } = context;
    const before: unknown = model.getMetadata('ownlab');
    model.setMetadata('ownlab', { ...(typeof before === 'object' ? before : {}), accelerator: false });
    if (!model.readOnly) {
      await reportFailure(context.save());
    }
  }

  /** Running a cell is a decision: from then on, another kernel would lose variables. */
  private _onScheduled(_: unknown, { notebook }: { notebook: Notebook }): void {
    if (notebook === this._panel.content) {
      this._withdraw();
    }
  }

  /** Choosing another type is a decision; connecting is not. */
  private _onKernelChanged({ session }: ISessionContext): void {
    if (session?.kernel && session.kernel.name !== this._type) {
      this._withdraw();
    }
  }

  /** Withdraw the proposal. */
  private _withdraw(): void {
    this._withdrawn = true;
    Signal.clearData(this);
    if (this._notice !== null) {
      Notification.dismiss(this._notice);
      this._notice = null;
    }
  }

  private _notice: string | null = null;
  private _withdrawn = false;
  private _type = '';
}
