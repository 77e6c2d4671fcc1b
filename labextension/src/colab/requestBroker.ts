/** Answers google.colab in one notebook: by itself, or by a box in the cell that asks. */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import { cellShowing, codeCells } from '../notebook/attachedCell';
import type { Deeds } from './actions';
import { areaOf, arrange } from './outputAreas';
import { Row } from './prompts';
import { Request } from './request';

/** So long the page that began an execution has to act; then another one does, for that may be gone. */
const OTHERS_FIRST = 3_000;

/** A request that is not answered yet. */
interface IPending {
  request: Request;
  box: Widget | null;
  timer: number;
}

export class ColabDesk {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _deeds: Deeds
  ) {
    panel.sessionContext.kernelChanged.connect(this._look, this);
    panel.disposed.connect(this._leave, this);
    // What a stranger's notebook says of its saved outputs counts no more than their scripts do.
    const saved = (): CodeCell[] => codeCells(panel).filter(cell => cell.model.trusted);
    void panel.revealed.then(() => saved().forEach(cell => arrange(cell, panel.content.node)));
    this._look();
  }

  /** The cell that an execution belongs to; of what no cell sent (a click in a widget), the one that is in front. */
  cellOf(execution: string): CodeCell | undefined {
    const { widgets, activeCell } = this.panel.content;
    const found = cellShowing(this.panel, execution) ?? this.callers.get(execution);
    if (found && !found.isDisposed) {
      return found;
    }
    const last = [...widgets].reverse().find(cell => cell.model.type === 'code');
    return (activeCell?.model.type === 'code' ? activeCell : last) as CodeCell | undefined;
  }

  /** Where scripts of a cell put what they show. */
  placeIn(cell: CodeCell): HTMLElement {
    let place = this._places.get(cell);
    if (!place || place.isDisposed) {
      place = new Row(document.createElement('div'));
      place.content.className = 'ownlab-Scripted';
      place.showIn(cell);
      this._places.set(cell, place);
    }
    return place.content;
  }

  /** Messages of this page -> the cell in which they were caused: calls of functions by an output's scripts. */
  readonly callers = new Map<string, CodeCell>();

  private _look(): void {
    const kernel = this.panel.sessionContext.session?.kernel ?? null;
    if (kernel !== this._kernel) {
      this._leave();
      this._kernel = kernel;
      kernel?.iopubMessage.connect(this._onIOPub, this);
      kernel?.statusChanged.connect(this._onStatus, this);
    }
  }

  private _leave(): void {
    this._kernel?.iopubMessage.disconnect(this._onIOPub, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    this._kernel = null;
    this._forget(() => true);
    this._settled.clear();
    this.callers.clear();
  }

  /** Called when JupyterLab has handled a message. */
  private _onIOPub(kernel: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const type: string = message.header.msg_type;
    if (type === 'colab_request') {
      this._hear(new Request(kernel, message));
    } else if (type === 'ownlab_replied') {
      const { id, ack } = message.content as unknown as { id: string; ack: boolean };
      this._replied(id, ack);
    } else if (areaOf((message.content as { metadata?: unknown }).metadata)) {
      const cell = 'msg_id' in message.parent_header ? this.cellOf(message.parent_header.msg_id) : undefined;
      if (cell) {
        arrange(cell, this.panel.content.node);
      }
    } else if (type === 'status' && this._pending.size > 0) {
      const { execution_state } = message.content as KernelMessage.IStatusMsg['content'];
      const ended = 'msg_id' in message.parent_header ? message.parent_header.msg_id : '';
      if (execution_state === 'idle') {
        this._forget(({ execution }) => execution === ended); // interrupted: nobody waits any more
      }
    }
  }

  private _onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._forget(() => true);
    }
  }

  private _hear(request: Request): void {
    if (!request.execution) {
      return; // retold: see Follower.met
    }
    if (!request.id) {
      void this._deeds.do(request, this).catch(reason => console.warn(`google.colab: ${request.type}`, reason));
      return;
    }
    const known = this._pending.get(request.id);
    if (this._settled.has(request.id) || (known && !known.box?.isDisposed)) {
      return; // told again
    }
    const pending: IPending = { request, box: null, timer: 0 };
    this._pending.set(request.id, pending);
    const cell = this.cellOf(request.execution);
    pending.box = cell ? this._deeds.boxFor(request) : null;
    if (cell && pending.box instanceof Row) {
      request.acknowledge();
      cell.outputHidden = false;
      pending.box.showIn(cell);
    } else if (request.own) {
      void this._act(pending);
    } else {
      pending.timer = window.setTimeout(() => void this._act(pending), OTHERS_FIRST);
    }
  }

  private async _act(pending: IPending): Promise<void> {
    const { request } = pending;
    pending.timer = 0;
    request.acknowledge();
    try {
      request.answer(await this._deeds.do(request, this));
    } catch (reason) {
      request.refuse(reason);
    }
  }

  /** Some page has answered, this one or another; or begins to. */
  private _replied(id: string, ack: boolean): void {
    const pending = this._pending.get(id);
    if (!ack) {
      this._settled.add(id);
      this._forget(request => request.id === id);
    } else if (pending) {
      window.clearTimeout(pending.timer);
    }
  }

  private _forget(which: (request: Request) => boolean): void {
    for (const [id, { request, box, timer }] of this._pending) {
      if (which(request)) {
        this._pending.delete(id);
        window.clearTimeout(timer);
        box?.dispose();
      }
    }
  }

  private _kernel: Kernel.IKernelConnection | null = null;
  private readonly _pending = new Map<string, IPending>();
  /** Those that were answered. */
  private readonly _settled = new Set<string>();
  private readonly _places = new WeakMap<CodeCell, Row>();
}
