/**
 * Widgets and renderers that were installed after the page was loaded: they work after a reload.
 *
 * The server serves them from the environments of the kernels. JupyterLab loads extensions only when a page is loaded.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage, ServerConnection } from '@jupyterlab/services';
import { fetchPageExtensions } from '../api';
import { listing, text } from '../text';

export const pageExtensions: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:page-extensions',
  description: 'Says that widgets which were installed meanwhile need a reload of the page.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker) => {
    const missing = new MissingExtensions(app.serviceManager.serverSettings);
    const addPanel = ({ sessionContext }: NotebookPanel): void => {
      // A kernel of an environment that was added, and packages that a cell has installed.
      sessionContext.kernelChanged.connect((_, { newValue }) => void (newValue && missing.check()));
      sessionContext.iopubMessage.connect((_, { header }: KernelMessage.IMessage) => {
        if ((header.msg_type as string) === 'ownlab_packages') {
          void missing.check();
        }
      });
    };
    notebooks.forEach(addPanel);
    notebooks.widgetAdded.connect((_, panel) => addPanel(panel));
  }
};

class MissingExtensions {
  constructor(private readonly _settings: ServerConnection.ISettings) {
    const loaded = JSON.parse(PageConfig.getOption('federated_extensions') || '[]') as { name: string }[];
    this._known = new Set(loaded.map(({ name }) => name));
  }

  /** Notify about extensions that this page does not have; about each one once. */
  async check(): Promise<void> {
    let names: string[];
    try {
      names = (await fetchPageExtensions(this._settings)).map(({ name }) => name).filter(name => !this._known.has(name));
    } catch {
      return; // the server is unreachable: the next kernel or package checks again
    }
    if (names.length === 0) {
      return;
    }
    names.forEach(name => this._known.add(name));
    const reload = { label: text('Reload'), displayType: 'accent' as const, callback: () => window.location.reload() };
    Notification.info(text('Reload the page to show the outputs of {names}. Kernels and unsaved text are kept.', { names: listing(names) }), {
      autoClose: false,
      actions: [reload]
    });
  }

  private readonly _known: Set<string>;
}
