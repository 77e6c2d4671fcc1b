/** An open notebook whose edits are sent: its session, and what the user sees of it. */
import { Notification } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';
import { type Message, MessageLoop } from '@lumino/messaging';
import { dismissRecovered, writeNotebook } from '../api';
import { reportFailure } from '../failures';
import { notebookName } from '../formatting';
import type { NotebookAttachment } from '../notebook/attachment';
import type { Recovered } from '../records';
import { text } from '../text';
import { Baseline, type INotebookState } from './baseline';
import { EditSession, type IConflictNotice } from './editSession';
import type { EditSessions, ILoadedNotebook } from './editSessions';
import { RecoveredBanners } from './recoveredBanners';
import { SharedNotebookAdapter } from './sharedNotebook';
import { chooseVersion } from './versionDialog';

/** Then JupyterLab asks what to do with unsaved changes. */
const CLOSE_TIMEOUT_MS = 3_000;

export class EditedNotebook {
  constructor(
    private readonly _context: DocumentRegistry.IContext<INotebookModel>,
    private readonly _sessions: EditSessions,
    attachment: () => NotebookAttachment | undefined,
    { version, ids }: ILoadedNotebook
  ) {
    const { model } = _context;
    const path = (): string => _context.path;
    this._notebook = new SharedNotebookAdapter(model, () => [...this._views.keys()], id => attachment()?.isRunning(id) ?? false, {
      onNotebookChanged: () => this.session.onNotebookChanged(),
      onCellChanged: (id, kind) => this.session.onCellChanged(id, kind)
    });
    const options = {
      page: UUID.uuid4(),
      server: _sessions.server,
      reachability: _sessions.reachability,
      path,
      seen: () => attachment()?.seen ?? null,
      client: () => _context.sessionContext.session?.kernel?.clientId ?? null,
      hasJournal: () => attachment()?.hasJournal ?? null,
      setDirty: (dirty: boolean) => {
        model.dirty = dirty;
      }
    };
    this.session = new EditSession(options, this._notebook, version, ids);
    this._remove = _sessions.add(this.session, path);
    this._path = path();
    this.session.conflicted.connect((_, conflict) => this._showConflict(conflict));
    this.session.recoveredChanged.connect(() => this._updateBanners());
    this.session.failureChanged.connect((_, failure) => this._showFailure(failure));
    this.session.refused.connect((_, reason) => this._showRefusal(reason));
    model.stateChanged.connect(this._onStateChanged, this);
    model.cells.changed.connect(this._updateBanners, this);
    _context.pathChanged.connect(this._onPathChanged, this);
    _context.saveState.connect(this._onSaveState, this);
    _context.disposed.connect(this._dispose, this);
    this.session.refresh();
  }

  readonly session: EditSession;

  /** Add a view of the notebook. */
  addView(panel: NotebookPanel): void {
    const banners = new RecoveredBanners(panel, {
      show: recovered => void this._chooseVersion(recovered),
      keep: recovered => void this._dismiss(recovered)
    });
    this._views.set(panel, banners);
    panel.disposed.connect(() => this._views.delete(panel));
    MessageLoop.installMessageHook(panel, (_, message) => this._onMessage(panel, message));
    banners.update(this.session.recovered);
  }

  /** Send everything before a view is closed: JupyterLab would ask about changes that were not sent yet. */
  private _onMessage(panel: NotebookPanel, { type }: Message): boolean {
    if (type !== 'close-request' || !this.session.isActive || !this.session.mayBeUnsaved || this._isClosing) {
      return true;
    }
    const late = new Promise(done => window.setTimeout(done, CLOSE_TIMEOUT_MS));
    void Promise.race([this.session.flush(), late]).then(() => {
      this._isClosing = true;
      panel.close();
      this._isClosing = false;
    });
    return false;
  }

  /** JupyterLab marks a notebook as changed whenever a cell prints something; but the server has all outputs. */
  private _onStateChanged(model: INotebookModel, { name }: { name: string }): void {
    const { isActive, isSaved } = this.session;
    if (name === 'dirty' && isActive && model.dirty === isSaved) {
      model.dirty = !isSaved;
    }
    if (name === 'dirty' && !model.dirty && !this.session.failure) {
      this._dismissFailure();
    }
  }

  private _onPathChanged(_: unknown, path: string): void {
    this._sessions.onRenamed(this._path, path);
    this._path = path;
  }

  /** JupyterLab saves a notebook whose file is missing without our content provider. */
  private _onSaveState(_: unknown, state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      this._saving = this.session.isActive ? null : new Baseline(this._notebook).state;
    } else if (state === 'completed' && this._saving && !this.session.isActive) {
      this.session.onSavedWhole(this._saving);
    }
  }

  private _showConflict({ cell, other, ours }: IConflictNotice): void {
    const number = this._notebook.order.indexOf(cell) + 1;
    if (number === 0) {
      return;
    }
    const message = ours
      ? text('Cell {number} was edited in two places at once. Your text was kept; the other text is in the history.', { number })
      : text('Cell {number} was edited in two places at once. One text was kept; the other is in the history.', { number });
    const show = async (): Promise<void> => {
      const choice = await chooseVersion({
        title: text('Cell {number} was edited in two places at once', { number }),
        explanation: text('Both changed the same lines. The notebook has the text of one place; this is the other.'),
        now: this._notebook.cell(cell)?.source ?? '',
        other,
        keep: text('Keep the text of the cell'),
        use: text('Use the other text')
      });
      if (choice === true) {
        this._notebook.edit(cell, other);
      }
    };
    Notification.warning(message, { autoClose: false, actions: [{ label: text('Show both'), callback: () => void show() }] });
  }

  private async _chooseVersion(recovered: Recovered): Promise<void> {
    const choice = await chooseVersion({
      title: text('The code that ran, and the version of the file'),
      explanation: text('The cell shows the code that produced its output. Before it was recovered, the notebook file had the other version.'),
      now: this._notebook.cell(recovered.cell)?.source ?? '',
      other: recovered.other,
      keep: text('Keep the code that ran'),
      use: text('Use the other version')
    });
    if (choice === true) {
      this._notebook.edit(recovered.cell, recovered.other);
      await this.session.flush();
    }
    if (choice !== null) {
      await this._dismiss(recovered);
    }
  }

  private async _dismiss({ cell }: Recovered): Promise<void> {
    if (await reportFailure(dismissRecovered(this._sessions.settings, this._context.path, cell))) {
      this.session.forgetRecovered(cell);
    }
  }

  private _updateBanners(): void {
    this._views.forEach(banners => banners.update(this.session.recovered));
  }

  private _dismissFailure(): void {
    if (this._failure) {
      Notification.dismiss(this._failure);
      this._failure = '';
    }
  }

  private _showFailure(reason: string): void {
    this._dismissFailure();
    if (reason) {
      const notebook = notebookName(this._context.path);
      const message = text('Your edits of {notebook} could not be stored. This page keeps them and tries again. {reason}', { notebook, reason });
      this._failure = Notification.error(message, { autoClose: false });
    }
  }

  private _showRefusal(reason: string): void {
    if (!this._context.model.dirty) {
      return; // nothing to save
    }
    this._dismissFailure();
    const message = text('{reason} This page keeps your edits of {notebook}.', { reason, notebook: notebookName(this._context.path) });
    const saveCopy = { label: text('Save a copy…'), callback: () => void this._context.saveAs() };
    this._failure = Notification.warning(message, { autoClose: false, actions: [saveCopy] });
  }

  private _dispose(): void {
    this._remove();
    this._notebook.dispose();
    if (this.session.isActive && this.session.hasSent) {
      // The server would do it a few seconds later.
      writeNotebook(this._sessions.settings, this._path).catch(reason => console.warn('ownlab: the file is not written yet', reason));
    }
    this.session.dispose();
    this._dismissFailure();
  }

  private readonly _notebook: SharedNotebookAdapter;
  private readonly _views = new Map<NotebookPanel, RecoveredBanners>();
  private readonly _remove: () => void;
  private _path: string;
  private _isClosing = false;
  /** What is being saved as a whole. */
  private _saving: INotebookState | null = null;
  /** The notification about a failure. */
  private _failure = '';
}
