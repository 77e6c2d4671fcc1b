/** files.upload: a person picks files, which go in pieces into the folder that the kernel has made for them. */
import { ServerConnection } from '@jupyterlab/services';
import { sendPiece } from '../api';
import type { Reachability } from '../reachability';
import { Box, button, element } from './box';
import type { Request } from './request';

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
