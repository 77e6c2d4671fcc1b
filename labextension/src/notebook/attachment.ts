/** Connects an open notebook to its kernel: its cells show what runs there, also if another page or client started it. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type Kernel, type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';
import { fetchAttachment, type IAttachment, type IDeath, type IDeathNote } from '../api';
import type { RunStates } from '../cells/runStates';
import type { AttachReason, ConnectionState } from '../session/connectionState';
import { LocalMessage, makeMessage } from '../session/messageSerializer';
import type { Reachability } from '../session/reachability';
import type { IJournal } from '../tokens';
import { cellOfExecution, closeInputBox, type ExecuteFuture, findCell, hasLostExecution, showExecution } from './attachedCell';
import { DeathNotice } from './deathNotice';
import { addNote } from './kernelDeath';
import { OutputCaptures } from './outputCaptures';
import { RunTimes } from './runTimes';

const RETRY_DELAY_MS = 500;

/** A running execution that this notebook shows. */
interface IShownExecution {
  cell: string;
  future: ExecuteFuture;
  /** Position of its last message so far. */
  last: number;
}

export class NotebookAttachment {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _journal: IJournal,
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability,
    runStates: RunStates,
    dialogs: ISessionContextDialogs
  ) {
    this._times = new RunTimes(runStates);
    this._notice = new DeathNotice(_panel, dialogs);
    const { sessionContext, context } = _panel;
    sessionContext.kernelChanged.connect(this._onKernelChanged, this);
    context.saveState.connect(this._onSaveState, this);
    _panel.disposed.connect(this._disconnect, this);
    this._onKernelChanged();
  }

  /** Whether the kernel's outputs are in a journal; null: not known yet, or there is no kernel. */
  get hasJournal(): boolean | null {
    return this._hasJournal;
  }

  /** RUNTIME/NUMBER: the position in the journal up to which the notebook contains everything; null: there is no journal. */
  get seen(): string | null {
    return this._kernel && this._hasJournal ? `${this._kernel.id}/${this._replaying ? 0 : (this._state?.handledPosition ?? 0)}` : null;
  }

  /** Return whether the kernel is at work on a cell. */
  isRunning(id: string): boolean {
    return [...this._executions.values()].some(({ cell }) => cell === id);
  }

  /** Called whenever the notebook may have another kernel. */
  private _onKernelChanged(): void {
    const kernel = this._panel.sessionContext.session?.kernel ?? null;
    if (kernel === this._kernel) {
      return;
    }
    this._disconnect();
    this._kernel = kernel;
    if (kernel) {
      const state = this._journal.connections.get(kernel.id, kernel.clientId);
      this._state = state;
      state.handledPosition = this._newestPosition = this._journal.connections.expectedPosition(kernel.id);
      state.attachNeeded.connect(this._onAttachNeeded, this);
      kernel.iopubMessage.connect(this._onIOPub, this);
      kernel.statusChanged.connect(this._onStatus, this);
      kernel.disposed.connect(() => this._journal.connections.remove(state));
      this._journal.connections.markAttached(state);
      this._attach('opened', state.handledPosition);
    }
  }

  private _disconnect(): void {
    this._state?.attachNeeded.disconnect(this._onAttachNeeded, this);
    this._kernel?.iopubMessage.disconnect(this._onIOPub, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    this._clearExecutions();
    this._kernel = this._state = this._hasJournal = null;
  }

  private _onAttachNeeded(state: ConnectionState, reason: AttachReason): void {
    this._attach(reason, state.handledPosition);
  }

  /** Ask the server what runs and what has changed, and show it. Messages are held back meanwhile. */
  private _attach(reason: AttachReason | 'opened', after: number): void {
    const { _kernel: kernel, _state: state } = this;
    if (kernel && state) {
      state.pause();
      this._replaying ||= reason !== 'opened';
      this._pending = this._pending.then(async () => {
        try {
          const attachment = await this._fetch(kernel, state, after);
          if (this._kernel === kernel) {
            this._hasJournal = attachment !== null;
          }
          if (attachment && this._kernel === kernel) {
            this._apply(kernel, state, attachment, reason);
          } else {
            this._replaying = false;
          }
        } catch (error) {
          this._replaying = false;
          console.error('ownlab: could not read what runs in this notebook', error);
        } finally {
          state.resume();
        }
      });
    }
  }

  /** Return what the server answers; null: the kernel is not a runtime of ownlab. */
  private async _fetch(kernel: Kernel.IKernelConnection, state: ConnectionState, after: number): Promise<IAttachment | null> {
    await this._panel.context.ready;
    state.pause();
    for (;;) {
      const { kernelGeneration } = state;
      try {
        const attachment = await fetchAttachment(this._settings, kernel.id, after);
        if (state.kernelGeneration === kernelGeneration || kernel.isDisposed) {
          return attachment;
        }
      } catch (reason) {
        if (!(reason instanceof ServerConnection.NetworkError) || kernel.isDisposed) {
          throw reason;
        }
        await this._reachability.check();
        await this._reachability.whenReachable;
        await new Promise(done => window.setTimeout(done, RETRY_DELAY_MS));
      }
    }
  }

  private _apply(kernel: Kernel.IKernelConnection, state: ConnectionState, attachment: IAttachment, reason: AttachReason | 'opened'): void {
    const { model } = this._panel.context;
    const wasDirty = model.dirty;
    state.session = attachment.kernel_session;
    // Open the socket first: then JupyterLab's own messages are sent, and replayed requests do not wait in its queue.
    state.socket?.open();
    this._captures.reset(attachment.capturing);
    this._notice.setDeath(attachment.death, attachment.ran_since_death);
    const messages: LocalMessage[] = [];
    for (const execution of attachment.executions.sort((first, second) => first.queued_at - second.queued_at)) {
      const cell = findCell(this._panel, execution.cell);
      const isShown = cell && !hasLostExecution(cell) && cellOfExecution(this._panel, execution.msg_id) === cell;
      if (cell && (!isShown || reason === 'behind')) {
        state.markReplayed(execution.msg_id, attachment.position, cell.model.id);
        // Replayed output was not captured by a widget; later output may be.
        const hook = (message: KernelMessage.IIOPubMessage): boolean =>
          !this._journal.serializer.positionOf(message) || this._captures.acceptsOutput(message);
        showExecution(this._panel, kernel, cell, execution, hook);
        cell.outputHidden &&= reason === 'opened';
        messages.push(...execution.messages.map(message => new LocalMessage({ ...message, buffers: [] })));
      }
    }
    messages.push(...attachment.asked.map(message => new LocalMessage({ ...message, buffers: [] })));
    messages.push(new LocalMessage(makeMessage('ownlab_packages', attachment.kernel_session, '', attachment.packages)));
    const content = { clean: !wasDirty && !attachment.executions.some(({ state }) => state === 'running' || state === 'queued') };
    messages.push(new LocalMessage(makeMessage('ownlab_position', attachment.kernel_session, '', content), attachment.position));
    state.receivedPosition ??= attachment.position;
    this._replaying = true;
    messages.forEach(message => state.deliver(message));
  }

  /** Called after JupyterLab has handled a message. */
  private _onIOPub(_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const type: string = message.header.msg_type;
    const position = this._journal.serializer.positionOf(message);
    const execution = 'msg_id' in message.parent_header ? message.parent_header.msg_id : '';
    const content = message.content as { value?: string | null; clean?: boolean; execution_state?: string };
    if (type === 'ownlab_died') {
      this._onDied(message.content as unknown as { death: IDeath; notes: IDeathNote[] });
    }
    if (type === 'ownlab_not_run') {
      this._onNotRun(message.content as unknown as { notes: IDeathNote[] });
    }
    if (type === 'ownlab_position') {
      this._replaying = false;
      this._markHandled(position, content.clean === true);
      return;
    }
    this._checkExecution(execution, position);
    if (type === 'ownlab_answered') {
      this._closeInputBox(execution, content.value ?? null);
    } else if (type === 'comm_msg') {
      this._captures.onCommMessage(message.content as KernelMessage.ICommMsgMsg['content']);
    } else if (type === 'execute_input') {
      this._onExecutionStarted(execution, message.header.date, position);
    } else if (type === 'status' && content.execution_state === 'idle') {
      this._executions.delete(execution);
      this._times.stop(execution, Date.parse(message.header.date) / 1000);
    }
    if (position > 0 && !this._replaying) {
      this._markHandled(position, false);
    }
  }

  private _onNotRun({ notes }: { notes: IDeathNote[] }): void {
    for (const note of notes) {
      // JupyterLab forgets all executions when it hears of the new kernel.
      const cell = cellOfExecution(this._panel, note.msg_id) ?? findCell(this._panel, note.cell);
      const { future } = cell?.outputArea ?? {};
      if (cell && (hasLostExecution(cell) || future?.msg.header.msg_id === note.msg_id)) {
        future?.dispose();
        addNote(cell, note);
      }
    }
  }

  private _onDied({ death, notes }: { death: IDeath; notes: IDeathNote[] }): void {
    for (const note of notes) {
      const cell = cellOfExecution(this._panel, note.msg_id);
      if (cell) {
        addNote(cell, note);
      }
      this._times.stop(note.msg_id, death.at);
    }
    this._notice.setDeath(death);
    this._notice.setUnused(true);
    // JupyterLab's own dialog says that the kernel appears to have died, and not why.
    (this._panel as unknown as { _autorestarting: boolean })._autorestarting = true;
  }

  /** Everything up to a position is in the notebook. Recorded in a later task: JupyterLab sets a cell's count after its last message. */
  private _markHandled(position: number, clean: boolean): void {
    this._newestPosition = Math.max(this._newestPosition, position);
    this._clearDirty ||= clean;
    this._handledTimer ||= window.setTimeout(() => {
      this._handledTimer = 0;
      if (this._state) {
        this._state.handledPosition = this._newestPosition;
      }
      if (this._clearDirty && !this._panel.isDisposed) {
        this._panel.context.model.dirty = false; // the server has everything that was added
      }
      this._clearDirty = false;
    });
  }

  private _onExecutionStarted(execution: string, date: string, position: number): void {
    this._notice.setDeath(null, true);
    this._notice.setUnused(false);
    const cell = cellOfExecution(this._panel, execution);
    const future = cell?.outputArea.future;
    if (cell && future) {
      this._executions.set(execution, { cell: cell.model.id, future, last: position });
      this._times.start(execution, Date.parse(date) / 1000, () => cellOfExecution(this._panel, execution));
    } else {
      this._recoverExecution(this._state?.cellIds.get(execution), position - 1); // the cell lost it while it was queued
    }
  }

  /** A cell loses its execution if the notebook is reloaded from disk or another view of it is closed. */
  private _checkExecution(execution: string, position: number): void {
    const shown = this._executions.get(execution);
    if (shown?.future.isDisposed) {
      this._executions.delete(execution);
      this._times.stop(execution, null);
      this._recoverExecution(shown.cell, shown.last);
    } else if (shown && position > 0) {
      shown.last = position;
    }
  }

  private _recoverExecution(id: string | undefined, after: number): void {
    const cell = findCell(this._panel, id ?? null);
    if (cell && hasLostExecution(cell)) {
      this._attach('unknown-execution', after);
    }
  }

  private _closeInputBox(execution: string, value: string | null): void {
    const cell = cellOfExecution(this._panel, execution);
    if (cell && this._state) {
      this._state.muted = true;
      try {
        closeInputBox(cell, value);
      } finally {
        this._state.muted = false;
      }
    }
  }

  private _onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._clearExecutions();
    }
  }

  /** JupyterLab has dropped all executions. */
  private _clearExecutions(): void {
    this._executions.clear();
    this._captures.clear();
    this._times.clear();
    this._replaying = false;
  }

  /** Called before JupyterLab reads the cells to save them: what is handled later is not in the file. */
  private _onSaveState({ localPath }: DocumentRegistry.Context, state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      const position = this._replaying ? 0 : this._state?.handledPosition;
      this._journal.savedPositions.saveStarted(localPath, this._kernel ? `${this._kernel.id}/${position}` : '');
    } else {
      this._journal.savedPositions.saveFinished(localPath);
    }
  }

  /** Ask the server to send Output widgets what they captured. */
  private _requestWidgetState(): void {
    const kernel = this._kernel;
    if (kernel && !kernel.isDisposed) {
      const request = makeMessage('ownlab_widgets_request', kernel.clientId, UUID.uuid4(), {});
      kernel.sendShellMessage({ ...request, channel: 'shell', parent_header: {} } as KernelMessage.IShellMessage);
    }
  }

  private readonly _times: RunTimes;
  private readonly _notice: DeathNotice;
  private readonly _captures = new OutputCaptures(() => this._requestWidgetState());
  private readonly _executions = new Map<string, IShownExecution>();
  private _kernel: Kernel.IKernelConnection | null = null;
  private _state: ConnectionState | null = null;
  private _pending: Promise<void> = Promise.resolve();
  /** Cells are being replayed: output that they lack meanwhile must not be reported as saved. */
  private _replaying = false;
  private _hasJournal: boolean | null = null;
  private _newestPosition = 0;
  private _clearDirty = false;
  private _handledTimer = 0;
}
