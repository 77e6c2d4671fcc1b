/** Buttons between two cells that insert a cell there; they appear where the pointer is. */
import { type Notebook, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { text } from '../text';

/** Distance from the border between two cells at which the buttons appear. */
const REACH_PX = 9;

/** Insert a cell below another one (-1: at the top), and start to edit it. */
export function insertCell(notebook: Notebook, below: number, type: 'code' | 'markdown'): void {
  if (!notebook.model || notebook.model.readOnly) {
    return;
  }
  notebook.deselectAll();
  notebook.activeCellIndex = Math.max(0, below);
  if (below < 0) {
    NotebookActions.insertAbove(notebook);
  } else {
    NotebookActions.insertBelow(notebook);
  }
  if (notebook.activeCell?.model.type !== type) {
    NotebookActions.changeCellType(notebook, type);
  }
  notebook.mode = 'edit';
}

/** One bar for each view of a notebook. It moves; cells have no listeners. */
export class InsertBar {
  constructor(private readonly _panel: NotebookPanel) {
    this._node.className = 'ownlab-InsertBar';
    this._node.setAttribute('aria-hidden', 'true'); // the toolbar has the same buttons
    this._node.append(this._button(text('+ Code'), 'code'), this._button(text('+ Text'), 'markdown'));
    const { content } = _panel;
    content.node.addEventListener('mousemove', event => this._onMove(event), { passive: true });
    content.node.addEventListener('mouseleave', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && this._node.contains(relatedTarget))) {
        this._hide();
      }
    });
    content.node.addEventListener('scroll', () => this._hide(), { passive: true, capture: true });
    content.node.addEventListener('keydown', () => this._hide(), { passive: true, capture: true });
    _panel.node.append(this._node);
  }

  private _onMove({ target, clientY, buttons }: MouseEvent): void {
    const cell = target instanceof Element && buttons === 0 ? target.closest<HTMLElement>('.jp-Notebook-cell') : null;
    if (!cell || this._panel.content.model?.readOnly !== false) {
      this._hide();
      return;
    }
    const { top, bottom, left, width } = cell.getBoundingClientRect();
    const isBelow = bottom - clientY <= REACH_PX;
    if (!isBelow && clientY - top > REACH_PX) {
      this._hide();
      return;
    }
    const index = this._panel.content.widgets.findIndex(({ node }) => node === cell);
    this._show(isBelow ? index : index - 1, isBelow ? bottom : top, left + width / 2);
  }

  private _show(below: number, y: number, x: number): void {
    this._below = below;
    const frame = this._panel.node.getBoundingClientRect();
    this._node.style.transform = `translate(${Math.round(x - frame.left)}px, ${Math.round(y - frame.top)}px) translate(-50%, -50%)`;
    this._node.classList.add('ownlab-mod-shown');
  }

  private _hide(): void {
    this._node.classList.remove('ownlab-mod-shown');
  }

  private _button(label: string, type: 'code' | 'markdown'): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.tabIndex = -1;
    button.textContent = label;
    button.title = type === 'code' ? text('Insert a code cell here') : text('Insert a text cell here');
    button.addEventListener('click', () => {
      this._hide();
      insertCell(this._panel.content, this._below, type);
    });
    return button;
  }

  private readonly _node = document.createElement('div');
  private _below = 0;
}
