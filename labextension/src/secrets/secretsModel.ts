/** The user's secrets as the server lists them, and the operations on them. Values are passed on and not stored. */
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchSecrets, type SecretsChange } from '../api';
import type { Secret, Secrets } from '../records';

export class SecretsModel {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    /** JupyterLab's path of the current notebook; "" if there is none. */
    private readonly _currentNotebook: () => string
  ) {}

  /** null until they were loaded. */
  get current(): Secrets | null {
    return this._current;
  }

  /** The last error; empty if there is none. */
  get failure(): string {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Load the secrets again: kernels, terminals and other pages change them, too. */
  refresh(): Promise<boolean> {
    return this._send({ method: 'GET' });
  }

  add(name: string, value: string): Promise<boolean> {
    return this._send({ method: 'POST', body: { name, value, replace: false } });
  }

  replace({ name }: Secret, value: string): Promise<boolean> {
    return this._send({ method: 'POST', body: { name, value, replace: true } });
  }

  grant({ name }: Secret, notebook: string, granted: boolean): Promise<boolean> {
    return this._send({ method: 'PUT', body: { name, notebook, granted } });
  }

  remove({ name }: Secret): Promise<boolean> {
    return this._send({ method: 'DELETE', name });
  }

  /** Send a change, and return whether it succeeded. */
  private async _send(change: SecretsChange): Promise<boolean> {
    const notebook = this._currentNotebook();
    const number = ++this._number;
    let failure = '';
    try {
      const secrets = await fetchSecrets(this._settings, notebook, change);
      // Responses may arrive out of order, and may be about a notebook that is no longer the current one.
      if (number > this._answered && (number === this._number || notebook === this._currentNotebook())) {
        this._answered = number;
        this._current = secrets;
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
