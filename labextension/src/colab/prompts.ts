/** A box in a cell's outputs, where a person answers what the kernel waits for. It is no output: it is saved nowhere. */
import type { CodeCell } from '@jupyterlab/cells';
import { ServerConnection } from '@jupyterlab/services';
import { PanelLayout, Widget } from '@lumino/widgets';
import { fetchAccess, grantSecret, sendPiece } from '../api';
import type { Reachability } from '../session/reachability';
import type { Request } from './request';

/** A row at the end of a cell's outputs, beside an empty prompt. */
export class Row extends Widget {
  constructor(readonly content: HTMLElement) {
    super();
    this.addClass('jp-OutputArea-child');
    this.addClass('ownlab-Row');
    const prompt = element('div', 'jp-OutputPrompt jp-OutputArea-prompt');
    this.node.append(prompt, content);
  }

  /** Show it in a cell; a cell without outputs is given room for it. */
  showIn({ outputArea }: CodeCell): void {
    (outputArea.layout as PanelLayout).addWidget(this);
    outputArea.outputLengthChanged.emit(Math.max(outputArea.model.length, 1));
    this.disposed.connect(() => {
      if (!outputArea.isDisposed) {
        outputArea.outputLengthChanged.emit(outputArea.model.length);
      }
    });
  }
}

/** A row with a question in words, and what answers it. */
export class Box extends Row {
  constructor(question: string) {
    super(element('div', 'ownlab-Ask'));
    this.content.setAttribute('role', 'group');
    this.content.setAttribute('aria-label', question);
    this.content.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single keys are not for what is typed here
    this.words = element('p', 'ownlab-Ask-words');
    this.words.textContent = question;
    this.words.setAttribute('role', 'status');
    this.content.append(this.words);
  }

  protected readonly words: HTMLElement;
}

export function element<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, classes = ''): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  made.className = classes;
  return made;
}

export function button(label: string, accept: boolean, onClick: () => void): HTMLButtonElement {
  const made = element('button', `jp-Dialog-button jp-mod-styled ${accept ? 'jp-mod-accept' : 'jp-mod-reject'}`);
  made.type = 'button';
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}

const PIECE = 4 << 20;
/** Pages that upload for one question at a time must not write into each other's files. */
const FIRST_NUMBERS = 1e9;

interface IPicked {
  file: File;
  bar: HTMLProgressElement;
}

export class UploadBox extends Box {
  constructor(
    private readonly _request: Request,
    private readonly _settings: ServerConnection.ISettings,
    private readonly _reachability: Reachability
  ) {
    super(questionOf(_request));
    this._input.type = 'file';
    this._input.multiple = _request.body['multiple'] !== false;
    this._input.hidden = true;
    this._input.addEventListener('change', () => void this._take([...(this._input.files ?? [])]));
    this._choose = button(this._input.multiple ? 'Choose files' : 'Choose a file', true, () => this._input.click());
    const cancel = button('Cancel', false, () => this._cancel());
    this._list.setAttribute('aria-label', 'Files');
    this.content.append(this._input, this._choose, cancel, this._list);
    this.content.addEventListener('dragover', event => event.preventDefault());
    this.content.addEventListener('drop', event => {
      event.preventDefault();
      event.stopPropagation();
      void this._take([...(event.dataTransfer?.files ?? [])]);
    });
  }

  override dispose(): void {
    this._abort.abort();
    super.dispose();
  }

  private async _take(files: File[]): Promise<void> {
    if (files.length === 0 || this._choose.disabled) {
      return;
    }
    this._choose.disabled = true;
    const first = Math.floor(Math.random() * FIRST_NUMBERS);
    const picked = (this._input.multiple ? files : files.slice(0, 1)).map(file => this._row(file));
    try {
      const done = [];
      for (const [index, one] of picked.entries()) {
        done.push({ name: one.file.name, path: await this._send(one, first + index) });
      }
      this._request.answer({ files: done });
    } catch (reason) {
      if (!this._abort.signal.aborted) {
        this.words.textContent = `The upload failed: ${reason instanceof Error ? reason.message : String(reason)}`;
        this._list.replaceChildren();
        this._choose.disabled = false;
      }
    }
  }

  private _row(file: File): IPicked {
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

  /** Send one file; its path. */
  private async _send({ file, bar }: IPicked, number: number): Promise<string> {
    const folder = this._request.text('target_dir');
    let offset = 0;
    let path = '';
    do {
      const piece = file.slice(offset, offset + PIECE);
      path = await this._patiently(() => sendPiece(this._settings, this._request.kernel.id, { folder, number, offset }, piece));
      offset += piece.size;
      bar.value = file.size > 0 ? offset : 1;
    } while (offset < file.size);
    return path;
  }

  /** A server that is away comes back; a piece may be sent again. */
  private async _patiently<Found>(send: () => Promise<Found>): Promise<Found> {
    for (;;) {
      this._abort.signal.throwIfAborted();
      try {
        return await send();
      } catch (reason) {
        if (!(reason instanceof ServerConnection.NetworkError)) {
          throw reason;
        }
        await this._reachability.check();
        await this._reachability.back;
      }
    }
  }

  private _cancel(): void {
    this._abort.abort();
    this._request.refuse('the upload was cancelled in the page');
  }

  private readonly _abort = new AbortController();
  private readonly _input = element('input');
  private readonly _choose: HTMLButtonElement;
  private readonly _list = element('ul', 'ownlab-Ask-files');
}

function questionOf(request: Request): string {
  const name = request.text('filename');
  if (name) {
    return `This notebook asks for the file ${name}.`;
  }
  return request.body['multiple'] === false ? 'This notebook asks for a file.' : 'This notebook asks for files.';
}

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
