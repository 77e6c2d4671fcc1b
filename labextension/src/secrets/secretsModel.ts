/** The person's secrets as the server lists them, and what can be done to them. A value passes through, and is not kept. */
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchSecrets, type SecretsChange } from '../api';
import type { Secret, Secrets } from '../records';

export class SecretsModel {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    /** JupyterLab's path of the notebook in front; "" where there is none. */
    private readonly _inFront: () => string
  ) {}

  /** null until they came. */
  get current(): Secrets | null {
    return this._current;
  }

  /** What went wrong last; empty while all is well. */
  get failure(): string {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Ask again: kernels, terminals and other pages change them too. */
  refresh(): Promise<boolean> {
    return this._ask({ method: 'GET' });
  }

  add(name: string, value: string): Promise<boolean> {
    return this._ask({ method: 'POST', body: { name, value, replace: false } });
  }

  replace({ name }: Secret, value: string): Promise<boolean> {
    return this._ask({ method: 'POST', body: { name, value, replace: true } });
  }

  grant({ name }: Secret, notebook: string, granted: boolean): Promise<boolean> {
    return this._ask({ method: 'PUT', body: { name, notebook, granted } });
  }

  remove({ name }: Secret): Promise<boolean> {
    return this._ask({ method: 'DELETE', name });
  }

  /** Whether it was done. */
  private async _ask(change: SecretsChange): Promise<boolean> {
    const notebook = this._inFront();
    const number = ++this._number;
    let failure = '';
    try {
      const found = await fetchSecrets(this._settings, notebook, change);
      // Answers may overtake each other; and another notebook may be in front by now, of which they say nothing.
      if (number > this._answered && (number === this._number || notebook === this._inFront())) {
        this._answered = number;
        this._current = found;
      }
    } catch (reason) {
      failure = reason instanceof Error ? reason.message : String(reason);
    }
    if (failure || change.method !== 'GET' || number === this._number) {
      this._failure = failure;
    }
    this._changed.emit();
    return !failure;
  }

  private readonly _changed = new Signal<this, void>(this);
  private _current: Secrets | null = null;
  private _failure = '';
  private _number = 0;
  private _answered = 0;
}
