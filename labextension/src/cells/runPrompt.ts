/** The prompt of a cell: JupyterLab's, which shows the execution count, with a button that runs and stops the cell. */
import type { ICodeCellModel, IInputPrompt, InputArea } from '@jupyterlab/cells';
import type { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';
import { sentences, text } from '../text';
import { applyOutputBox } from './longOutputs';
import type { IRunView, RunStates } from './runStates';
import { describeTiming, formatClock, formatSeconds, type ITiming, storedTiming, wasCutShort } from './timing';

/** new: not run since it was opened or cleared; stopped: it did not finish, because its kernel was restarted or ended. */
export type RunState = 'new' | 'queued' | 'running' | 'done' | 'failed' | 'stopped';

export const RUN_BUTTON = 'ownlab-Run';

/** Shown in prompts that are created for cells; those of text cells stay empty. */
export class RunPrompt extends Panel implements IInputPrompt, IRunView {
  constructor(
    private readonly _count: IInputPrompt,
    private readonly _states: RunStates
  ) {
    super();
    this.addClass('ownlab-Prompt');
    this.addWidget(_count);
  }

  get executionCount(): string | null {
    return this._count.executionCount;
  }

  /** JupyterLab sets it whenever the cell starts, ends or is cleared: nothing else has to be observed. */
  set executionCount(value: string | null) {
    if (value === '*' && this._count.executionCount !== '*' && this._model) {
      this._states.forget(this._model);
    }
    this._count.executionCount = value;
    this.draw();
  }

  draw(): void {
    const model = this._model;
    if (!model || this.isDisposed) {
      return;
    }
    const state = this._state(model);
    const timing = state === 'done' || state === 'failed' || state === 'stopped' ? this._timing(model) : null;
    this._setState(state);
    this._setTime(this._shortTime(state, model, timing));
    this._setTitle(this._describe(state, timing));
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    const model = (this.parent as InputArea | null)?.model;
    if (!this._model && model?.type === 'code') {
      this._model = model as ICodeCellModel;
      this._states.addView(model, this);
      this._button.type = 'button';
      this._button.className = RUN_BUTTON;
      this._button.appendChild(document.createElement('span')).className = 'ownlab-Run-icon'; // drawn in CSS, for notebooks with many cells
      this._time.className = 'ownlab-Run-time';
      this.node.append(this._button, this._time);
      const cell = this.node.closest('.jp-Cell');
      if (cell) {
        applyOutputBox(cell, model);
      }
      this.draw();
    }
  }

  override dispose(): void {
    if (this._model) {
      this._states.removeView(this._model, this);
    }
    this._model = null;
    super.dispose();
  }

  private _state(model: ICodeCellModel): RunState {
    if (model.executionState === 'running') {
      // If the kernel has ended it already, the reply follows at once.
      return this._states.startedAt(model) === undefined && !this._states.lastTiming(model) ? 'queued' : 'running';
    }
    if (hasError(model)) {
      return 'failed';
    }
    if (model.executionCount !== null) {
      return 'done';
    }
    return wasCutShort(model.getMetadata('execution')) ? 'stopped' : 'new';
  }

  private _shortTime(state: RunState, model: ICodeCellModel, timing: ITiming | null): string {
    switch (state) {
      case 'running':
        return this._clock(model);
      case 'stopped':
        return text('stopped');
      default:
        return timing ? formatSeconds(timing.seconds) : '';
    }
  }

  private _timing(model: ICodeCellModel): ITiming | null {
    return this._states.lastTiming(model) ?? storedTiming(model.getMetadata('execution'), model.getMetadata('executionInfo'));
  }

  private _clock(model: ICodeCellModel): string {
    return formatClock(this._states.now() - (this._states.startedAt(model) ?? this._states.now()));
  }

  private _setState(state: RunState): void {
    if (state !== this._shown) {
      this._shown = state;
      this.node.dataset['state'] = state;
      this._button.setAttribute('aria-disabled', String(state === 'queued'));
      this._button.setAttribute('aria-label', labelOf(state));
    }
  }

  private _setTime(time: string): void {
    if (this._time.textContent !== time) {
      this._time.textContent = time;
    }
  }

  private _setTitle(title: string): void {
    if (this._button.title !== title) {
      this._button.title = this._time.title = title;
    }
  }

  private _describe(state: RunState, timing: ITiming | null): string {
    const ran = timing ? describeTiming(timing, this._states.person(), this._states.now()) : '';
    switch (state) {
      case 'queued':
        return text('This cell waits for the kernel: it runs after the cells before it.');
      case 'running':
        return text('Interrupt this cell');
      case 'failed':
        return sentences(text('Run this cell (Ctrl+Enter).'), text('The last run failed.'), ran);
      case 'stopped':
        return sentences(text('Run this cell (Ctrl+Enter).'), text('It did not finish: its kernel was restarted or stopped.'), ran);
      case 'new':
      case 'done':
        return sentences(text('Run this cell (Ctrl+Enter).'), ran);
    }
  }

  private _model: ICodeCellModel | null = null;
  private _shown: RunState | null = null;
  private readonly _button = document.createElement('button');
  private readonly _time = document.createElement('div');
}

function labelOf(state: RunState): string {
  if (state === 'running') {
    return text('Interrupt this cell');
  }
  return state === 'queued' ? text('This cell waits for the kernel') : text('Run this cell');
}

/** Errors are the last output, except after an Output widget. */
function hasError({ outputs }: ICodeCellModel): boolean {
  for (let at = outputs.length - 1; at >= 0; at--) {
    if (outputs.get(at).type === 'error') {
      return true;
    }
  }
  return false;
}
