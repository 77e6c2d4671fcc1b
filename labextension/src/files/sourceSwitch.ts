/** The row of tabs in JupyterLab's file browser: the lab's folder, the runtime's files, the drive. */
import type { FileBrowser } from '@jupyterlab/filebrowser';
import { PanelLayout, Widget } from '@lumino/widgets';
import { text } from '../text';
import type { SourcePanel } from './sourcePanel';

interface ITab {
  button: HTMLButtonElement;
  /** null: the lab's folder, which JupyterLab shows itself. */
  panel: SourcePanel | null;
}

export class SourceSwitch extends Widget {
  constructor(private readonly _browser: FileBrowser) {
    super();
    this.addClass('ownlab-Files-switch');
    this.node.setAttribute('role', 'tablist');
    this.node.setAttribute('aria-label', text('Files'));
    this.addTab(text('Lab'), text('The lab’s folder'), null);
    this.select(null);
  }

  addTab(label: string, title: string, panel: SourcePanel | null): void {
    const button = this.node.appendChild(document.createElement('button'));
    button.className = 'ownlab-Files-tab';
    button.textContent = label;
    button.title = title;
    button.setAttribute('role', 'tab');
    button.setAttribute('aria-selected', 'false');
    button.onclick = () => this.select(panel);
    this._tabs.push({ button, panel });
    if (panel) {
      panel.hide();
      (this._browser.layout as PanelLayout).addWidget(panel);
    }
  }

  /** Show the files of a panel, or of the lab's folder. */
  select(shown: SourcePanel | null): void {
    this._tabs.forEach(({ button, panel }) => {
      button.setAttribute('aria-selected', String(panel === shown));
      panel?.setHidden(panel !== shown);
    });
    this._browser.toolbar.setHidden(shown !== null);
    // Covered, not hidden: a list without a width gives its columns impossible ones, and keeps them.
    this._browser.content.node.classList.toggle('ownlab-mod-covered', shown !== null);
  }

  private readonly _tabs: ITab[] = [];
}
