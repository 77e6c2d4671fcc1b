/** "Saved 5 s ago · History" in the toolbar of a notebook. */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import type { EditSessions } from '../edits/editSessions';
import { text } from '../text';
import { describeSaving } from './savedSentences';

const REFRESH_MS = 1_000;

export class SavedStatus extends Widget {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _sessions: EditSessions | null,
    showHistory: () => void
  ) {
    super();
    this.addClass('ownlab-Saved');
    this._status.className = 'ownlab-Saved-status';
    const history = document.createElement('button');
    history.type = 'button';
    history.className = 'ownlab-Saved-history';
    history.textContent = text('History');
    history.title = text('Show versions of this notebook, compare and restore them');
    history.addEventListener('click', showHistory);
    this.node.append(this._status, history);
    const { context } = _panel;
    context.model.stateChanged.connect(this._onState, this);
    context.saveState.connect(this._onSave, this);
    void context.ready.then(() => this._draw());
    this._timer = window.setInterval(() => this.isVisible && !document.hidden && this._draw(), REFRESH_MS);
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    Signal.disconnectReceiver(this);
    super.dispose();
  }

  private _onState(model: INotebookModel, { name }: { name: string }): void {
    if (name === 'dirty') {
      if (model.dirty) {
        this._dirtySince = Date.now();
      } else {
        this._savedAt = Date.now();
      }
      this._draw();
    }
  }

  private _onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'completed') {
      this._savedAt = Date.now();
      this._draw();
    }
  }

  private _draw(): void {
    const { context } = this._panel;
    if (this.isDisposed || context.isDisposed || !context.isReady) {
      return;
    }
    const session = this._sessions?.find(context.path);
    const now = Date.now();
    const { status, title, isFailure } = describeSaving({
      reach: this._sessions?.reachability.reach ?? 'reachable',
      failure: session?.failure ?? '',
      refusal: session?.refusal ?? '',
      isDirty: context.model.dirty,
      dirtyFor: now - this._dirtySince,
      savedFor: now - (this._savedAt || Date.parse(context.contentsModel?.last_modified ?? ''))
    });
    this.toggleClass('ownlab-mod-failure', isFailure);
    if (this._status.textContent !== status) {
      this._status.textContent = status;
    }
    this._status.title = title;
  }

  private readonly _status = document.createElement('span');
  private readonly _timer: number;
  /** When this page saved it; 0: not yet. */
  private _savedAt = 0;
  private _dirtySince = 0;
}
