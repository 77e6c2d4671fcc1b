/** A file browser of its own for the drive, in the side bar. */
import { ToolbarButton } from '@jupyterlab/apputils';
import { type FileBrowser, type IFileBrowserFactory, Uploader } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { BoxPanel, Widget } from '@lumino/widgets';
import { driveIcon } from '../icons';
import { MINE, type PersonsDrive } from './personalDrive';

/** It has a file browser while it is seen: JupyterLab makes new notebooks in the folder of the newest one, seen or not. */
export class DrivePanel extends BoxPanel {
  constructor(
    private readonly _factory: IFileBrowserFactory,
    private readonly _drive: PersonsDrive
  ) {
    super({ direction: 'top-to-bottom', spacing: 0 });
    this.id = 'ownlab-drive';
    this.title.icon = driveIcon;
    this.title.caption = 'Drive';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Drive');
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    if (this._browser) {
      return;
    }
    const browser = this._factory.createFileBrowser(`${this.id}-browser`, { driveName: this._drive.name });
    browser.header.addWidget(new DriveHead(this._drive));
    addTools(browser);
    this.addWidget(browser);
    this._browser = browser;
    void enter(browser);
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    if (this._browser && [...this._browser.model.uploads()].length === 0) {
      this._browser.dispose();
      this._browser = null;
    }
  }

  private _browser: FileBrowser | null = null;
}

/** Where it was left, or at the top of what is the person's. */
async function enter({ model }: FileBrowser): Promise<void> {
  await model.restored;
  if (!model.isDisposed && model.path === `${model.driveName}:`) {
    await model.cd(MINE);
  }
}

function addTools(browser: FileBrowser): void {
  const folder = new ToolbarButton({ icon: newFolderIcon, tooltip: 'New folder', onClick: () => void browser.createNewDirectory() });
  const refresh = new ToolbarButton({ icon: refreshIcon, tooltip: 'Refresh the file list', onClick: () => void browser.model.refresh() });
  browser.toolbar.addItem('new-folder', folder);
  browser.toolbar.addItem('uploader', new Uploader({ model: browser.model }));
  browser.toolbar.addItem('refresh', refresh);
}

/** What this is; and why there is nothing, where that has a reason. */
class DriveHead extends Widget {
  constructor(private readonly _drive: PersonsDrive) {
    super();
    this.addClass('ownlab-Drive-head');
    const title = document.createElement('h2');
    title.className = 'ownlab-Panel-title';
    title.textContent = 'Drive';
    this._words.setAttribute('role', 'status');
    this.node.append(title, this._words);
    _drive.troubleChanged.connect(this._say, this);
    this._say();
  }

  private _say(): void {
    const { trouble } = this._drive;
    this._words.textContent = trouble || 'Notebooks have it as MyDrive after drive.mount. It stays when runtimes end.';
    this._words.className = trouble ? 'ownlab-Notice' : 'ownlab-Empty';
  }

  private readonly _words = document.createElement('p');
}
