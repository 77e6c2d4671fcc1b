/**
 * JavaScript as Colab runs it: at the top level, so that functions which one output defines are there for the next.
 *
 * On Colab each cell's outputs are a document of their own, and scripts add to its body. Here they are a part of the page:
 * where a script says `document.body`, it gets `element`, a place in its cell.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

type Registry = NotebookPanel['content']['rendermime'];
type Renderer = ReturnType<Registry['createRenderer']>;
type Factory = Parameters<Registry['addFactory']>[0];

const TYPES = ['application/javascript', 'text/javascript'];
/** Before other forms of the same output, as in JupyterLab. */
const RANK = 0;
const BODY = /\bdocument\s*\.\s*(?:body\b|querySelector\(\s*(['"`])#output-(?:area|body)\1\s*\)|getElementById\(\s*(['"`])output-(?:area|body)\2\s*\))/g;
const OWN_ELEMENT = /\b(?:var|let|const|function|class)\s+element\b/;

/** Where scripts find the element of the one that runs. */
const PLACES = '__ownlab_places';
const places: Record<number, HTMLElement> = {};
let count = 0;

/** Whose script runs now, where the page itself runs it. */
export interface ISpeaker {
  panel: NotebookPanel;
  cell: CodeCell | undefined;
}

let speaking: ISpeaker | null = null;

/** Until its first `await`. */
export function speaker(): ISpeaker | null {
  return speaking;
}

/** What a script results in; promises are awaited. `place` is called where it speaks of its output. */
export async function evaluate(script: string, by: ISpeaker, place: () => HTMLElement): Promise<unknown> {
  const code = script.replace(BODY, 'element');
  const number = ++count;
  let begin = '';
  if (/\belement\b/.test(code) && !OWN_ELEMENT.test(code)) {
    Object.assign(window, { [PLACES]: places });
    places[number] = place();
    // Kept by the script's own functions, which may be called long after; nobody else sees it.
    begin = `let element = window.${PLACES}[${number}]; `;
  }
  try {
    return await spoken(by, () => run(begin, code));
  } finally {
    delete places[number];
  }
}

function spoken<Result>(by: ISpeaker, script: () => Result): Result {
  const before = speaking;
  speaking = by;
  try {
    return script();
  } finally {
    speaking = before;
  }
}

/** Indirectly, so that it is global code: what it declares by `var` and `function` stays. */
function run(begin: string, code: string): unknown {
  const global = window.eval.bind(window);
  try {
    return global(begin + code);
  } catch (reason) {
    if (!(reason instanceof SyntaxError) || !/\bawait\b/.test(code)) {
      throw reason;
    }
  }
  try {
    return global(`(async () => { ${begin} return (${code.replace(/[\s;]+$/, '')}\n); })()`);
  } catch {
    return global(`(async () => { ${begin}${code}\n })()`);
  }
}

/** Show the JavaScript of a notebook's outputs in Colab's way where its kernel is in that mode, else in JupyterLab's. */
export function renderScripts(panel: NotebookPanel, inColabMode: () => boolean): void {
  const { rendermime } = panel.content;
  for (const type of TYPES) {
    const usual = rendermime.getFactory(type);
    if (usual) {
      const createRenderer: Factory['createRenderer'] = options => (inColabMode() ? new RenderedScript(type, panel) : usual.createRenderer(options));
      rendermime.addFactory({ safe: false, mimeTypes: [type], createRenderer }, RANK);
    }
  }
}

class RenderedScript extends Widget implements Renderer {
  constructor(
    private readonly _type: string,
    private readonly _panel: NotebookPanel
  ) {
    super();
    this.addClass('jp-RenderedJavaScript');
  }

  async renderModel({ data, trusted }: Parameters<Renderer['renderModel']>[0]): Promise<void> {
    const script = data[this._type];
    if (!trusted || typeof script !== 'string') {
      return;
    }
    // Not awaited: what comes after it in the cell need not wait for a person.
    void evaluate(script, { panel: this._panel, cell: running(this._panel) }, () => this.node).catch(reason => {
      const words = document.createElement('pre');
      words.textContent = `Javascript Error: ${reason instanceof Error ? reason.message : String(reason)}`;
      this.node.append(words);
    });
  }
}

/** The cell that shows something new: an output is not in its cell yet when it is drawn. */
function running({ content }: NotebookPanel): CodeCell | undefined {
  const cells = content.widgets.filter(cell => cell.model.type === 'code') as CodeCell[];
  return cells.find(cell => cell.model.executionState === 'running');
}
