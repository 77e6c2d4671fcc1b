/** userdata.get: whether this notebook may have a secret. The value goes to the server's store alone, never to the kernel. */
import type { ServerConnection } from '@jupyterlab/services';
import { fetchAccess, grantSecret } from '../api';
import { Box, button, element } from './box';
import type { Request } from './request';

export class GrantBox extends Box {
  constructor(
    private readonly _request: Request,
    private readonly _settings: ServerConnection.ISettings
  ) {
    super(`This notebook asks for the secret ${_request.text('key')}.`);
    this._value.type = 'password';
    this._value.autocomplete = 'off';
    this._value.placeholder = 'Value';
    this._value.setAttribute('aria-label', `Value of ${_request.text('key')}`);
    this._value.hidden = true;
    this._value.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        event.preventDefault();
        void this._grant();
      }
    });
    this._accept = button('Grant access', true, () => void this._grant());
    const refuse = button('Refuse', false, () => _request.answer({ granted: false }));
    this.content.append(this._value, this._accept, refuse);
    void this._look();
  }

  /** Where there is no such secret, it can be entered here. */
  private async _look(): Promise<void> {
    const key = this._request.text('key');
    try {
      const { there } = await fetchAccess(this._settings, this._request.kernel.id, key);
      if (!there && !this.isDisposed) {
        this.words.textContent = `This notebook asks for the secret ${key}, and there is none of that name yet. You can enter it here.`;
        this._value.hidden = false;
        this._accept.textContent = 'Save and grant access';
      }
    } catch (reason) {
      this._say(reason);
    }
  }

  private async _grant(): Promise<void> {
    const value = this._value.hidden ? null : this._value.value;
    if (value === '') {
      this._value.focus();
      return;
    }
    this._accept.disabled = true;
    try {
      const { granted } = await grantSecret(this._settings, this._request.kernel.id, this._request.text('key'), value);
      this._value.value = '';
      this._request.answer({ granted });
    } catch (reason) {
      this._accept.disabled = false;
      this._say(reason);
    }
  }

  private _say(reason: unknown): void {
    this.words.textContent = `The secret was not granted: ${reason instanceof Error ? reason.message : String(reason)}`;
  }

  private readonly _value = element('input', 'jp-mod-styled ownlab-Ask-value');
  private readonly _accept: HTMLButtonElement;
}
