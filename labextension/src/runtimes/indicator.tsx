/** The connection of a notebook, in its toolbar: Connect; what it waits for; or its runtime, what that uses, and the time left. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookModel } from '@jupyterlab/notebook';
import { caretDownIcon } from '@jupyterlab/ui-components';
import { type Message, MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { bookedMemory, describeActivity, describeEnd, describeTimeLeft, formatBytes, formatDuration, formatRate, hostOf, runtimeNameInEnvironment, typeNameInEnvironment } from '../formatting';
import type { Connector } from '../notebook/connector';
import { whenInitialized } from '../notebook/startOnDemand';
import type { Runtime } from '../records';
import { facts, text } from '../text';
import { MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface IIndicatorOptions {
  live: LiveSnapshot;
  connector: Connector;
  sessionContext: ISessionContext;
  model: INotebookModel;
  /** Called on a click on Connect. */
  connect: (indicator: Indicator) => void;
  /** Called on a click on the rest: show the popover beside the button. */
  open: (indicator: Indicator, anchor: HTMLElement) => void;
}

/** Its name in schema/indicator.json. */
export const TOOLBAR_ITEM = 'ownlab-runtime';

/** A kernel that takes no requests yet. */
const STARTING = ['starting', 'connecting', 'initializing', 'unknown'];

export class Indicator extends LiveWidget {
  constructor(options: IIndicatorOptions) {
    super(options.live);
    this.addClass('ownlab-Indicator');
    this.sessionContext = options.sessionContext;
    this._options = options;
    this.sessionContext.kernelChanged.connect(this._refresh, this);
    this.sessionContext.statusChanged.connect(this._refresh, this);
    this.sessionContext.specsManager.specsChanged.connect(this._refresh, this);
    options.connector.changed.connect(this._refresh, this);
    options.model.metadataChanged.connect(this._refresh, this);
    void whenInitialized(this.sessionContext).then(() => {
      this._initialized = true;
      this._refresh();
    });
  }

  readonly sessionContext: ISessionContext;

  /** The notebook's runtime; undefined if it has none of ownlab. */
  get runtime(): Runtime | undefined {
    return this.live.runtime(this.sessionContext.session?.kernel?.id);
  }

  /** A short name of the type that Connect starts; empty: it is not known yet. */
  get nextType(): string {
    const type = this._options.connector.typeFor(this.sessionContext, this._options.model);
    const known = type ? this.live.type(type.name) : undefined;
    return known ? typeNameInEnvironment(known) : type ? this._displayName(type.name) : '';
  }

  /** Whether a runtime is being started, and not yet known. */
  get isConnecting(): boolean {
    return this._options.connector.isConnecting(this.sessionContext) || this.sessionContext.kernelDisplayStatus === 'initializing';
  }

  /** Whether the popover is shown. */
  set expanded(value: boolean) {
    this._expanded = value;
    this.update();
  }

  protected render(): React.JSX.Element | null {
    const kernel = this.sessionContext.session?.kernel;
    const { runtime } = this;
    if (runtime && kernel?.status !== 'dead') {
      return this._button(`ownlab-state-${runtime.state}${runtime.warned ? ' ownlab-mod-warned' : ''}`, accessibleName(runtime, this.live), <IndicatorContent runtime={runtime} live={this.live} />);
    }
    if (!this._initialized && !kernel) {
      return null; // it may have a runtime
    }
    if (this.isConnecting) {
      return this._button('ownlab-state-connecting', text('Connecting to {type}', { type: this.nextType }), <Progress name={this.nextType} state={text('connecting')} />);
    }
    if (kernel && kernel.status !== 'dead') {
      return this._renderKernel(kernel.name, kernel.status);
    }
    return this._renderConnect();
  }

  private _renderConnect(): React.JSX.Element {
    const type = this.nextType;
    return (
      <span className="ownlab-Connect" role="group" aria-label={text('Connection')}>
        <button
          className="ownlab-Connect-button"
          title={type ? text('Start a runtime for this notebook: {type}. Running a cell does so, too.', { type }) : text('Start a runtime for this notebook')}
          onClick={() => this._options.connect(this)}
        >
          {text('Connect')}
          {type && <span className="ownlab-Connect-type">{type}</span>}
        </button>
        <button
          className="ownlab-Connect-more"
          aria-haspopup="dialog"
          aria-expanded={this._expanded}
          aria-label={text('More about the connection')}
          title={text('More about the connection')}
          onClick={event => this._options.open(this, event.currentTarget)}
        >
          <caretDownIcon.react tag="span" />
        </button>
      </span>
    );
  }

  /** A runtime that the snapshot does not have yet, or a kernel that is no runtime of ownlab. */
  private _renderKernel(name: string, status: string): React.JSX.Element {
    const shown = this._displayName(name);
    const isNew = this.live.type(name) !== undefined || STARTING.includes(status);
    return isNew
      ? this._button('ownlab-state-connecting', text('Connecting to {type}', { type: shown }), <Progress name={this.nextType || shown} state={text('connecting')} />)
      : this._button('ownlab-state-foreign', shown, <span className="ownlab-Indicator-type">{shown}</span>);
  }

  private _button(className: string, name: string, content: React.JSX.Element): React.JSX.Element {
    return (
      <button
        className={`ownlab-Indicator-button ${className}`}
        aria-haspopup="dialog"
        aria-expanded={this._expanded}
        aria-label={name}
        title={text('This notebook’s runtime')}
        onClick={event => this._options.open(this, event.currentTarget)}
      >
        {content}
        <caretDownIcon.react tag="span" className="ownlab-Indicator-caret" />
      </button>
    );
  }

  /** JupyterLab's toolbar measures its items once; this one grows when the notebook connects. */
  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._observer.observe(this.node);
  }

  protected override onBeforeDetach(message: Message): void {
    this._observer.disconnect();
    super.onBeforeDetach(message);
  }

  private _updateToolbar(): void {
    const toolbar = this.parent;
    const widths = (toolbar as unknown as { _widgetWidths?: Map<string, number> } | null)?._widgetWidths;
    const width = this.node.clientWidth;
    if (toolbar && widths && width > 0 && widths.get(TOOLBAR_ITEM) !== width) {
      widths.set(TOOLBAR_ITEM, width);
      MessageLoop.postMessage(toolbar, new Widget.ResizeMessage(toolbar.node.clientWidth, toolbar.node.clientHeight));
    }
  }

  private _displayName(name: string): string {
    return this.sessionContext.specsManager.specs?.kernelspecs[name]?.display_name ?? name;
  }

  private _refresh(): void {
    if (this.isVisible) {
      this.update();
    }
  }

  private readonly _options: IIndicatorOptions;
  private readonly _observer = new ResizeObserver(() => this._updateToolbar());
  private _expanded = false;
  private _initialized = false;
}

/** A spinner, a type, and what the runtime waits for. */
function Progress({ name, state }: { name: string; state: string }): React.JSX.Element {
  return (
    <>
      <span className="ownlab-Spinner" aria-hidden="true" />
      <span className="ownlab-Indicator-type">{name}</span>
      <span className="ownlab-Indicator-state">{state}</span>
    </>
  );
}

function IndicatorContent({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element {
  const now = live.now();
  const name = runtimeNameInEnvironment(runtime, live);
  if (runtime.state !== 'running') {
    return <Progress name={name} state={describeActivity(runtime, now)} />;
  }
  const host = hostOf(runtime, live.current?.host);
  const booked = bookedMemory(runtime);
  return (
    <>
      <span className={`ownlab-Dot ownlab-mod-connected${runtime.busy ? ' ownlab-mod-busy' : ''}`} aria-hidden="true" />
      <span className="ownlab-Indicator-type">{name}</span>
      <MemoryBar label={text('RAM')} used={runtime.ram} total={host?.memory ?? null} compact />
      {runtime.cards.length > 0 && (runtime.vram ?? booked) !== null && <MemoryBar label={text('GPU')} used={runtime.vram} total={booked} compact />}
      {typeof host?.disk === 'number' && <MemoryBar label={text('Disk')} used={host.disk_used} total={host.disk} compact />}
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
  const host = hostOf(runtime, live.current?.host);
  return facts([
    text('Runtime: {type}', { type: runtimeNameInEnvironment(runtime, live) }),
    describeActivity(runtime, now),
    runtime.ram === null ? '' : text('RAM {amount}', { amount: formatBytes(runtime.ram) }),
    runtime.vram === null ? '' : text('VRAM {amount}', { amount: formatBytes(runtime.vram) }),
    typeof host?.disk_used === 'number' ? text('disk {amount}', { amount: formatBytes(host.disk_used) }) : '',
    describeTimeLeft(runtime, now),
    runtime.units_per_hour > 0 ? formatRate(runtime.units_per_hour) : ''
  ]);
}
