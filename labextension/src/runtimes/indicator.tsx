/** The indicator in the toolbar of each notebook: its runtime, what that uses, and the time left. */
import type { ISessionContext } from '@jupyterlab/apputils';
import * as React from 'react';
import { bookedMemory, describeActivity, describeEnd, describeTimeLeft, formatBytes, formatDuration, formatRate, runtimeName } from '../formatting';
import type { Runtime } from '../records';
import { text } from '../text';
import { MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface IIndicatorOptions {
  live: LiveSnapshot;
  sessionContext: ISessionContext;
  /** Called on a click: show the popover beside the button. */
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

  /** The notebook's runtime; undefined if it has none of ownlab. */
  get runtime(): Runtime | undefined {
    return this.live.runtime(this.sessionContext.session?.kernel?.id);
  }

  /** Whether the popover is shown. */
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
        aria-label={accessibleName(runtime, this.live)}
        title={text('This notebook’s runtime')}
        onClick={event => this._open(this, event.currentTarget)}
      >
        <IndicatorContent runtime={runtime} live={this.live} />
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

function IndicatorContent({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element {
  const now = live.now();
  const name = <span className="ownlab-Indicator-type">{runtimeName(runtime, live)}</span>;
  if (runtime.state !== 'running') {
    return (
      <>
        {name}
        <span className="ownlab-Indicator-state">{describeActivity(runtime, now)}</span>
      </>
    );
  }
  return (
    <>
      {name}
      <MemoryBar label={text('RAM')} used={runtime.ram} total={live.current?.host.memory ?? null} compact />
      {runtime.cards.length > 0 && <MemoryBar label={text('VRAM')} used={runtime.vram} total={bookedMemory(runtime)} compact />}
      {runtime.ends_at !== null && (
        <span className="ownlab-Indicator-left" title={describeEnd(runtime, runtime.ends_at, now)}>
          {formatDuration(runtime.ends_at - now)}
        </span>
      )}
      {runtime.units_per_hour > 0 && <span className="ownlab-Indicator-rate">{formatRate(runtime.units_per_hour)}</span>}
    </>
  );
}

/** Return the contents of the indicator as text, for screen readers. */
function accessibleName(runtime: Runtime, live: LiveSnapshot): string {
  const now = live.now();
  return [
    text('Runtime: {type}', { type: runtimeName(runtime, live) }),
    describeActivity(runtime, now),
    runtime.ram === null ? '' : text('RAM {amount}', { amount: formatBytes(runtime.ram) }),
    runtime.vram === null ? '' : text('VRAM {amount}', { amount: formatBytes(runtime.vram) }),
    describeTimeLeft(runtime, now),
    runtime.units_per_hour > 0 ? formatRate(runtime.units_per_hour) : ''
  ]
    .filter(Boolean)
    .join(', ');
}
