/**
 * Runs JavaScript as Colab does: as global code, so that later outputs can use functions that one output defines.
 *
 * On Colab the outputs of each cell are a document of their own, and scripts append to its body. Here they are part of the
 * page: in a script, `document.body` is replaced by `element`, an element in the script's cell.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';
import { errorMessage } from '../failures';
import { text } from '../text';
import { forwardInScript } from './localAddresses';

type Registry = NotebookPanel['content']['rendermime'];
type Renderer = ReturnType<Registry['createRenderer']>;
type Factory = Parameters<Registry['addFactory']>[0];

const TYPES = ['application/javascript', 'text/javascript'];
/** Before other types of the same output, as in JupyterLab. */
const RANK = 0;
const BODY = /\bdocument\s*\.\s*(?:body\b|querySelector\(\s*(['"`])#output-(?:area|body)\1\s*\)|getElementById\(\s*(['"`])output-(?:area|body)\2\s*\))/g;
const OWN_ELEMENT = /\b(?:var|let|const|function|class)\s+element\b/;

/** The global variable in which a script finds its element. */
const ELEMENTS = '__ownlab_elements';
const elements: Record<number, HTMLElement> = {};
let count = 0;

/** The notebook and cell of the running script, if the page itself runs it. */
export interface IScriptOrigin {
  panel: NotebookPanel;
  cell: CodeCell | undefined;
}

let current: IScriptOrigin | null = null;

/** Return the origin of the running script, until its first `await`. */
export function currentOrigin(): IScriptOrigin | null {
  return current;
}

/** Return the result of a script; promises are awaited. `getElement` is called if the script uses its output element. */
export async function evaluate(script: string, origin: IScriptOrigin, getElement: () => HTMLElement): Promise<unknown> {
  const code = script.replace(BODY, 'element');
  const number = ++count;
  let prologue = '';
  if (/\belement\b/.test(code) && !OWN_ELEMENT.test(code)) {
    Object.assign(window, { [ELEMENTS]: elements });
    elements[number] = getElement();
    // A local variable of the script: its functions keep it, and no other script sees it.
    prologue = `let element = window.${ELEMENTS}[${number}]; `;
  }
  try {
    return await withOrigin(origin, () => run(prologue, code));
  } finally {
    delete elements[number];
  }
}

function withOrigin<Result>(origin: IScriptOrigin, script: () => Result): Result {
  const previous = current;
  current = origin;
  try {
    return script();
  } finally {
    current = previous;
  }
}

/** Use indirect eval, so that the code is global: what it declares with `var` and `function` persists. */
function run(prologue: string, code: string): unknown {
  const global = window.eval.bind(window);
  try {
    return global(prologue + code);
  } catch (reason) {
    if (!(reason instanceof SyntaxError) || !/\bawait\b/.test(code)) {
      throw reason;
    }
  }
  try {
    return global(`(async () => { ${prologue} return (${code.replace(/[\s;]+$/, '')}\n); })()`);
  } catch {
    return global(`(async () => { ${prologue}${code}\n })()`);
  }
}

/** Render the JavaScript of a notebook's outputs like Colab if its kernel is in Colab mode, otherwise like JupyterLab. */
export function renderScripts(panel: NotebookPanel, inColabMode: () => boolean, base: string): void {
  const { rendermime } = panel.content;
  for (const type of TYPES) {
    const defaultFactory = rendermime.getFactory(type);
    if (defaultFactory) {
      const createRenderer: Factory['createRenderer'] = options => (inColabMode() ? new RenderedScript(type, panel, base) : defaultFactory.createRenderer(options));
      rendermime.addFactory({ safe: false, mimeTypes: [type], createRenderer }, RANK);
    }
  }
}

class RenderedScript extends Widget implements Renderer {
  constructor(
    private readonly _type: string,
    private readonly _panel: NotebookPanel,
    private readonly _base: string
  ) {
    super();
    this.addClass('jp-RenderedJavaScript');
  }

  async renderModel({ data, trusted }: Parameters<Renderer['renderModel']>[0]): Promise<void> {
    const script = data[this._type];
    if (!trusted || typeof script !== 'string') {
      return;
    }
    // Not awaited: later outputs of the cell need not wait for a script that waits for a person.
    void evaluate(forwardInScript(script, this._base), { panel: this._panel, cell: running(this._panel) }, () => this.node).catch(reason => {
      const message = document.createElement('pre');
      message.textContent = text('JavaScript error: {error}', { error: errorMessage(reason) });
      this.node.append(message);
    });
  }
}

/** Return the running cell: an output is not in its cell yet when it is rendered. */
function running({ content }: NotebookPanel): CodeCell | undefined {
  const cells = content.widgets.filter(cell => cell.model.type === 'code') as CodeCell[];
  return cells.find(cell => cell.model.executionState === 'running');
}
