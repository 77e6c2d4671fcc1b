/** Mounts the drive in a notebook as on Colab: with code in a cell, so that it also runs next time. */
import { Dialog, type ISessionContextDialogs, Notification, showDialog } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { insertCell } from '../cells/insertBar';
import type { ColabMode } from '../colab/colabMode';
import { describeRestart, runInColabMode } from '../colab/colabOffer';
import { sentences, text } from '../text';
import type { DiskUseMonitor } from './diskUse';

const CODE = "from google.colab import drive\ndrive.mount('/content/drive')";
const MOUNTS = /^\s*drive\.mount\(/m;

/** Run the cell that mounts the drive, or insert one above the active cell. In a plain kernel the code would fail: ask for a restart. */
export async function mountDrive(panel: NotebookPanel, mode: ColabMode | undefined, dialogs: ISessionContextDialogs | undefined): Promise<void> {
  const { content, sessionContext } = panel;
  const found = content.widgets.find(({ model }) => model.type === 'code' && MOUNTS.test(model.sharedModel.getSource()));
  if (found) {
    content.activeCellIndex = content.widgets.indexOf(found);
  } else {
    insertCell(content, content.activeCellIndex - 1, 'code');
    content.activeCell?.model.sharedModel.setSource(CODE);
  }
  const cell = content.activeCell as CodeCell | null;
  content.mode = 'command';
  if (!cell) {
    return;
  }
  await content.scrollToCell(cell);
  if (mode?.on !== false) {
    await NotebookActions.runCells(content, [cell], sessionContext, dialogs);
  } else if (await confirmRestart(panel, cell)) {
    // At once: what stands above may take hours, or fail.
    await runInColabMode(panel, mode, cell, dialogs, { first: true });
  }
}

/** Set when this browser has shown the explanation. */
const EXPLAINED = 'ownlab:drive-explained';
const EXPLANATION_MS = 20_000;

/** Say once, after a notebook has mounted the drive, which folder that is: people expect their Google Drive there. */
export function explainDrive(monitor: DiskUseMonitor, show: () => void): void {
  NotebookActions.executed.connect((_, { cell, success }) => {
    const folder = monitor.current?.drive;
    if (!success || typeof folder !== 'string' || !MOUNTS.test(cell.model.sharedModel.getSource()) || window.localStorage.getItem(EXPLAINED)) {
      return;
    }
    window.localStorage.setItem(EXPLAINED, '1');
    // Short, because JupyterLab cuts long notifications off. The Drive tab goes on saying it.
    const message = text('The drive is {folder} on this machine, not your Google Drive.', { folder });
    Notification.info(message, { autoClose: EXPLANATION_MS, actions: [{ label: text('Show the drive'), callback: show }] });
  });
}

async function confirmRestart(panel: NotebookPanel, cell: CodeCell): Promise<boolean> {
  const { button } = await showDialog({
    title: text('Restart in Colab mode to mount the drive?'),
    body: sentences(text('The drive is mounted in Colab mode, in which this notebook works in /content.'), describeRestart(panel, cell)),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: text('Restart and mount') })]
  });
  return button.accept;
}
