/** In the toolbar of each notebook: which runtime it has, what that uses, and how long it lasts. */
import type { ISessionContext } from '@jupyterlab/apputils';
import * as React from 'react';
import { activity, booked, bytes, duration, endWords, rate, runtimeName, timeLeft } from '../formatting';
import type { Runtime } from '../records';
import { MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface IIndicatorOptions {
  live: LiveSnapshot;
  sessionContext: ISessionContext;
  /** Called on a click: shows the details beside the button. */
  open: (indicator: Indicator, anchor: HTMLElement) => void;
}

export class Indicator extends LiveWidget {
  constructor(options: IIndicatorOptions) {
    super(options.live);
    this.addClass('ownlab-Indicator');
    this.sessionContext = options.sessionContext;
    this._open = options.open;
    this.sessionContext.kernelChanged.connect(this._onKernel, this);
    this.sessionContext.statusChanged.connect(this._onKernel, this);
  }

  readonly sessionContext: ISessionContext;

  /** What the notebook runs on; undefined: no runtime of ours. */
  get runtime(): Runtime | undefined {
    return this.live.runtime(this.sessionContext.session?.kernel?.id);
  }

  /** Whether the details are shown. */
  set expanded(value: boolean) {
    this._expanded = value;
    this.update();
  }

  protected render(): React.JSX.Element | null {
    const runtime = this.runtime;
    if (!runtime) {
      return null;
    }
    return (
      <button
        className={`ownlab-Indicator-button ownlab-state-${runtime.state}${runtime.warned ? ' ownlab-mod-warned' : ''}`}
        aria-haspopup="dialog"
        aria-expanded={this._expanded}
        aria-label={spoken(runtime, this.live)}
        title="This notebook’s runtime"
        onClick={event => this._open(this, event.currentTarget)}
      >
        <Face runtime={runtime} live={this.live} />
      </button>
    );
  }

  private _onKernel(): void {
    if (this.isVisible) {
      this.update();
    }
  }

  private readonly _open: (indicator: Indicator, anchor: HTMLElement) => void;
  private _expanded = false;
}

function Face({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element {
  const now = live.now();
  const name = <span className="ownlab-Indicator-type">{runtimeName(runtime, live)}</span>;
  if (runtime.state !== 'running') {
    return (
      <>
        {name}
        <span className="ownlab-Indicator-state">{activity(runtime, now)}</span>
      </>
    );
  }
  return (
    <>
      {name}
      <MemoryBar label="RAM" used={runtime.ram} whole={live.current?.host.memory ?? null} small />
      {runtime.cards.length > 0 && <MemoryBar label="VRAM" used={runtime.vram} whole={booked(runtime)} small />}
      {runtime.ends_at !== null && (
        <span className="ownlab-Indicator-left" title={endWords(runtime, runtime.ends_at, now)}>
          {duration(runtime.ends_at - now)}
        </span>
      )}
      {runtime.units_per_hour > 0 && <span className="ownlab-Indicator-rate">{rate(runtime.units_per_hour)}</span>}
    </>
  );
}

/** The whole indicator in words. */
function spoken(runtime: Runtime, live: LiveSnapshot): string {
  const now = live.now();
  return [
    `Runtime: ${runtimeName(runtime, live)}`,
    activity(runtime, now),
    runtime.ram === null ? '' : `RAM ${bytes(runtime.ram)}`,
    runtime.vram === null ? '' : `VRAM ${bytes(runtime.vram)}`,
    timeLeft(runtime, now),
    runtime.units_per_hour > 0 ? rate(runtime.units_per_hour) : ''
  ]
    .filter(Boolean)
    .join(', ');
}
