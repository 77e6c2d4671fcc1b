/** Proposes another runtime type if an opened notebook was written for another kind of machine. */
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { fetchProposal } from '../api';
import { reportFailure } from '../failures';
import type { Proposal } from '../records';
import { text } from '../text';

/** A proposal without a choice closes by itself. */
const AUTO_CLOSE_MS = 15_000;

export class TypeProposal {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _settings: ServerConnection.ISettings
  ) {
    // JupyterLab itself reports notebooks that cannot be read, and an unreachable server.
    this._load().catch(reason => console.warn('ownlab: no runtime type is proposed', reason));
  }

  private async _load(): Promise<void> {
    const { context, sessionContext } = this._panel;
    await Promise.all([context.ready, sessionContext.ready]);
    const kernel = sessionContext.session?.kernel;
    if (this._panel.isDisposed || !kernel || !context.model.getMetadata('accelerator')) {
      return;
    }
    this._panel.disposed.connect(this._withdraw, this);
    sessionContext.kernelChanged.connect(this._withdraw, this);
    NotebookActions.executionScheduled.connect(this._onScheduled, this);
    const { metadata } = context.model.sharedModel;
    const proposal = await fetchProposal(this._settings, { metadata, runtime: kernel.id, type: kernel.name });
    if (proposal && !this._withdrawn && !this._panel.isDisposed) {
      this._notice = this._notify(proposal, sessionContext);
    }
  }

  private _notify({ words, type, free }: Proposal, sessionContext: ISessionContext): string {
    const never = { label: text('Not for this notebook'), callback: () => void this._decline() };
    if (type === null) {
      return Notification.info(words, { autoClose: AUTO_CLOSE_MS, actions: [never] });
    }
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
}
