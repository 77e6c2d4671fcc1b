/** The popover below the indicator, with the details of a notebook's runtime. Escape or a click outside closes it. */
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { cardName, describeActivity, describeCost, describeEnd, describeEnvironment, formatShare, hostOf, PARTS, runtimeName } from '../formatting';
import type { CardShare, Runtime } from '../records';
import { text } from '../text';
import { MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

/** The actions on a notebook's connection. */
export interface IRuntimeActions {
  connect: () => void;
  extend: (runtime: Runtime) => void;
  changeType: () => void;
  showResources: () => void;
  restart: () => void;
  restartRunAll: () => void;
  deleteRuntime: () => void;
  factoryReset: () => void;
  toggleColab: () => void;
}

export interface IPopoverOptions {
  live: LiveSnapshot;
  anchor: HTMLElement;
  /** Called on each rendering: the notebook may get another runtime meanwhile. */
  runtime: () => Runtime | undefined;
  /** Whether the notebook has a kernel of any kind, or gets one. */
  hasKernel: () => boolean;
  /** The type that Connect starts. */
  nextType: () => string;
  /** Whether the notebook has installed packages. */
  hasPackages: () => boolean;
  /** Whether its kernel is in Colab mode; null: not known. */
  colab: () => boolean | null;
  actions: IRuntimeActions;
}

export class Popover extends LiveWidget {
  constructor(options: IPopoverOptions) {
    super(options.live);
    this._options = options;
    this.addClass('ownlab-Popover');
    this.node.setAttribute('role', 'dialog');
    this.node.setAttribute('aria-label', text('This notebook’s runtime'));
    this.node.tabIndex = -1;
  }

  /** Show the popover below its anchor. */
  open(): void {
    Widget.attach(this, document.body);
    const { bottom, right } = this._options.anchor.getBoundingClientRect();
    this.node.style.top = `${bottom + 4}px`;
    this.node.style.right = `${Math.max(8, document.body.clientWidth - right)}px`;
    this.node.focus();
  }

  handleEvent(event: Event): void {
    if (event instanceof KeyboardEvent) {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this._close(true);
      }
    } else if (event.target instanceof Node && !this.node.contains(event.target) && !this._options.anchor.contains(event.target)) {
      this._close(false);
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('keydown', this);
    document.addEventListener('pointerdown', this, true);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('keydown', this);
    document.removeEventListener('pointerdown', this, true);
    super.onBeforeDetach(message);
  }

  protected render(): React.JSX.Element {
    const { actions, colab, hasKernel, nextType } = this._options;
    const runtime = this._options.runtime();
    const type = nextType();
    return (
      <>
        {runtime && <Details runtime={runtime} live={this.live} />}
        {!runtime && !hasKernel() && (
          <>
            <header className="ownlab-Popover-head">
              <strong>{text('Not connected')}</strong>
            </header>
            <p className="ownlab-Popover-why">
              {type
                ? text('No runtime is running for this notebook. Running a cell starts one: {type}.', { type })
                : text('No runtime is running for this notebook. Running a cell starts one.')}
            </p>
          </>
        )}
        {colab() !== null && <ColabSwitch on={colab() === true} toggle={() => this._run(actions.toggleColab)} />}
        <div className="ownlab-Popover-menu">{this._items(runtime).map((item, index) => this._renderItem(item, index))}</div>
      </>
    );
  }

  /** The actions that apply now; null: a separator. */
  private _items(runtime: Runtime | undefined): (IItem | null)[] {
    const { actions, hasKernel, hasPackages } = this._options;
    const connected = hasKernel();
    const items: (IItem | null | false)[] = [
      !connected && { label: text('Connect'), run: actions.connect },
      runtime?.may_extend === true && runtime.ends_at !== null && { label: text('Extend'), run: () => actions.extend(runtime) },
      { label: text('Change runtime type…'), run: actions.changeType },
      { label: text('View resources'), run: actions.showResources },
      connected && null,
      connected && { label: text('Restart…'), run: actions.restart },
      connected && { label: text('Restart and run all…'), run: actions.restartRunAll },
      (connected || hasPackages()) && null,
      connected && { label: text('Disconnect and delete runtime…'), run: actions.deleteRuntime, danger: true },
      (connected || hasPackages()) && { label: text('Factory reset…'), run: actions.factoryReset, danger: true }
    ];
    return items.filter(item => item !== false);
  }

  private _renderItem(item: IItem | null, index: number): React.JSX.Element {
    if (item === null) {
      return <hr key={`separator-${index}`} />;
    }
    return (
      <button key={item.label} className={`ownlab-Popover-item${item.danger ? ' ownlab-mod-danger' : ''}`} onClick={() => this._run(item.run)}>
        {item.label}
      </button>
    );
  }

  private _run(action: () => void): void {
    this._close(true);
    action();
  }

  private _close(focusAnchor: boolean): void {
    this.dispose();
    if (focusAnchor) {
      this._options.anchor.focus();
    }
  }

  private readonly _options: IPopoverOptions;
}

interface IItem {
  label: string;
  run: () => void;
  danger?: boolean;
}

function ColabSwitch({ on, toggle }: { on: boolean; toggle: () => void }): React.JSX.Element {
  return (
    <label className="ownlab-Popover-colab" title={text('Run the kernel with google.colab and /content, as Colab notebooks expect')}>
      <input type="checkbox" role="switch" checked={on} onChange={toggle} />
      {on ? text('Colab mode: on') : text('Colab mode: off')}
    </label>
  );
}

function Details({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element {
  const now = live.now();
  const host = hostOf(runtime, live.current?.host);
  return (
    <>
      <header className="ownlab-Popover-head">
        <strong>{runtimeName(runtime, live)}</strong>
        <span>{describeActivity(runtime, now)}</span>
      </header>
      <p className="ownlab-Popover-environment">{describeEnvironment(runtime, live)}</p>
      {runtime.node && <p className="ownlab-Popover-node">{text('On node {node}', { node: runtime.node })}</p>}
      {runtime.state === 'waiting' && runtime.why && <p className="ownlab-Popover-why">{runtime.why}</p>}
      {runtime.state === 'running' && (
        <div className="ownlab-Popover-bars">
          <MemoryBar label={text('RAM')} used={runtime.ram} total={host?.memory ?? null} />
          {runtime.cards.map(card => (
            <React.Fragment key={card.uuid}>
              <MemoryBar label={text('VRAM')} used={card.vram} total={card.booked} />
              <span className="ownlab-Popover-card">{describeCard(card)}</span>
              <CardVerdict uuid={card.uuid} live={live} />
            </React.Fragment>
          ))}
          {typeof host?.disk === 'number' && <MemoryBar label={text('Disk')} used={host.disk_used} total={host.disk} />}
        </div>
      )}
      {runtime.ends_at !== null && (
        <p className={runtime.warned ? 'ownlab-mod-warned' : ''}>{describeEnd(runtime, runtime.ends_at, now)}</p>
      )}
      {runtime.units_per_hour > 0 && runtime.started_at !== null && (
        <p>{describeCost(runtime)}</p>
      )}
    </>
  );
}

/** What limits the card, if that is known; the figures are in the panel. */
function CardVerdict({ uuid, live }: { uuid: string; live: LiveSnapshot }): React.JSX.Element | null {
  const verdict = live.current?.cards.find(card => card.uuid === uuid)?.verdict;
  return verdict ? (
    <span className="ownlab-Popover-verdict" title={verdict.advice}>
      {verdict.sentence}
    </span>
  ) : null;
}

/** "½ of card 2, GTX 1080 Ti". */
function describeCard(card: CardShare): string {
  const name = cardName(card.name);
  const share = formatShare(card.parts);
  const { index } = card;
  if (index === null) {
    return text('{name}, no longer in this machine', { name });
  }
  return card.parts === PARTS ? text('card {index}, {name}', { index, name }) : text('{share} of card {index}, {name}', { share, index, name });
}
