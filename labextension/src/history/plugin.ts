/** The history of notebooks: a tab with versions, and the dialog of deleted notebooks. */
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, MainAreaWidget, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker } from '@jupyterlab/notebook';
import { reportFailure } from '../failures';
import { notebookHistoryIcon } from '../icons';
import type { Version } from '../records';
import { sentences, text } from '../text';
import { commandIds } from '../tokens';
import { showDeletedDialog } from './deletedDialog';
import { HistoryModel } from './historyModel';
import { HistoryPanel, type IHistoryActions } from './historyPanel';
import { describeMoment } from './versionTimes';

type HistoryTab = MainAreaWidget<HistoryPanel>;

export const history: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:history',
  description: 'Versions of notebooks: compare, restore and name them; restore deleted notebooks.',
  autoStart: true,
  requires: [INotebookTracker, IEditorLanguageRegistry],
  optional: [ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    languages: IEditorLanguageRegistry,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null
  ) => {
    const { commands, serviceManager, shell } = app;
    const { contents, serverSettings } = serviceManager;
    const tabs = new WidgetTracker<HistoryTab>({ namespace: 'ownlab-history' });

    let opened = 0;
    const openTab = (path: string): HistoryTab => {
      const found = tabs.find(tab => tab.content.model.path === path);
      if (found) {
        return found;
      }
      const model = new HistoryModel(serverSettings, contents, notebooks, path);
      const actions = makeActions(model, () => void commands.execute(commandIds.deletedNotebooks));
      const tab = new MainAreaWidget({ content: new HistoryPanel(model, actions, languages) });
      tab.id = `ownlab-history-${++opened}`;
      tab.toolbar.hide(); // it is empty
      void tabs.add(tab);
      const ref = notebooks.find(panel => panel.context.path === path);
      shell.add(tab, 'main', ref ? { ref: ref.id, mode: 'tab-after', type: 'History' } : { type: 'History' });
      return tab;
    };

    contents.fileChanged.connect((_, { type, oldValue, newValue }) => {
      if (type === 'rename' && oldValue?.path && newValue?.path) {
        const { path } = newValue;
        tabs.filter(tab => tab.content.model.path === oldValue.path).forEach(tab => (tab.content.model.path = path));
      }
    });
    commands.addCommand(commandIds.history, {
      label: () => text('Notebook History'),
      caption: () => text('Show versions of this notebook, compare and restore them'),
      icon: notebookHistoryIcon,
      isEnabled: ({ path }) => typeof path === 'string' || notebooks.currentWidget !== null,
      execute: async ({ path, version, cell }) => {
        const notebook = typeof path === 'string' ? path : notebooks.currentWidget?.context.path;
        if (notebook === undefined) {
          return;
        }
        const tab = openTab(notebook);
        shell.activateById(tab.id);
        await tab.content.model.show({
          ...(typeof version === 'string' ? { version } : {}),
          ...(typeof cell === 'string' ? { cell } : {})
        });
      }
    });
    commands.addCommand(commandIds.deletedNotebooks, {
      label: () => text('Restore Deleted Notebook…'),
      caption: () => text('Show notebooks that were deleted in this lab'),
      execute: () =>
        reportFailure(
          showDeletedDialog(serverSettings).then(async path => {
            if (path !== null) {
              await commands.execute('docmanager:open', { path });
            }
          })
        )
    });
    notebooks.currentChanged.connect(() => commands.notifyCommandChanged(commandIds.history));
    for (const command of [commandIds.history, commandIds.deletedNotebooks]) {
      palette?.addItem({ command, category: 'ownlab' });
    }
    void restorer?.restore(tabs, {
      command: commandIds.history,
      args: tab => ({ path: tab.content.model.path }),
      name: tab => tab.content.model.path
    });
  }
};

function makeActions(model: HistoryModel, showDeleted: () => void): IHistoryActions {
  const restore = async (version: Version): Promise<void> => {
    let before: Version | null = null;
    const done = await reportFailure(model.restore(version).then(present => (before = present)));
    if (!done) {
      return;
    }
    const present = before as Version | null;
    const undo = { label: text('Undo'), callback: () => present && void restore(present) };
    Notification.success(
      sentences(
        text('Restored: {version}.', { version: version.name ?? describeMoment(version.at, Date.now() / 1000) }),
        text('The notebook as it was before is in the history.')
      ),
      { autoClose: 8000, actions: present ? [undo] : [] }
    );
  };
  return {
    restore: version => void restore(version),
    rename: version => void askName(model, version),
    saveNow: () => void askName(model, null),
    remove: version => void remove(model, version),
    showDeleted
  };
}

async function askName(model: HistoryModel, version: Version | null): Promise<void> {
  const { button, value } = await InputDialog.getText({
    title: version ? text('Name this version') : text('Save a named version now'),
    label: text('Named versions are kept until you delete them.'),
    text: version?.name ?? '',
    placeholder: text('For example: before the refactoring'),
    okLabel: version ? text('Name') : text('Save'),
    required: version === null
  });
  if (button.accept && value !== null) {
    await reportFailure(model.name(version, value.trim()));
  }
}

async function remove(model: HistoryModel, version: Version): Promise<void> {
  const { button } = await showDialog({
    title: text('Delete this version?'),
    body: text('It cannot be restored afterwards. The notebook itself and other versions stay.'),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Delete') })]
  });
  if (button.accept) {
    await reportFailure(model.purge(version));
  }
}
