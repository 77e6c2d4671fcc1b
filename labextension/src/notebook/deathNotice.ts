/** The notice above a notebook whose kernel died: why, and the offer to run the notebook again up to that cell. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';
import type { IDeath } from '../api';
import { sentences, text } from '../text';
import { codeCells } from './attachedCell';
import { causeOfDeath } from './kernelDeath';
import { createNotice } from './notice';

/** Outputs change often; the notice may be a moment late. */
const UPDATE_DELAY_MS = 200;

export class DeathNotice {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _dialogs: ISessionContextDialogs
  ) {
    const { model } = _panel.context;
    model.contentChanged.connect(this._onContentChanged, this);
    void _panel.context.ready.then(() => this._update());
    _panel.disposed.connect(() => {
      window.clearTimeout(this._timer);
      model.contentChanged.disconnect(this._onContentChanged, this);
    });
  }

  /** The last death of this notebook's kernel, if no cell was executed since; null: there is none. `passed`: one was executed. */
  setDeath(death: IDeath | null, passed = false): void {
    this._death = death;
    this._passed = passed;
    this._update();
  }

  /** The page heard of a death while it was open: the kernel is being restarted, and has run nothing yet. */
  setUnused(unused: boolean): void {
    this._unused = unused;
  }

  private _onContentChanged(): void {
    this._timer ||= window.setTimeout(() => this._update(), UPDATE_DELAY_MS);
  }

  private _update(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    if (this._panel.isDisposed) {
      return;
    }
    // Who goes on with the notebook knows: the cell keeps its note, and the notice goes.
    const died = this._passed ? undefined : codeCells(this._panel).find(cell => causeOfDeath(cell) !== null);
    const key = died ? `${died.model.id}/${causeOfDeath(died) ?? ''}` : this._death && !this._death.cell ? String(this._death.at) : '';
    if (key === this._shown) {
      return;
    }
    this._shown = key;
    this._widget?.dispose();
    this._widget = null;
    if (key && key !== this._dismissed) {
      this._widget = died ? this._describeCell(died) : this._describeIdle();
      this._panel.contentHeader.addWidget(this._widget);
    }
  }

  private _describeCell(cell: CodeCell): Widget {
    return createNotice(
      causeOfDeath(cell) ?? '',
      [
        { label: text('Show the cell'), run: () => this._show(cell) },
        { label: text('Restart and run up to that cell'), accept: true, run: () => this._restartAndRun(cell) }
      ],
      () => this._dismiss()
    );
  }

  private _describeIdle(): Widget {
    const lost = text('No cell was running. All variables are lost.');
    return createNotice(sentences(this._death?.summary ?? '', lost), [], () => this._dismiss());
  }

  private _dismiss(): void {
    this._dismissed = this._shown;
    this._widget?.dispose();
    this._widget = null;
  }

  private _show(cell: CodeCell): void {
    const { content } = this._panel;
    content.activeCellIndex = content.widgets.indexOf(cell);
    void content.scrollToCell(cell, 'center');
  }

  private async _restartAndRun(cell: CodeCell): Promise<void> {
    const { content, sessionContext } = this._panel;
    this._dismiss();
    // A kernel that was started in place of the dead one is as good as new.
    if (!this._unused && sessionContext.session?.kernel && sessionContext.session.kernel.status !== 'dead') {
      await sessionContext.restartKernel();
    }
    const last = content.widgets.indexOf(cell);
    if (last >= 0) {
      await NotebookActions.runCells(content, content.widgets.slice(0, last + 1), sessionContext, this._dialogs);
    }
  }

  private _widget: Widget | null = null;
  private _death: IDeath | null = null;
  private _passed = false;
  private _unused = false;
  /** What the notice is about; '': nothing. */
  private _shown = '';
  private _dismissed = '';
  private _timer = 0;
}
