/** When a notebook is opened that was made for another kind of machine than it has: a notice, and one click to change it. */
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { fetchProposal } from '../api';
import type { Proposal } from '../records';

/** A notice with nothing to decide goes by itself. */
const MOMENT = 15_000;

export class Proposer {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _settings: ServerConnection.ISettings
  ) {
    // JupyterLab tells of a notebook that cannot be read, and of a server that is away.
    this._begin().catch(reason => console.warn('ownlab: nothing is proposed', reason));
  }

  private async _begin(): Promise<void> {
    const { context, sessionContext } = this._panel;
    await Promise.all([context.ready, sessionContext.ready]);
    const kernel = sessionContext.session?.kernel;
    if (this._panel.isDisposed || !kernel || !context.model.getMetadata('accelerator')) {
      return;
    }
    this._panel.disposed.connect(this._decide, this);
    sessionContext.kernelChanged.connect(this._decide, this);
    NotebookActions.executionScheduled.connect(this._onScheduled, this);
    const { metadata } = context.model.sharedModel;
    const proposal = await fetchProposal(this._settings, { metadata, runtime: kernel.id, type: kernel.name });
    if (proposal && !this._decided && !this._panel.isDisposed) {
      this._notice = this._show(proposal, sessionContext);
    }
  }

  private _show({ words, type, free }: Proposal, sessionContext: ISessionContext): string {
    const never = { label: 'Not for this notebook', callback: () => void this._decline() };
    if (type === null) {
      return Notification.info(words, { autoClose: MOMENT, actions: [never] });
    }
    const change = {
      label: free ? 'Run it there' : 'Wait for it',
      displayType: 'accent' as const,
      callback: () => void this._said(sessionContext.changeKernel({ name: type }))
    };
    return Notification.info(words, { autoClose: false, actions: [change, never] });
  }

  /** The notebook itself remembers it, so that it holds in every page, and for `ownlab run`. */
  private async _decline(): Promise<void> {
    const { context } = this._panel;
    const { model } = context;
    const before: unknown = model.getMetadata('ownlab');
    model.setMetadata('ownlab', { ...(typeof before === 'object' ? before : {}), accelerator: false });
    if (!model.readOnly) {
      await this._said(context.save());
    }
  }

  private async _said(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (reason) {
      Notification.error(reason instanceof Error ? reason.message : String(reason), { autoClose: false });
    }
  }

  /** Who runs a cell has decided: from then on another kernel would lose something. */
  private _onScheduled(_: unknown, { notebook }: { notebook: Notebook }): void {
    if (notebook === this._panel.content) {
      this._decide();
    }
  }

  /** There is nothing to propose any more. */
  private _decide(): void {
    this._decided = true;
    Signal.clearData(this);
    if (this._notice !== null) {
      Notification.dismiss(this._notice);
      this._notice = null;
    }
  }

  private _notice: string | null = null;
  private _decided = false;
}
