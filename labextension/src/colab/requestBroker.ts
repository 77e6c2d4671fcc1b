/** Answers the requests of google.colab in one notebook: directly, or with a prompt in the cell. */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import { cellOfExecution, codeCells } from '../notebook/attachedCell';
import type { ColabActions } from './actions';
import { areaOf, arrangeOutputs } from './outputAreas';
import { OutputRow } from './prompts';
import { Request } from './request';

/** The page that started an execution answers first. After this time another page does, since that page may be closed. */
const OTHER_PAGE_TIMEOUT_MS = 3_000;

/** A request that has not been answered. */
interface IPending {
  request: Request;
  prompt: Widget | null;
  timer: number;
}

export class RequestBroker {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _actions: ColabActions
  ) {
    panel.sessionContext.kernelChanged.connect(this._onKernelChanged, this);
    panel.disposed.connect(this._disconnect, this);
    // Metadata of saved outputs counts only in trusted cells, like their scripts.
    const saved = (): CodeCell[] => codeCells(panel).filter(cell => cell.model.trusted);
    void panel.revealed.then(() => saved().forEach(cell => arrangeOutputs(cell, panel.content.node)));
    this._onKernelChanged();
  }

  /** Return the cell of an execution; for messages that no cell sent (such as a click in a widget) the active cell. */
  cellOf(execution: string): CodeCell | undefined {
    const { widgets, activeCell } = this.panel.content;
    const found = cellOfExecution(this.panel, execution) ?? this.callers.get(execution);
    if (found && !found.isDisposed) {
      return found;
    }
    const last = [...widgets].reverse().find(cell => cell.model.type === 'code');
    return (activeCell?.model.type === 'code' ? activeCell : last) as CodeCell | undefined;
  }

  /** Return the element in which scripts of a cell show something. */
  scriptOutput(cell: CodeCell): HTMLElement {
    let output = this._scriptOutputs.get(cell);
    if (!output || output.isDisposed) {
      output = new OutputRow(document.createElement('div'));
      output.content.className = 'ownlab-Scripted';
      output.showIn(cell);
      this._scriptOutputs.set(cell, output);
    }
    return output.content;
  }

  /** Message id -> the cell whose script sent the message to call a function. */
  readonly callers = new Map<string, CodeCell>();

  private _onKernelChanged(): void {
    const kernel = this.panel.sessionContext.session?.kernel ?? null;
    if (kernel !== this._kernel) {
      this._disconnect();
      this._kernel = kernel;
      kernel?.iopubMessage.connect(this._onIOPub, this);
      kernel?.statusChanged.connect(this._onStatus, this);
    }
  }

  private _disconnect(): void {
    this._kernel?.iopubMessage.disconnect(this._onIOPub, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    this._kernel = null;
    this._discard(() => true);
    this._answered.clear();
    this.callers.clear();
  }

  /** Called after JupyterLab has handled a message. */
  private _onIOPub(kernel: Kernel.IKernelConnection, message: KernelMessage.IIOPubMessage): void {
    const type: string = message.header.msg_type;
    if (type === 'colab_request') {
      this._onRequest(new Request(kernel, message));
    } else if (type === 'ownlab_replied') {
      const { id, ack } = message.content as unknown as { id: string; ack: boolean };
      this._onReplied(id, ack);
    } else if (areaOf((message.content as { metadata?: unknown }).metadata)) {
      const cell = 'msg_id' in message.parent_header ? this.cellOf(message.parent_header.msg_id) : undefined;
      if (cell) {
        arrangeOutputs(cell, this.panel.content.node);
      }
    } else if (type === 'status' && this._pending.size > 0) {
      const { execution_state } = message.content as KernelMessage.IStatusMsg['content'];
      const ended = 'msg_id' in message.parent_header ? message.parent_header.msg_id : '';
      if (execution_state === 'idle') {
        this._discard(({ execution }) => execution === ended); // interrupted: the kernel no longer waits
      }
    }
  }

  private _onStatus(_: Kernel.IKernelConnection, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._discard(() => true);
    }
  }

  private _onRequest(request: Request): void {
    if (!request.execution) {
      return; // replayed: see ConnectionState.onMessage
    }
    if (!request.id) {
      void this._actions.perform(request, this).catch(reason => console.warn(`google.colab: ${request.type}`, reason));
      return;
    }
    const known = this._pending.get(request.id);
    if (this._answered.has(request.id) || (known && !known.prompt?.isDisposed)) {
      return; // a repeated message
    }
    const pending: IPending = { request, prompt: null, timer: 0 };
    this._pending.set(request.id, pending);
    const cell = this.cellOf(request.execution);
    pending.prompt = cell ? this._actions.promptFor(request) : null;
    if (cell && pending.prompt instanceof OutputRow) {
      request.acknowledge();
      cell.outputHidden = false;
      pending.prompt.showIn(cell);
    } else if (request.own) {
      void this._perform(pending);
    } else {
      pending.timer = window.setTimeout(() => void this._perform(pending), OTHER_PAGE_TIMEOUT_MS);
    }
  }

  private async _perform(pending: IPending): Promise<void> {
    const { request } = pending;
    pending.timer = 0;
    request.acknowledge();
    try {
      request.answer(await this._actions.perform(request, this));
    } catch (reason) {
      request.refuse(reason);
    }
  }

  /** This page or another one has answered, or announced that it will. */
  private _onReplied(id: string, ack: boolean): void {
    const pending = this._pending.get(id);
    if (!ack) {
      this._answered.add(id);
      this._discard(request => request.id === id);
    } else if (pending) {
      window.clearTimeout(pending.timer);
    }
  }

  private _discard(which: (request: Request) => boolean): void {
    for (const [id, { request, prompt, timer }] of this._pending) {
      if (which(request)) {
        this._pending.delete(id);
        window.clearTimeout(timer);
        prompt?.dispose();
      }
    }
  }

  private _kernel: Kernel.IKernelConnection | null = null;
  private readonly _pending = new Map<string, IPending>();
  /** Ids of requests that were answered. */
  private readonly _answered = new Set<string>();
  private readonly _scriptOutputs = new WeakMap<CodeCell, OutputRow>();
}
