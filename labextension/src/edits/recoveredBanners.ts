/** A banner in each cell that shows the code that ran, because its file had another text above the same output. */
import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { type PanelLayout, Widget } from '@lumino/widgets';
import type { Recovered } from '../records';
import { text } from '../text';

export interface IBannerActions {
  /** Compare both versions. */
  show(recovered: Recovered): void;
  /** Keep the code that ran. */
  keep(recovered: Recovered): void;
}

export class RecoveredBanners {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _actions: IBannerActions
  ) {}

  /** Show banners in exactly these cells. Call it again when cells were drawn anew. */
  update(recovered: readonly Recovered[]): void {
    const wanted = new Map(recovered.map(each => [each.cell, each]));
    for (const [id, banner] of this._banners) {
      if (!wanted.has(id) || banner.isDisposed) {
        banner.dispose();
        this._banners.delete(id);
      }
    }
    for (const cell of this._panel.isDisposed || wanted.size === 0 ? [] : this._panel.content.widgets) {
      const found = wanted.get(cell.model.id);
      if (found && !this._banners.has(found.cell)) {
        const banner = new Banner(found, this._actions);
        this._banners.set(found.cell, banner);
        void insert(cell, banner);
      }
    }
  }

  private readonly _banners = new Map<string, Banner>();
}

/** A cell that was not rendered yet has no input area. */
async function insert(cell: Cell, banner: Banner): Promise<void> {
  await cell.ready;
  if (!cell.isDisposed && !banner.isDisposed) {
    (cell.layout as PanelLayout).insertWidget(0, banner);
  }
}

class Banner extends Widget {
  constructor(recovered: Recovered, { show, keep }: IBannerActions) {
    super();
    this.addClass('ownlab-Recovered');
    this.node.setAttribute('role', 'note');
    const message = document.createElement('span');
    message.textContent = text('This cell shows the code that ran. The notebook file had another version.');
    this.node.append(
      message,
      button(text('Show the other version'), () => show(recovered)),
      button(text('Keep this one'), () => keep(recovered))
    );
  }
}

function button(label: string, onClick: () => void): HTMLButtonElement {
  const node = document.createElement('button');
  node.className = 'jp-mod-styled';
  node.textContent = label;
  node.addEventListener('click', onClick);
  // Otherwise the notebook takes the click as one on the cell.
  node.addEventListener('mousedown', event => event.stopPropagation());
  return node;
}
