/** The side panel with a file browser for the user's drive. */
import { ToolbarButton } from '@jupyterlab/apputils';
import { type FileBrowser, type IFileBrowserFactory, Uploader } from '@jupyterlab/filebrowser';
import { newFolderIcon, refreshIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { BoxPanel, Widget } from '@lumino/widgets';
import { driveIcon } from '../icons';
import { text } from '../text';
import { MY_DRIVE, type PersonalDrive } from './personalDrive';

/** Has a file browser only while visible: JupyterLab creates new notebooks in the folder of the newest file browser. */
export class DrivePanel extends BoxPanel {
  constructor(
    private readonly _factory: IFileBrowserFactory,
    private readonly _drive: PersonalDrive
  ) {
    super({ direction: 'top-to-bottom', spacing: 0 });
    this.id = 'ownlab-drive';
    this.title.icon = driveIcon;
    this.title.caption = text('Drive');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', text('Drive'));
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    if (this._browser) {
      return;
    }
    const browser = this._factory.createFileBrowser(`${this.id}-browser`, { driveName: this._drive.name });
    browser.header.addWidget(new DriveHeader(this._drive));
    addTools(browser);
    this.addWidget(browser);
    this._browser = browser;
    void openMyDrive(browser);
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

/** Go to MyDrive, unless the file browser has restored another folder. */
async function openMyDrive({ model }: FileBrowser): Promise<void> {
  await model.restored;
  if (!model.isDisposed && model.path === `${model.driveName}:`) {
    await model.cd(MY_DRIVE);
  }
}

function addTools(browser: FileBrowser): void {
  const folder = new ToolbarButton({ icon: newFolderIcon, tooltip: text('New folder'), onClick: () => void browser.createNewDirectory() });
  const refresh = new ToolbarButton({ icon: refreshIcon, tooltip: text('Refresh the file list'), onClick: () => void browser.model.refresh() });
  browser.toolbar.addItem('new-folder', folder);
  browser.toolbar.addItem('uploader', new Uploader({ model: browser.model }));
  browser.toolbar.addItem('refresh', refresh);
}

/** What the drive is, or why it is not available. */
class DriveHeader extends Widget {
  constructor(private readonly _drive: PersonalDrive) {
    super();
    this.addClass('ownlab-Drive-head');
    const title = document.createElement('h2');
    title.className = 'ownlab-Panel-title';
    title.textContent = text('Drive');
    this._status.setAttribute('role', 'status');
    this.node.append(title, this._status);
    _drive.failureChanged.connect(this._showStatus, this);
    this._showStatus();
  }

  private _showStatus(): void {
    const { failure } = this._drive;
    this._status.textContent = failure || text('After drive.mount, notebooks have this folder as MyDrive. It is kept when runtimes end.');
    this._status.className = failure ? 'ownlab-Notice' : 'ownlab-Empty';
  }

  private readonly _status = document.createElement('p');
}
