/**
 * Outputs that google.colab moves out of their order: to_header_area, to_footer_area, redirect_to_element.
 *
 * The kernel names the area in the output's metadata; the notebook's model is unchanged. Other front ends show the outputs in
 * order, and so does this page if the element does not exist, for instance after a reload.
 */
import type { CodeCell } from '@jupyterlab/cells';
import { Panel, type Widget } from '@lumino/widgets';

const HEADER = '#output-header';
const FOOTER = '#output-footer';
/** Outputs, and what scripts of a cell show: see RequestBroker.scriptOutput. */
const SHOWN = '.jp-OutputArea-output, .ownlab-Scripted';

/** Move a cell's outputs to their areas. `within` limits the search for elements to the notebook. */
export function arrangeOutputs({ outputArea }: CodeCell, within: HTMLElement): void {
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
      moveOutput(row, findTarget(outputArea.node, area) ?? findTarget(within, area));
    }
  }
}

/** Return the area that the metadata of a message or an output names; '' if it is shown in order. */
export function areaOf(metadata: unknown): string {
  const { area } = (metadata as { ownlab?: { area?: unknown } } | undefined)?.ownlab ?? {};
  return typeof area === 'string' ? area : '';
}

/** Move only the node: for JupyterLab the output stays in place, so that it can be updated and cleared. */
function moveOutput(row: Widget, target: Element | null): void {
  const output = row instanceof Panel ? row.widgets.find(element => 'renderModel' in element) : undefined;
  if (!output || !target || row.hasClass('ownlab-mod-elsewhere') || row.node.contains(target)) {
    return;
  }
  target.append(output.node);
  row.addClass('ownlab-mod-elsewhere');
  output.disposed.connect(() => output.node.remove());
}

/** Search only in outputs: nothing is moved into code, prompts or buttons. */
function findTarget(within: HTMLElement, selector: string): Element | null {
  try {
    const found = [...within.querySelectorAll(selector)];
    return found.find(element => element.closest(SHOWN) && !element.closest('.cm-editor')) ?? null;
  } catch {
    return null; // not a valid selector: the kernel accepts any string
  }
}
