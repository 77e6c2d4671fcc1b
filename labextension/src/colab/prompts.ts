/** Prompts below a cell's outputs, in which a person answers what the kernel waits for. They are not outputs and not saved. */
import type { CodeCell } from '@jupyterlab/cells';
import { ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { fetchSecretAccess, grantSecret, uploadChunk } from '../api';
import { errorMessage } from '../failures';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import type { Request } from './request';

/** A row at the end of a cell's outputs, beside an empty prompt. */
export class OutputRow extends Widget {
  constructor(readonly content: HTMLElement) {
    super();
    this.addClass('jp-OutputArea-child');
    this.addClass('ownlab-Row');
    const prompt = element('div', 'jp-OutputPrompt jp-OutputArea-prompt');
    this.node.append(prompt, content);
  }

  /** Show the row in a cell; a cell without outputs is expanded for it. */
  showIn(cell: CodeCell): void {
    const { outputArea } = cell;
    outputArea.layout.addWidget(this);
    outputArea.outputLengthChanged.emit(Math.max(outputArea.model.length, 1));
    this.disposed.connect(() => {
      // Otherwise the keyboard goes nowhere. A button that was disabled has lost the focus already, to the page.
      const focused = document.activeElement;
      if (cell.isVisible && (focused === document.body || this.node.contains(focused))) {
        cell.parent?.activate();
      }
      if (!outputArea.isDisposed) {
        outputArea.outputLengthChanged.emit(outputArea.model.length);
      }
    });
  }
}

/** A row with a message and controls to answer it. */
export class Prompt extends OutputRow {
  constructor(message: string) {
    super(element('div', 'ownlab-Ask'));
    this.content.setAttribute('role', 'group');
    this.content.setAttribute('aria-label', message);
    this.content.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single-key shortcuts must not apply here
    this.message = element('p', 'ownlab-Ask-words');
    this.message.textContent = message;
    this.message.setAttribute('role', 'status');
    this.content.append(this.message);
  }

  protected readonly message: HTMLElement;
}

export function element<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, classes = ''): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  node.className = classes;
  return node;
}

export function button(label: string, accept: boolean, onClick: () => void): HTMLButtonElement {
  const node = element('button', `jp-Dialog-button jp-mod-styled ${accept ? 'jp-mod-accept' : 'jp-mod-reject'}`);
  node.type = 'button';
  node.textContent = label;
  node.addEventListener('click', onClick);
  return node;
}

/** A secret may be granted elsewhere: in the Secrets panel, in another page, by a command. */
const ACCESS_POLL_MS = 2_000;
const CHUNK_BYTES = 4 << 20;
/** A random start keeps pages that answer the same request at a time from writing into each other's files. */
const MAX_FIRST_NUMBER = 1e9;

interface IUpload {
  file: File;
  bar: HTMLProgressElement;
}

/** files.upload: a person picks files, which are sent in chunks to the folder that the kernel has created. */
export class UploadPrompt extends Prompt {
  constructor(
    private readonly _request: Request,
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability
  ) {
    super(uploadMessage(_request));
    this._input.type = 'file';
    this._input.multiple = _request.body['multiple'] !== false;
    this._input.hidden = true;
    this._input.addEventListener('change', () => void this._upload([...(this._input.files ?? [])]));
    this._choose = button(this._input.multiple ? text('Choose files') : text('Choose a file'), true, () => this._input.click());
    const cancel = button(text('Cancel'), false, () => this._cancel());
    this._list.setAttribute('aria-label', text('Files'));
    this.content.append(this._input, this._choose, cancel, this._list);
    this.content.addEventListener('dragover', event => event.preventDefault());
    this.content.addEventListener('drop', event => {
      event.preventDefault();
      event.stopPropagation();
      void this._upload([...(event.dataTransfer?.files ?? [])]);
    });
  }

  override dispose(): void {
    this._abort.abort();
    super.dispose();
  }

  private async _upload(files: File[]): Promise<void> {
    if (files.length === 0 || this._choose.disabled) {
      return;
    }
    this._choose.disabled = true;
    const first = Math.floor(Math.random() * MAX_FIRST_NUMBER);
    const uploads = (this._input.multiple ? files : files.slice(0, 1)).map(file => this._addRow(file));
    try {
      const done = [];
      for (const [index, upload] of uploads.entries()) {
        done.push({ name: upload.file.name, path: await this._sendFile(upload, first + index) });
      }
      this._request.answer({ files: done });
    } catch (reason) {
      if (!this._abort.signal.aborted) {
        this.message.textContent = text('The upload failed: {error}', { error: errorMessage(reason) });
        this._list.replaceChildren();
        this._choose.disabled = false;
      }
    }
  }

  private _addRow(file: File): IUpload {
    const row = element('li', 'ownlab-Ask-file');
    const name = element('span');
    name.textContent = file.name;
    const bar = element('progress');
    bar.max = Math.max(file.size, 1);
    bar.value = 0;
    bar.setAttribute('aria-label', file.name);
    row.append(name, bar);
    this._list.append(row);
    return { file, bar };
  }

  /** Send one file, and return its path. */
  private async _sendFile({ file, bar }: IUpload, number: number): Promise<string> {
    const folder = this._request.stringField('target_dir');
    let offset = 0;
    let path = '';
    do {
      const chunk = file.slice(offset, offset + CHUNK_BYTES);
      path = await this._retryWhenReachable(() => uploadChunk(this._settings, this._request.kernel.id, { folder, number, offset }, chunk));
      offset += chunk.size;
      bar.value = file.size > 0 ? offset : 1;
    } while (offset < file.size);
    return path;
  }

  /** Repeat a request after the server was unreachable; a chunk may be sent twice. */
  private async _retryWhenReachable<Result>(send: () => Promise<Result>): Promise<Result> {
    for (;;) {
      this._abort.signal.throwIfAborted();
      try {
        return await send();
      } catch (reason) {
        if (!(reason instanceof ServerConnection.NetworkError)) {
          throw reason;
        }
        await this._reachability.check();
        await this._reachability.whenReachable;
      }
    }
  }

  private _cancel(): void {
    this._abort.abort();
    this._request.refuse(text('The upload was cancelled in the page.'));
  }

  private readonly _abort = new AbortController();
  private readonly _input = element('input');
  private readonly _choose: HTMLButtonElement;
  private readonly _list = element('ul', 'ownlab-Ask-files');
}

function uploadMessage(request: Request): string {
  const name = request.stringField('filename');
  if (name) {
    return text('This notebook asks for the file {name}.', { name });
  }
  return request.body['multiple'] === false ? text('This notebook asks for a file.') : text('This notebook asks for files.');
}

/** userdata.get: whether this notebook may read a secret. The value is sent to the server's store only, never to the kernel. */
export class SecretPrompt extends Prompt {
  constructor(
    private readonly _request: Request,
    private readonly _settings: ServerConnection.ISettings
  ) {
    super(text('This notebook asks for the secret {name}.', { name: _request.stringField('key') }));
    this._value.type = 'password';
    this._value.autocomplete = 'off';
    this._value.placeholder = text('Value');
    this._value.setAttribute('aria-label', text('Value of {name}', { name: _request.stringField('key') }));
    this._value.hidden = true;
    this._value.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        event.preventDefault();
        void this._grant();
      }
    });
    this._accept = button(text('Grant access'), true, () => void this._grant());
    const refuse = button(text('Refuse'), false, () => _request.answer({ granted: false }));
    this.content.append(this._value, this._accept, refuse);
    void this._loadAccess();
  }

  override dispose(): void {
    window.clearTimeout(this._timer);
    super.dispose();
  }

  /** If there is no such secret, offer to enter it. Answer if the secret is granted elsewhere meanwhile. */
  private async _loadAccess(): Promise<void> {
    try {
      const { there, granted } = await fetchSecretAccess(this._settings, this._request.kernel.id, this._request.stringField('key'));
      if (this.isDisposed) {
        return;
      }
      if (granted) {
        this._request.answer({ granted });
        return;
      }
      if (this._there !== there && this._value.value === '') {
        this._there = there;
        this._offer(there);
      }
    } catch (reason) {
      if (this._there === null) {
        this._showFailure(reason);
      }
    }
    if (!this.isDisposed) {
      this._timer = window.setTimeout(() => void this._loadAccess(), ACCESS_POLL_MS);
    }
  }

  private _offer(there: boolean): void {
    const name = this._request.stringField('key');
    this.message.textContent = there
      ? text('This notebook asks for the secret {name}.', { name })
      : text('This notebook asks for the secret {name}, which does not exist yet. You can enter it here.', { name });
    this._value.hidden = there;
    this._accept.textContent = there ? text('Grant access') : text('Save and grant access');
  }

  private async _grant(): Promise<void> {
    const value = this._value.hidden ? null : this._value.value;
    if (value === '') {
      this._value.focus();
      return;
    }
    this._accept.disabled = true;
    try {
      const { granted } = await grantSecret(this._settings, this._request.kernel.id, this._request.stringField('key'), value);
      this._value.value = '';
      this._request.answer({ granted });
    } catch (reason) {
      this._accept.disabled = false;
      this._showFailure(reason);
    }
  }

  private _showFailure(reason: unknown): void {
    this.message.textContent = text('The secret was not granted: {error}', { error: errorMessage(reason) });
  }

  /** Whether the secret exists; null: not known yet. */
  private _there: boolean | null = null;
  private _timer = 0;
  private readonly _value = element('input', 'jp-mod-styled ownlab-Ask-value');
  private readonly _accept: HTMLButtonElement;
}
