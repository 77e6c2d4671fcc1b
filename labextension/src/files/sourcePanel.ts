/** The files of a drive inside JupyterLab's file browser, in place of the lab's folder. */
import { ToolbarButton } from '@jupyterlab/apputils';
import { type FileBrowser, type IFileBrowserFactory, Uploader } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';
import { text } from '../text';

/** What a panel shows: a drive, and the folder that it opens first; without a drive only the message. */
export interface ISource {
  driveName: string;
  folder: string;
  message: string;
  warn?: boolean;
}

/** Has a file browser only while visible: JupyterLab creates new notebooks in the folder of the newest file browser. */
export class SourcePanel extends Panel {
  constructor(
    id: string,
    label: string,
    private readonly _factory: IFileBrowserFactory,
    private readonly _source: () => ISource,
    private readonly _tool: (() => Widget) | null = null
  ) {
    super();
    this.id = id;
    this.addClass('ownlab-Files-source');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', label);
    this._status.node.setAttribute('role', 'status');
    this.addWidget(this._status);
  }

  /** Called when the source may have changed. */
  refresh(): void {
    if (!this.isVisible) {
      return;
    }
    const { driveName, folder, message, warn } = this._source();
    this._status.node.textContent = message;
    this._status.node.className = warn ? 'lm-Widget ownlab-Files-status ownlab-Notice' : 'lm-Widget ownlab-Files-status';
    if (this._browser?.model.driveName !== driveName) {
      this._close();
      if (driveName) {
        this._open(driveName, folder);
      }
    }
  }

  /** Read the folder again. */
  async reload(): Promise<void> {
    await this._browser?.model.refresh();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.refresh();
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    if (this._browser && [...this._browser.model.uploads()].length === 0) {
      this._close();
    }
  }

  private _open(driveName: string, folder: string): void {
    const browser = this._factory.createFileBrowser(`${this.id}-${driveName}`, { driveName });
    browser.showFileCheckboxes = false; // as JupyterLab's settings have it for the lab's folder
    addTools(browser);
    if (this._tool) {
      browser.toolbar.addItem('tool', this._tool());
    }
    this.addWidget(browser);
    this._browser = browser;
    if (folder) {
      void openFolder(browser, folder);
    }
  }

  private _close(): void {
    this._browser?.dispose();
    this._browser = null;
  }

  private readonly _status = new Widget({ node: document.createElement('p') });
  private _browser: FileBrowser | null = null;
}

/** Go to a folder, unless the file browser has restored another one. */
async function openFolder({ model }: FileBrowser, folder: string): Promise<void> {
  await model.restored;
  if (!model.isDisposed && model.path === `${model.driveName}:`) {
    await model.cd(folder);
  }
}

function addTools(browser: FileBrowser): void {
  const folder = new ToolbarButton({ icon: newFolderIcon, tooltip: text('New folder'), onClick: () => void browser.createNewDirectory() });
  const refresh = new ToolbarButton({ icon: refreshIcon, tooltip: text('Refresh the file list'), onClick: () => void browser.model.refresh() });
  browser.toolbar.addItem('new-folder', folder);
  browser.toolbar.addItem('uploader', new Uploader({ model: browser.model }));
  browser.toolbar.addItem('refresh', refresh);
}
