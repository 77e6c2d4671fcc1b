/** Whether a notebook's kernel is like Colab's, as it was when it started; and the switch of it. */
import { Dialog, type ISessionContext, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchColabMode } from '../api';

export class ColabMode {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _settings: ServerConnection.ISettings
  ) {
    const { sessionContext } = _panel;
    sessionContext.kernelChanged.connect(() => void this._look());
    sessionContext.statusChanged.connect((_, status) => {
      if (status === 'starting' || status === 'restarting' || status === 'autorestarting') {
        this._stale = true; // another kernel, perhaps in another mode
      } else if (this._stale) {
        void this._look();
      }
    });
    void this._look();
  }

  /** null: there is no kernel, or it is not known yet. */
  get on(): boolean | null {
    return this._on;
  }

  /** Say in the notebook that its kernels are to be like Colab's, or are not; the one that runs can be restarted for it. */
  async toggle(): Promise<void> {
    const { context, sessionContext } = this._panel;
    const { model } = context;
    const before: unknown = model.getMetadata('ownlab');
    const said = typeof before === 'object' && before !== null ? (before as { colab?: unknown }) : {};
    const on = !(typeof said.colab === 'boolean' ? said.colab : this._on === true);
    model.setMetadata('ownlab', { ...said, colab: on });
    await context.save(); // whoever starts the kernel reads the file
    const { kernel } = sessionContext.session ?? {};
    if (!kernel || on === this._on) {
      return;
    }
    const { button } = await showDialog({
      title: `Restart the kernel ${on ? 'in' : 'without'} Colab mode?`,
      body: on
        ? 'From its next start this notebook’s kernel has google.colab and /content. A restart now loses its variables; files and outputs stay.'
        : 'From its next start this notebook’s kernel is a plain one. A restart now loses its variables; files and outputs stay.',
      buttons: [Dialog.cancelButton({ label: 'Later' }), Dialog.warnButton({ label: 'Restart' })]
    });
    if (button.accept && !kernel.isDisposed) {
      await kernel.restart();
    }
  }

  get changed(): ISignal<this, boolean | null> {
    return this._changed;
  }

  private async _look(): Promise<void> {
    const id = this._panel.sessionContext.session?.kernel?.id;
    this._stale = false;
    let on: boolean | null = null;
    if (id) {
      try {
        on = await fetchColabMode(this._settings, id);
        this._stale = !['idle', 'busy'].includes(this._panel.sessionContext.session?.kernel?.status ?? '');
      } catch {
        this._stale = true; // the server is away: asked again when the kernel's status changes
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

/** All of this page, by their notebooks' sessions. */
export type ColabModes = WeakMap<ISessionContext, ColabMode>;
