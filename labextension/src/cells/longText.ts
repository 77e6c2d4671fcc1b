/**
 * Long printed text: its end is drawn, and the rest when somebody asks for it.
 *
 * JupyterLab draws the whole text whenever a line is added, so that the time grows with the square of the length.
 */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { plural, text } from '../text';

const MIME_TYPES = ['application/vnd.jupyter.stdout', 'application/vnd.jupyter.stderr'];
/** Before JupyterLab's own renderer. */
const RANK = 50;
/** About so many characters are drawn, up to twice as many. The beginning moves by as many at a time: JupyterLab can then add to what it has drawn. */
const DRAWN = 200_000;
/** Drawing takes at most this share of the time. */
const SHARE = 0.2;

type Registry = NotebookPanel['content']['rendermime'];
type Renderer = ReturnType<Registry['createRenderer']>;
type Model = Parameters<Renderer['renderModel']>[0];

/** Draw the printed text of a notebook so. */
export function drawLongText(rendermime: Registry): void {
  for (const mimeType of MIME_TYPES) {
    const factory = rendermime.getFactory(mimeType);
    if (factory) {
      const createRenderer: typeof factory.createRenderer = options => {
        const renderer = factory.createRenderer(options);
        const drawing = new TextDrawing(renderer, mimeType, rendermime);
        renderer.renderModel = model => drawing.draw(model);
        return renderer;
      };
      rendermime.addFactory({ ...factory, mimeTypes: [mimeType], createRenderer }, RANK);
    }
  }
}

/** Return where the drawn end of a text begins: at a line, if there is one. */
export function beginningOfEnd(source: string): number {
  const hidden = Math.floor(source.length / DRAWN) - 1;
  if (hidden <= 0) {
    return 0;
  }
  return source.indexOf('\n', hidden * DRAWN - 1) + 1 || hidden * DRAWN;
}

class TextDrawing {
  constructor(
    private readonly _renderer: Renderer,
    private readonly _mimeType: string,
    private readonly _rendermime: Registry
  ) {
    this._render = _renderer.renderModel.bind(_renderer);
  }

  /** Draw a text now, or a little later if it was drawn just now. */
  draw(model: Model): Promise<void> {
    this._model = model;
    if (this._timer !== 0) {
      return Promise.resolve();
    }
    const wait = this._notBefore - performance.now();
    if (wait <= 0) {
      return this._draw();
    }
    this._timer = window.setTimeout(() => {
      this._timer = 0;
      void this._draw();
    }, wait);
    return Promise.resolve();
  }

  private async _draw(): Promise<void> {
    const model = this._model;
    if (!model || this._renderer.isDisposed) {
      return;
    }
    const started = performance.now();
    const source = String(model.data[this._mimeType] ?? '');
    const start = this._showsAll ? 0 : beginningOfEnd(source);
    if (start === 0) {
      await this._render(model);
    } else {
      const { metadata, trusted } = model;
      await this._render(this._rendermime.createModel({ data: { [this._mimeType]: source.slice(start) }, metadata, trusted }));
      this._renderer.node.prepend(this._note(source, start));
    }
    const ended = performance.now();
    this._notBefore = ended + (ended - started) * (1 / SHARE - 1);
  }

  private _note(source: string, start: number): HTMLElement {
    const note = document.createElement('div');
    note.className = 'ownlab-LongText';
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'ownlab-Button';
    button.textContent = text('Show all');
    button.title = text('Draw the whole text. That may take a while.');
    button.addEventListener('click', () => {
      this._showsAll = true;
      void this._draw();
    });
    note.append(plural(this._countLines(source, start), '1 line before this is saved, but not drawn.', '{n} lines before this are saved, but not drawn.'), button);
    return note;
  }

  /** Count the lines before a position; text that was counted before does not change as long as it grows. */
  private _countLines(source: string, end: number): number {
    if (end < this._counted.end) {
      this._counted = { end: 0, lines: 0 };
    }
    let { end: at, lines } = this._counted;
    for (at = source.indexOf('\n', at); at >= 0 && at < end; at = source.indexOf('\n', at + 1)) {
      lines += 1;
    }
    this._counted = { end, lines };
    return Math.max(1, lines);
  }

  private readonly _render: Renderer['renderModel'];
  private _model: Model | null = null;
  private _timer = 0;
  private _notBefore = 0;
  private _showsAll = false;
  private _counted = { end: 0, lines: 0 };
}
