/** Which cells of this page run, since when, and how long they took. Prompts show it. */
import type { ICellModel } from '@jupyterlab/cells';
import { type ISignal, Signal } from '@lumino/signaling';
import type { ITiming } from './timing';

const INTERVAL_MS = 1_000;

/** A view of a cell; several views of a notebook share its models. */
export interface IRunView {
  draw(): void;
}

export class RunStates {
  /** `now` returns the server's time in seconds, `person` the name of its user; null: not known yet. */
  constructor(
    readonly now: () => number,
    readonly person: () => string | null
  ) {}

  /** When the kernel started a cell; undefined: it does not run, or waits for others. */
  startedAt(model: ICellModel): number | undefined {
    return this._started.get(model);
  }

  /** The last execution that ended while this page was open. */
  lastTiming(model: ICellModel): ITiming | undefined {
    return this._ended.get(model);
  }

  /** A cell was run again. */
  forget(model: ICellModel): void {
    this._ended.delete(model);
  }

  /** Emitted every second for each cell that runs, and when it ends. */
  get ticked(): ISignal<this, ICellModel> {
    return this._ticked;
  }

  start(model: ICellModel, at: number): void {
    if (this._started.get(model) !== at) {
      this._started.set(model, at);
      this._timer ||= window.setInterval(() => this._tick(), INTERVAL_MS);
      this._draw(model);
    }
  }

  /** `at`: when it ended; null: it was forgotten, as when its notebook is closed. */
  stop(model: ICellModel, at: number | null): void {
    const startedAt = this._started.get(model);
    if (startedAt === undefined) {
      return;
    }
    this._started.delete(model);
    if (this._started.size === 0) {
      window.clearInterval(this._timer);
      this._timer = 0;
    }
    if (at !== null) {
      this._ended.set(model, { startedAt, seconds: Math.max(0, at - startedAt), person: this.person() });
    }
    this._draw(model);
    this._ticked.emit(model);
  }

  addView(model: ICellModel, view: IRunView): void {
    const views = this._views.get(model) ?? new Set();
    this._views.set(model, views.add(view));
  }

  removeView(model: ICellModel, view: IRunView): void {
    this._views.get(model)?.delete(view);
  }

  private _tick(): void {
    for (const model of this._started.keys()) {
      this._draw(model);
      this._ticked.emit(model);
    }
  }

  private _draw(model: ICellModel): void {
    this._views.get(model)?.forEach(view => view.draw());
  }

  private readonly _ticked = new Signal<this, ICellModel>(this);
  private readonly _started = new Map<ICellModel, number>();
  private readonly _ended = new WeakMap<ICellModel, ITiming>();
  private readonly _views = new WeakMap<ICellModel, Set<IRunView>>();
  private _timer = 0;
}
