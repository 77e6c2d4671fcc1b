/**
 * JavaScript as Colab runs it: at the top level, so that functions which one output defines are there for the next.
 *
 * On Colab each cell's outputs are a document of their own, and scripts add to its body. Here they are a part of the page:
 * where a script says `document.body`, it gets `element`, a place in its cell.
 */
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

/** What a script results in; promises are awaited. `place` is called where it speaks of its output. */
export async function evaluate(script: string, place: () => HTMLElement): Promise<unknown> {
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
    return await run(begin, code);
  } finally {
    delete places[number];
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
export function renderScripts(rendermime: Registry, inColabMode: () => boolean): void {
  for (const type of TYPES) {
    const usual = rendermime.getFactory(type);
    if (usual) {
      const createRenderer: Factory['createRenderer'] = options => (inColabMode() ? new RenderedScript(type) : usual.createRenderer(options));
      rendermime.addFactory({ safe: false, mimeTypes: [type], createRenderer }, RANK);
    }
  }
}

class RenderedScript extends Widget implements Renderer {
  constructor(private readonly _type: string) {
    super();
    this.addClass('jp-RenderedJavaScript');
  }

  async renderModel({ data, trusted }: Parameters<Renderer['renderModel']>[0]): Promise<void> {
    const script = data[this._type];
    if (!trusted || typeof script !== 'string') {
      return;
    }
    // Not awaited: what comes after it in the cell need not wait for a person.
    void evaluate(script, () => this.node).catch(reason => {
      const words = document.createElement('pre');
      words.textContent = `Javascript Error: ${reason instanceof Error ? reason.message : String(reason)}`;
      this.node.append(words);
    });
  }
}
