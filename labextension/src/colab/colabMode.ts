/** Whether a notebook's kernel was started in Colab mode, and the switch that changes it. */
import { Dialog, type ISessionContext, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchColabMode } from '../api';
import { text } from '../text';

export class ColabMode {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _settings: ServerConnection.ISettings
  ) {
    const { sessionContext } = _panel;
    sessionContext.kernelChanged.connect(() => void this._refresh());
    sessionContext.statusChanged.connect((_, status) => {
      if (status === 'starting' || status === 'restarting' || status === 'autorestarting') {
        this._stale = true; // the new kernel may be in another mode
      } else if (this._stale) {
        void this._refresh();
      }
    });
    void this._refresh();
  }

  /** null: there is no kernel, or the mode is not known yet. */
  get on(): boolean | null {
    return this._on;
  }

  /** Switch the mode in the notebook's metadata, and offer to restart a running kernel. */
  async toggle(): Promise<void> {
    const { sessionContext } = this._panel;
    const { colab } = this._metadata;
    const on = !(typeof colab === 'boolean' ? colab : this._on === true);
    await this._save(on);
    const { kernel } = sessionContext.session ?? {};
    if (!kernel || on === this._on) {
      return;
    }
    const { button } = await showDialog({
      title: on ? text('Restart the kernel in Colab mode?') : text('Restart the kernel without Colab mode?'),
      body: on
        ? text('After its next start, this notebook’s kernel has google.colab and /content. Restarting now deletes its variables. Files and outputs are kept.')
        : text('After its next start, this notebook’s kernel is a plain Python kernel. Restarting now deletes its variables. Files and outputs are kept.'),
      buttons: [Dialog.cancelButton({ label: text('Later') }), Dialog.warnButton({ label: text('Restart') })]
    });
    if (button.accept && !kernel.isDisposed) {
      await kernel.restart();
    }
  }

  /** Let the notebook's next kernel start in Colab mode. */
  async switchOn(): Promise<void> {
    await this._save(true);
  }

  private get _metadata(): { colab?: unknown } {
    const ownlab: unknown = this._panel.context.model.getMetadata('ownlab');
    return typeof ownlab === 'object' && ownlab !== null ? ownlab : {};
  }

  private async _save(on: boolean): Promise<void> {
    const { context } = this._panel;
    context.model.setMetadata('ownlab', { ...this._metadata, colab: on });
    await context.save(); // the mode is read from the file when the kernel starts
  }

  get changed(): ISignal<this, boolean | null> {
    return this._changed;
  }

  private async _refresh(): Promise<void> {
    const id = this._panel.sessionContext.session?.kernel?.id;
    this._stale = false;
    let on: boolean | null = null;
    if (id) {
      try {
        on = await fetchColabMode(this._settings, id);
        this._stale = !['idle', 'busy'].includes(this._panel.sessionContext.session?.kernel?.status ?? '');
      } catch {
        this._stale = true; // the server is unreachable: try again when the kernel's status changes
      }
    }
    if (id === this._panel.sessionContext.session?.kernel?.id && on !== this._on) {
      this._on = on;
      this._changed.emit(on);
    }
  }

  private readonly _changed = new Signal<this, boolean | null>(this);
  private _on: boolean | null = null;
  private _stale = false;
}

/** The modes of all notebooks in this page, by session. */
export type ColabModes = WeakMap<ISessionContext, ColabMode>;
