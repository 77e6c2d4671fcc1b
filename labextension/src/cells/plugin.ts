/** Cells as in Colab: run buttons, buttons between cells, boxes for long outputs, and shortcuts. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, ISessionContextDialogs, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { EditSessions } from '../edits/editSessions';
import type { RunGates } from '../notebook/cellExecutor';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { commandIds, IEditSessions, IJournal, ILiveSnapshot, IRunGates, IRunStates } from '../tokens';
import { InsertBar, insertCell } from './insertBar';
import { LongOutputs, toggleOutputBox } from './longOutputs';
import { drawLongText } from './longText';
import { RunButtons } from './runButtons';
import { RunPrompt } from './runPrompt';
import { RunStates } from './runStates';
import { SavedStatus } from './savedStatus';
import { showShortcuts } from './shortcutsDialog';

/** Its settings, shortcuts and toolbar items are in schema/cells.json. */
const PLUGIN_ID = 'ownlab:cells';

export const runStates: JupyterFrontEndPlugin<RunStates> = {
  id: 'ownlab:run-states',
  description: 'Which cells run, since when, and how long they took.',
  autoStart: true,
  requires: [NotebookPanel.IContentFactory, ILiveSnapshot, IJournal],
  provides: IRunStates,
  activate: (_: JupyterFrontEnd, factory: NotebookPanel.IContentFactory, live: LiveSnapshot, journal: IJournal) => {
    const states = new RunStates(
      () => live.now(),
      () => live.current?.person ?? null
    );
    journal.serializer.username = () => live.current?.person ?? '';
    // Whoever provides the factory: cells of notebooks are made by this function when they are rendered.
    const createInputPrompt = factory.createInputPrompt.bind(factory);
    factory.createInputPrompt = () => new RunPrompt(createInputPrompt(), states);
    return states;
  }
};

export const cells: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Run buttons at cells, buttons between cells, boxes for long outputs, and Colab’s shortcuts.',
  autoStart: true,
  requires: [INotebookTracker, IRunStates, IRunGates, IToolbarWidgetRegistry],
  optional: [ISessionContextDialogs, IEditSessions, ISettingRegistry, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    states: RunStates,
    gates: RunGates,
    toolbars: IToolbarWidgetRegistry,
    dialogs: ISessionContextDialogs | null,
    sessions: EditSessions | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null
  ) => {
    const addPanel = (panel: NotebookPanel): void => {
      new RunButtons(panel, states, dialogs ?? undefined);
      new InsertBar(panel);
      new LongOutputs(panel, states);
      drawLongText(panel.content.rendermime);
    };
    notebooks.forEach(addPanel);
    notebooks.widgetAdded.connect((_, panel) => addPanel(panel));
    toolbars.addFactory<NotebookPanel>(
      'Notebook',
      'ownlab-saved',
      panel => new SavedStatus(panel, sessions, () => void app.commands.execute(commandIds.history, { path: panel.context.path }))
    );
    addCommands(app, notebooks, palette);
    addRunBelow(app, notebooks, dialogs ?? undefined);
    void applySettings(settings, gates);
  }
};

/** JupyterLab's own command is disabled in the last cell. */
function addRunBelow({ commands }: JupyterFrontEnd, notebooks: INotebookTracker, dialogs: ISessionContextDialogs | undefined): void {
  commands.addCommand(commandIds.runBelow, {
    label: () => text('Run the Cell and All Below'),
    isEnabled: () => notebooks.currentWidget !== null,
    execute: () => {
      const panel = notebooks.currentWidget;
      return panel ? NotebookActions.runAllBelow(panel.content, panel.sessionContext, dialogs) : false;
    }
  });
}

async function applySettings(registry: ISettingRegistry | null, gates: RunGates): Promise<void> {
  const settings = await registry?.load(PLUGIN_ID);
  const apply = (): void => {
    gates.recordTiming = settings?.get('recordTiming').composite !== false;
    document.body.classList.toggle('ownlab-mod-boxOutputs', settings?.get('boxOutputs').composite !== false);
  };
  settings?.changed.connect(apply);
  apply();
}

function addCommands({ commands }: JupyterFrontEnd, notebooks: INotebookTracker, palette: ICommandPalette | null): void {
  const isEnabled = (): boolean => notebooks.currentWidget !== null;
  const insert = (type: 'code' | 'markdown') => (): void => {
    const content = notebooks.currentWidget?.content;
    if (content) {
      insertCell(content, content.activeCellIndex, type);
      void NotebookActions.focusActiveCell(content);
    }
  };
  const activeCode = (): CodeCell | null => (notebooks.activeCell?.model.type === 'code' ? (notebooks.activeCell as CodeCell) : null);
  commands.addCommand(commandIds.insertCode, {
    label: () => text('+ Code'),
    caption: () => text('Insert a code cell below (Ctrl+M B)'),
    isEnabled,
    execute: insert('code')
  });
  commands.addCommand(commandIds.insertText, {
    label: () => text('+ Text'),
    caption: () => text('Insert a text cell below'),
    isEnabled,
    execute: insert('markdown')
  });
  commands.addCommand(commandIds.toggleOutput, {
    label: () => text('Show or Hide the Output'),
    isEnabled: () => activeCode() !== null,
    execute: () => {
      const cell = activeCode();
      if (cell) {
        cell.outputHidden = !cell.outputHidden;
      }
    }
  });
  commands.addCommand(commandIds.toggleOutputBox, {
    label: () => text('Show All Output or Scroll It in a Box'),
    isEnabled: () => activeCode() !== null,
    execute: () => {
      const cell = activeCode();
      if (cell) {
        toggleOutputBox(cell);
      }
    }
  });
  commands.addCommand(commandIds.keyboardShortcuts, {
    label: () => text('Keyboard Shortcuts'),
    caption: () => text('Show the shortcuts of Colab and JupyterLab'),
    execute: () => showShortcuts(commands)
  });
  notebooks.currentChanged.connect(() => {
    [commandIds.insertCode, commandIds.insertText].forEach(command => commands.notifyCommandChanged(command));
  });
  for (const command of [commandIds.keyboardShortcuts, commandIds.toggleOutputBox]) {
    palette?.addItem({ command, category: 'ownlab' });
  }
}
