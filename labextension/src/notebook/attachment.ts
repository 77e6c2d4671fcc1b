/** Between an open notebook and its kernel: its cells show what runs in it, whoever began that, and wherever. */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type Kernel, type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';
import { fetchAttachment, type IAttachment } from '../api';
import type { Follower, Followers, Need } from '../session/connectionState';
import { mark, Told, type Wire } from '../session/messageSerializer';
import type { Reachability } from '../session/reachability';
import type { Seen } from '../session/savedPosition';
import { adopt, answerIn, cellOf, cellShowing, type ExecuteFuture, isLost } from './attachedCell';
import { Elapsed } from './elapsedTime';
import { Captures } from './outputCaptures';

const AGAIN = 500;

export interface ILine {
  followers: Followers;
  wire: Wire;
  seen: Seen;
}

/** An execution that this notebook shows, while it runs. */
interface IShown {
  cell: string;
  future: ExecuteFuture;
  /** The number of its last message so far. */
  last: number;
}

export class Attachment {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _line: ILine,
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability,
    now: () => number
  ) {
    this._elapsed = new Elapsed(now);
    const { sessionContext, context } = _panel;
    sessionContext.kernelChanged.connect(this._look, this);
    context.saveState.connect(this._onSaveState, this);
    _panel.disposed.connect(this._leave, this);
    this._look();
  }

  /** Called whenever the notebook may have another kernel. */
  private _look(): void {
    const kernel = this._panel.sessionContext.session?.kernel ?? null;
    if (kernel === this._kernel) {
      return;
    }
    this._leave();
    this._kernel = kernel;
    if (kernel) {
      const follower = this._line.followers.of(kernel.id, kernel.clientId);
      this._follower = follower;
      follower.handled = this._newest = this._line.followers.expected(kernel.id);
      follower.needs.connect(this._onNeed, this);
      kernel.iopubMessage.connect(this._onIOPub, this);
      kernel.statusChanged.connect(this._onStatus, this);
      kernel.disposed.connect(() => this._line.followers.drop(follower));
      this._line.followers.attaches(follower);
      this._attach('opened', follower.handled);
    }
  }

  private _leave(): void {
    this._follower?.needs.disconnect(this._onNeed, this);
    this._kernel?.iopubMessage.disconnect(this._onIOPub, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    this._forget();
    this._kernel = this._follower = null;
  }

  private _onNeed(follower: Follower, need: Need): void {
    this._attach(need, follower.handled);
  }

  /** Ask the server what runs and what changed, and show it; nothing comes through meanwhile. */
  private _attach(why: Need | 'opened', after: number): void {
    const { _kernel: kernel, _follower: follower } = this;
    if (kernel && follower) {
      follower.pause();
      this._retelling ||= why !== 'opened';
      this._work = this._work.then(async () => {
        try {
          const answer = await this._ask(kernel, follower, after);
          if (answer && this._kernel === kernel) {
            this._show(kernel, follower, answer, why);
          } else {
            this._retelling = false;
          }
        } catch (reason) {
          this._retelling = false;
          console.error('What runs in this notebook could not be read.', reason);
        } finally {
          follower.resume();
        }
      });
    }
  }

  /** null: that kernel is none of ours. */
  private async _ask(kernel: Kernel.IKernelConnection, follower: Follower, after: number): Promise<IAttachment | null> {
    await this._panel.context.ready;
    follower.pause();
    for (;;) {
      const { launch } = follower;
      try {
        const answer = await fetchAttachment(this._settings, kernel.id, after);
        if (follower.launch === launch || kernel.isDisposed) {
          return answer;
        }
      } catch (reason) {
        if (!(reason instanceof ServerConnection.NetworkError) || kernel.isDisposed) {
          throw reason;
        }
        await this._reachability.check();
        await this._reachability.back;
        await new Promise(done => window.setTimeout(done, AGAIN));
      }
    }
  }

  private _show(kernel: Kernel.IKernelConnection, follower: Follower, answer: IAttachment, why: Need | 'opened'): void {
    const { model } = this._panel.context;
    const wasDirty = model.dirty;
    follower.session = answer.kernel_session;
    // First: what JupyterLab says from now on goes through, and the requests of others do not wait in its own queue.
    follower.socket?.open();
    this._captures.begin(answer.capturing);
    const told: Told[] = [];
    for (const execution of answer.executions.sort((one, other) => one.queued_at - other.queued_at)) {
      const cell = cellOf(this._panel, execution.cell);
      const isShown = cell && !isLost(cell) && cellShowing(this._panel, execution.msg_id) === cell;
      if (cell && (!isShown || why === 'behind')) {
        follower.retold(execution.msg_id, answer.position, cell.model.id);
        // What is retold was not taken by a widget; what comes from now on may be.
        const guard = (message: KernelMessage.IIOPubMessage): boolean => !this._line.wire.numberOf(message) || this._captures.guard(message);
        adopt(this._panel, kernel, cell, execution, guard);
        cell.outputHidden &&= why === 'opened';
        told.push(...execution.messages.map(message => new Told({ ...message, buffers: [] } as unknown as KernelMessage.IMessage)));
      }
    }
    told.push(...answer.asked.map(message => new Told({ ...message, buffers: [] } as unknown as KernelMessage.IMessage)));
    told.push(new Told(mark('ownlab_packages', answer.kernel_session, '', answer.packages)));
    const content = { clean: !wasDirty && !answer.executions.some(({ state }) => state === 'running' || state === 'queued') };
    told.push(new Told(mark('ownlab_position', answer.kernel_session, '', content), answer.position));
    follower.received ??= answer.position;
    this._retelling = true;
    told.forEach(one => follower.tell(one));
  }

  /** Called when JupyterLab has handled a message. */
  private _onIOPub(_: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const type: string = message.header.msg_type;
    const number = this._line.wire.numberOf(message);
    const execution = 'msg_id' in message.parent_header ? message.parent_header.msg_id : '';
    const content = message.content as { value?: string | null; clean?: boolean; execution_state?: string };
    if (type === 'ownlab_position') {
      this._retelling = false;
      this._handled(number, content.clean === true);
      return;
    }
    this._watch(execution, number);
    if (type === 'ownlab_answered') {
      this._answer(execution, content.value ?? null);
    } else if (type === 'comm_msg') {
      this._captures.note(message.content as KernelMessage.ICommMsgMsg['content']);
    } else if (type === 'execute_input') {
      this._began(execution, message.header.date, number);
    } else if (type === 'status' && content.execution_state === 'idle') {
      this._shown.delete(execution);
      this._elapsed.ended(execution);
    }
    if (number > 0 && !this._retelling) {
      this._handled(number, false);
    }
  }

  /** Everything up to a number is in the notebook; a task later, since a cell's count is set after its last message. */
  private _handled(number: number, clean: boolean): void {
    this._newest = Math.max(this._newest, number);
    this._clean ||= clean;
    this._timer ||= window.setTimeout(() => {
      this._timer = 0;
      if (this._follower) {
        this._follower.handled = this._newest;
      }
      if (this._clean && !this._panel.isDisposed) {
        this._panel.context.model.dirty = false; // the server knows all that was added
      }
      this._clean = false;
    });
  }

  private _began(execution: string, date: string, number: number): void {
    const cell = cellShowing(this._panel, execution);
    const future = cell?.outputArea.future as ExecuteFuture | undefined;
    if (cell && future) {
      this._shown.set(execution, { cell: cell.model.id, future, last: number });
      this._elapsed.began(execution, Date.parse(date) / 1000, () => cellShowing(this._panel, execution));
    } else {
      this._find(this._follower?.cells.get(execution), number - 1); // it was queued when its cell lost it
    }
  }

  /** A cell may lose its execution: the notebook was read anew, or another view of it was closed. */
  private _watch(execution: string, number: number): void {
    const shown = this._shown.get(execution);
    if (shown?.future.isDisposed) {
      this._shown.delete(execution);
      this._elapsed.ended(execution);
      this._find(shown.cell, shown.last);
    } else if (shown && number > 0) {
      shown.last = number;
    }
  }

  private _find(id: string | undefined, after: number): void {
    const cell = cellOf(this._panel, id ?? null);
    if (cell && isLost(cell)) {
      this._attach('strange', after);
    }
  }

  private _answer(execution: string, value: string | null): void {
    const cell = cellShowing(this._panel, execution);
    if (cell && this._follower) {
      this._follower.muted = true;
      try {
        answerIn(cell, value);
      } finally {
        this._follower.muted = false;
      }
    }
  }

  private _onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._forget();
    }
  }

  /** JupyterLab has dropped whatever ran. */
  private _forget(): void {
    this._shown.clear();
    this._captures.clear();
    this._elapsed.clear();
    this._retelling = false;
  }

  /** Before JupyterLab reads the cells to save them: what is handled after that is not in the file. */
  private _onSaveState({ localPath }: DocumentRegistry.Context, state: DocumentRegistry.SaveState): void {
    if (state === 'started') {
      const number = this._retelling ? 0 : this._follower?.handled;
      this._line.seen.saves(localPath, this._kernel ? `${this._kernel.id}/${number}` : '');
    } else {
      this._line.seen.saved(localPath);
    }
  }

  /** Have the server tell Output widgets what they took. */
  private _askForWidgets(): void {
    const kernel = this._kernel;
    if (kernel && !kernel.isDisposed) {
      const request = mark('ownlab_widgets_request', kernel.clientId, UUID.uuid4(), {});
      kernel.sendShellMessage({ ...request, channel: 'shell', parent_header: {} } as KernelMessage.IShellMessage);
    }
  }

  private readonly _elapsed: Elapsed;
  private readonly _captures = new Captures(() => this._askForWidgets());
  private readonly _shown = new Map<string, IShown>();
  private _kernel: Kernel.IKernelConnection | null = null;
  private _follower: Follower | null = null;
  private _work: Promise<void> = Promise.resolve();
  /** Cells are being told anew: what they lack at this moment must not count as seen. */
  private _retelling = false;
  private _newest = 0;
  private _clean = false;
  private _timer = 0;
}
