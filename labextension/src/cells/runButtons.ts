/** Runs and stops cells whose buttons are clicked, in one view of a notebook. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { reportFailure } from '../failures';
import { text } from '../text';
import { RUN_BUTTON } from './runPrompt';
import type { RunStates } from './runStates';

export class RunButtons {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _states: RunStates,
    private readonly _dialogs: ISessionContextDialogs | undefined
  ) {
    // One listener for all cells. Before the notebook's own: it would prepare to drag the cell.
    _panel.node.addEventListener('mousedown', event => this._onMouseDown(event), true);
    _panel.node.addEventListener('click', event => this._onClick(event));
  }

  private _onMouseDown(event: MouseEvent): void {
    if (buttonOf(event)) {
      event.preventDefault(); // the cursor stays where the user types
      event.stopPropagation();
    }
  }

  private _onClick(event: MouseEvent): void {
    const button = buttonOf(event);
    const cell = button && this._panel.content.widgets.find(({ node }) => node.contains(button));
    if (cell?.model.type === 'code') {
      this._act(cell as CodeCell);
    }
  }

  private _act(cell: CodeCell): void {
    if (cell.model.executionState !== 'running') {
      this._run(cell);
    } else if (this._states.startedAt(cell.model) !== undefined) {
      const kernel = this._panel.sessionContext.session?.kernel;
      void reportFailure(Promise.resolve(kernel?.interrupt()), error => text('The cell was not interrupted: {error}', { error }));
    }
  }

  private _run(cell: CodeCell): void {
    const { content, sessionContext } = this._panel;
    const { mode } = content;
    const wasActive = content.activeCell === cell;
    content.deselectAll();
    content.activeCellIndex = content.widgets.indexOf(cell);
    void NotebookActions.runCells(content, [cell], sessionContext, this._dialogs);
    content.mode = wasActive ? mode : 'command';
  }
}

function buttonOf({ target, button }: MouseEvent): HTMLElement | null {
  return target instanceof Element && button === 0 ? target.closest<HTMLElement>(`.${RUN_BUTTON}`) : null;
}
