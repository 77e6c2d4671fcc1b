/**
 * Outputs that stand elsewhere than in their turn: to_header_area, to_footer_area, redirect_to_element.
 *
 * The kernel says it in an output's metadata. The notebook's model is what it would be anyway: whoever knows nothing of this
 * shows them in their turn, and so does this page where there is no such element, as after a reload.
 */
import type { CodeCell } from '@jupyterlab/cells';
import { Panel, type Widget } from '@lumino/widgets';

const HEADER = '#output-header';
const FOOTER = '#output-footer';
/** Outputs, and what scripts of a cell show: see ColabDesk.placeIn. */
const SHOWN = '.jp-OutputArea-output, .ownlab-Scripted';

/** Put a cell's outputs where they belong. `within`: elements elsewhere in the page are none of the notebook's. */
export function arrange({ outputArea }: CodeCell, within: HTMLElement): void {
  const { model, widgets } = outputArea;
  for (let index = 0; index < model.length; index++) {
    const area = areaOf(model.get(index).metadata);
    const row = widgets[index];
    if (!area || !row) {
      continue;
    }
    row.toggleClass('ownlab-mod-header', area === HEADER);
    row.toggleClass('ownlab-mod-footer', area === FOOTER);
    if (area !== HEADER && area !== FOOTER) {
      move(row, find(outputArea.node, area) ?? find(within, area));
    }
  }
}

/** Where a message, or an output, says that it wants to be; '' for its turn. */
export function areaOf(metadata: unknown): string {
  const { area } = ((metadata as { ownlab?: { area?: unknown } } | undefined)?.ownlab ?? {}) as { area?: unknown };
  return typeof area === 'string' ? area : '';
}

/** Its node alone: to JupyterLab the output is still where it was, so that it can be updated and cleared. */
function move(row: Widget, target: Element | null): void {
  const output = row instanceof Panel ? row.widgets.find(one => 'renderModel' in one) : undefined;
  if (!output || !target || row.hasClass('ownlab-mod-elsewhere') || row.node.contains(target)) {
    return;
  }
  target.append(output.node);
  row.addClass('ownlab-mod-elsewhere');
  output.disposed.connect(() => output.node.remove());
}

/** Only in what cells show: nothing is put into code, prompts or buttons. */
function find(within: HTMLElement, selector: string): Element | null {
  try {
    const found = [...within.querySelectorAll(selector)];
    return found.find(one => one.closest(SHOWN) && !one.closest('.cm-editor')) ?? null;
  } catch {
    return null; // no selector: the kernel takes any text
  }
}
