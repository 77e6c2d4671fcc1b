/**
 * Addresses https://localhost:PORT in outputs, with which notebooks for Colab load what their kernel serves.
 *
 * On Colab they reach the kernel's machine. Here nothing serves HTTPS on such a port; the lab's server forwards to it.
 */
import type { NotebookPanel } from '@jupyterlab/notebook';

const ADDRESS = 'https:\\/\\/(?:localhost|127\\.0\\.0\\.1):(\\d{1,5})(?!\\d)';
const IN_ATTRIBUTE = new RegExp(`(\\b(?:src|href|data|action|poster)\\s*=\\s*["']?)${ADDRESS}`, 'gi');
const ANYWHERE = new RegExp(ADDRESS, 'g');
const SCRIPT = /(<script\b[^>]*>)([\s\S]*?)(<\/script\s*>)/gi;

const HTML = 'text/html';
/** JupyterLab's own rank of HTML. */
const HTML_RANK = 50;

/** Replace addresses in JavaScript. `base`: the lab's address, with a slash at its end. */
export function forwardInScript(script: string, base: string): string {
  return script.replace(ANYWHERE, (_, port: string) => forwarded(port, base));
}

/** Replace addresses in attributes and scripts of HTML; text that people read is unchanged. */
export function forwardInHtml(html: string, base: string): string {
  return html
    .replace(SCRIPT, (_, start: string, script: string, end: string) => start + forwardInScript(script, base) + end)
    .replace(IN_ATTRIBUTE, (_, before: string, port: string) => before + forwarded(port, base));
}

function forwarded(port: string, base: string): string {
  return `${base}proxy/${port}`;
}

/** Render HTML outputs of kernels in Colab mode with forwarded addresses. The notebook's model is unchanged. */
export function forwardAddresses({ content: { rendermime } }: NotebookPanel, inColabMode: () => boolean, base: string): void {
  const factory = rendermime.getFactory(HTML);
  if (!factory) {
    return;
  }
  const createRenderer: typeof factory.createRenderer = options => {
    const renderer = factory.createRenderer(options);
    if (inColabMode()) {
      const render = renderer.renderModel.bind(renderer);
      renderer.renderModel = model => {
        const { data, metadata, trusted } = model;
        const html = data[HTML];
        const source = Array.isArray(html) ? html.join('') : String(html ?? '');
        const changed = forwardInHtml(source, base);
        return render(changed === source ? model : rendermime.createModel({ data: { ...data, [HTML]: changed }, metadata, trusted }));
      };
    }
    return renderer;
  };
  rendermime.addFactory({ ...factory, mimeTypes: [HTML], createRenderer }, HTML_RANK);
}
