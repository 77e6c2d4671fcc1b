/** Outputs longer than a page scroll in a box (style/cells.css); a button shows them in full. */
import type { CodeCell, ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { PartialJSONObject } from '@lumino/coreutils';
import { text } from '../text';
import type { RunStates } from './runStates';

const EXPANDED = 'ownlab-mod-outputExpanded';
/** The box follows new output if the user has not scrolled farther from its end than this. */
const END_PX = 40;
/** Until the last output of a cell is drawn. */
const LAST_MS = 300;

/** Show a cell's output in full, or in a box again. JupyterLab deletes metadata.scrolled if it is false. */
export function toggleOutputBox(cell: CodeCell): void {
  const expand = !cell.node.classList.contains(EXPANDED);
  const { box_output: _, ...others } = ownMetadata(cell.model);
  cell.outputsScrolled = false; // JupyterLab's own, smaller box
  if (expand) {
    cell.model.setMetadata('ownlab', { ...others, box_output: false });
  } else if (Object.keys(others).length > 0) {
    cell.model.setMetadata('ownlab', others);
  } else {
    cell.model.deleteMetadata('ownlab');
  }
  cell.node.classList.toggle(EXPANDED, expand);
}

/** Called when a cell is rendered. */
export function applyOutputBox(node: Element, model: ICellModel): void {
  node.classList.toggle(EXPANDED, ownMetadata(model).box_output === false);
}

function ownMetadata(model: ICellModel): PartialJSONObject & { box_output?: unknown } {
  const found: unknown = model.getMetadata('ownlab');
  return typeof found === 'object' && found !== null ? (found as PartialJSONObject) : {};
}

/** The boxes of one view of a notebook. */
export class LongOutputs {
  constructor(
    private readonly _panel: NotebookPanel,
    states: RunStates
  ) {
    const { content } = _panel;
    this._button.className = 'ownlab-Button ownlab-OutputButton';
    this._button.type = 'button';
    this._button.addEventListener('click', () => this._onClick());
    content.node.addEventListener('mouseover', event => this._onOver(event), { passive: true });
    states.ticked.connect(this._follow, this);
    _panel.disposed.connect(() => states.ticked.disconnect(this._follow, this));
  }

  /** Offer the button where it would change something. */
  private _onOver({ target }: MouseEvent): void {
    if (!(target instanceof Element) || this._button.contains(target)) {
      return;
    }
    const wrapper = target.closest<HTMLElement>('.jp-CodeCell > .jp-Cell-outputWrapper');
    const area = wrapper?.querySelector<HTMLElement>(':scope > .jp-Cell-outputArea');
    const cell = wrapper?.parentElement;
    const expanded = cell?.classList.contains(EXPANDED) === true;
    if (!wrapper || !area || !(expanded || area.scrollHeight > area.clientHeight + 1)) {
      this._button.remove();
      return;
    }
    this._button.textContent = expanded ? text('Scroll output') : text('Show all output');
    this._button.title = expanded ? text('Show this output in a box of a page’s height') : text('Show this output in full');
    if (this._button.parentElement !== wrapper) {
      wrapper.append(this._button);
    }
  }

  private _onClick(): void {
    const node = this._button.closest('.jp-CodeCell');
    const cell = this._panel.content.widgets.find(widget => widget.node === node);
    this._button.remove();
    if (cell?.model.type === 'code') {
      toggleOutputBox(cell as CodeCell);
    }
  }

  /** Keep the newest output of a running cell visible, as a terminal does. */
  private _follow(states: RunStates, model: ICellModel): void {
    const cell = this._panel.isVisible ? this._panel.content.widgets.find(widget => widget.model === model) : undefined;
    const area = cell?.node.querySelector<HTMLElement>(':scope > .jp-Cell-outputWrapper > .jp-Cell-outputArea');
    if (!area) {
      return;
    }
    if (states.startedAt(model) !== undefined) {
      this._scrollToEnd(area);
    } else if (this._heights.has(area)) {
      window.setTimeout(() => this._scrollToEnd(area), LAST_MS); // the output of a cell that ends at once is read from its start
    }
  }

  private _scrollToEnd(area: HTMLElement): void {
    const height = this._heights.get(area) ?? 0;
    if (area.scrollTop + area.clientHeight >= Math.min(height, area.scrollHeight) - END_PX) {
      area.scrollTop = area.scrollHeight;
    }
    this._heights.set(area, area.scrollHeight);
  }

  private readonly _button = document.createElement('button');
  private readonly _heights = new WeakMap<HTMLElement, number>();
}
