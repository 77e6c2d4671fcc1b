/** The variables of the current notebook. They are read between two cells, and only while somebody looks at them. */
import type { INotebookTracker } from '@jupyterlab/notebook';
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';

/** Of a class that the kernel's side does not know, only name and type. */
export interface IVariable {
  readonly name: string;
  readonly type: string;
  readonly shape?: readonly number[];
  readonly length?: number;
  /** Of a model. */
  readonly parameters?: number;
  readonly dtype?: string;
  readonly device?: string;
  readonly value?: string;
  readonly bytes?: number;
}

/** no-kernel: there is none, or it has ended; unsupported: not a Python runtime of ownlab. */
export type VariablesState = 'no-kernel' | 'unsupported' | 'waiting' | 'current';

interface IAnswer {
  readonly variables: readonly IVariable[];
  readonly total: number;
}

const CALL = "__import__('ownlab_guest.kernel.variables', fromlist=['list_variables']).list_variables()";
/** Cells that run in quick succession are followed by one request. */
const REST_MS = 200;

export class VariablesModel {
  constructor(private readonly _notebooks: INotebookTracker) {}

  get variables(): readonly IVariable[] {
    return this._answer.variables;
  }

  /** All variables; only so many are listed. */
  get total(): number {
    return this._answer.total;
  }

  /** waiting: the kernel is busy, and `variables` are from before. */
  get state(): VariablesState {
    return this._state;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Start or stop to follow the current notebook. */
  setVisible(visible: boolean): void {
    if (visible) {
      this._notebooks.currentChanged.connect(this._onNotebook, this);
      this._onNotebook();
    } else {
      this._notebooks.currentChanged.disconnect(this._onNotebook, this);
      this._follow(null);
    }
  }

  private _onNotebook(): void {
    const session = this._notebooks.currentWidget?.sessionContext ?? null;
    if (session !== this._session) {
      this._session?.kernelChanged.disconnect(this._onKernel, this);
      this._session = session;
      session?.kernelChanged.connect(this._onKernel, this);
    }
    this._onKernel();
  }

  private _onKernel(): void {
    this._follow(this._session?.session?.kernel ?? null);
  }

  private _follow(kernel: Kernel.IKernelConnection | null): void {
    if (kernel === this._kernel && kernel !== null) {
      return;
    }
    this._kernel?.iopubMessage.disconnect(this._onIOPub, this);
    this._kernel?.statusChanged.disconnect(this._onStatus, this);
    window.clearTimeout(this._timer);
    this._timer = 0;
    this._kernel = kernel;
    this._answer = NOTHING;
    this._isStale = true;
    kernel?.iopubMessage.connect(this._onIOPub, this);
    kernel?.statusChanged.connect(this._onStatus, this);
    this._setState(kernel ? 'waiting' : 'no-kernel');
    this._schedule();
  }

  /** Only code that people run has this message: requests of this panel, also of other pages, cause no further ones. */
  private _onIOPub(_: unknown, message: KernelMessage.IIOPubMessage): void {
    if (KernelMessage.isExecuteInputMsg(message)) {
      this._isStale = true;
      this._setState('waiting');
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._answer = NOTHING;
      this._isStale = true;
      this._setState(status === 'dead' ? 'no-kernel' : 'waiting');
    } else if (status === 'idle') {
      this._schedule();
    }
  }

  private _schedule(): void {
    if (this._isStale && this._kernel && this._timer === 0) {
      this._timer = window.setTimeout(() => {
        this._timer = 0;
        void this._request();
      }, REST_MS);
    }
  }

  /** Ask an idle kernel: behind a cell that runs, the request would wait, and the next idle status is its end. */
  private async _request(): Promise<void> {
    const kernel = this._kernel;
    if (!kernel || kernel.isDisposed || kernel.status !== 'idle' || kernel.connectionStatus !== 'connected' || this._isRequesting) {
      return;
    }
    this._isStale = false;
    this._isRequesting = true;
    try {
      const answer = await ask(kernel);
      if (kernel === this._kernel) {
        this._answer = answer ?? NOTHING;
        this._setState(answer === null ? 'unsupported' : this._isStale ? 'waiting' : 'current');
      }
    } catch {
      this._isStale = true; // the kernel was restarted or has ended
    } finally {
      this._isRequesting = false;
    }
    this._schedule();
  }

  private _setState(state: VariablesState): void {
    this._state = state;
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _session: { kernelChanged: ISignal<unknown, unknown>; session: { kernel: Kernel.IKernelConnection | null } | null } | null = null;
  private _kernel: Kernel.IKernelConnection | null = null;
  private _answer: IAnswer = NOTHING;
  private _state: VariablesState = 'no-kernel';
  /** Code has run since the last request. */
  private _isStale = true;
  private _isRequesting = false;
  private _timer = 0;
}

const NOTHING: IAnswer = { variables: [], total: 0 };

/** Return the kernel's answer; null: it has no such function. */
async function ask(kernel: Kernel.IKernelConnection): Promise<IAnswer | null> {
  const { content } = await kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false,
    user_expressions: { found: CALL }
  }).done;
  const found = content.status === 'ok' ? content.user_expressions['found'] : undefined;
  const answer = found as { status?: string; data?: Record<string, unknown> } | undefined;
  return answer?.status === 'ok' ? ((answer.data?.['application/json'] ?? null) as IAnswer | null) : null;
}
