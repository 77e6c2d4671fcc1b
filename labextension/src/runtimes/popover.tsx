/** The popover below the indicator, with the details of a notebook's runtime. Escape or a click outside closes it. */
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { cardName, describeActivity, describeCost, describeEnd, formatShare, PARTS, runtimeName } from '../formatting';
import type { CardShare, Runtime } from '../records';
import { text } from '../text';
import { MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

/** The actions on a runtime. */
export interface IRuntimeActions {
  extend: (runtime: Runtime) => void;
  stop: (runtime: Runtime) => void;
  changeType: () => void;
  showAll: () => void;
  toggleColab: () => void;
}

export interface IPopoverOptions {
  live: LiveSnapshot;
  anchor: HTMLElement;
  /** Called on each rendering: the notebook may get another runtime meanwhile. */
  runtime: () => Runtime | undefined;
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
    const runtime = this._options.runtime();
    if (!runtime) {
      return <p className="ownlab-Popover-gone">{text('The runtime has ended.')}</p>;
    }
    const { actions, colab } = this._options;
    return <Details runtime={runtime} live={this.live} colab={colab()} run={action => this._run(action)} actions={actions} />;
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

interface IDetailsProps {
  runtime: Runtime;
  live: LiveSnapshot;
  colab: boolean | null;
  run: (action: () => void) => void;
  actions: IRuntimeActions;
}

function Details({ runtime, live, colab, run, actions }: IDetailsProps): React.JSX.Element {
  const now = live.now();
  return (
    <>
      <header className="ownlab-Popover-head">
        <strong>{runtimeName(runtime, live)}</strong>
        <span>{describeActivity(runtime, now)}</span>
      </header>
      {runtime.state === 'waiting' && runtime.why && <p className="ownlab-Popover-why">{runtime.why}</p>}
      {runtime.state === 'running' && (
        <div className="ownlab-Popover-bars">
          <MemoryBar label={text('RAM')} used={runtime.ram} total={live.current?.host.memory ?? null} />
          {runtime.cards.map(card => (
            <React.Fragment key={card.uuid}>
              <MemoryBar label={text('VRAM')} used={card.vram} total={card.booked} />
              <span className="ownlab-Popover-card">{describeCard(card)}</span>
              <CardVerdict uuid={card.uuid} live={live} />
            </React.Fragment>
          ))}
        </div>
      )}
      {runtime.ends_at !== null && (
        <p className={runtime.warned ? 'ownlab-mod-warned' : ''}>{describeEnd(runtime, runtime.ends_at, now)}</p>
      )}
      {runtime.units_per_hour > 0 && runtime.started_at !== null && (
        <p>{describeCost(runtime)}</p>
      )}
      {colab !== null && (
        <label className="ownlab-Popover-colab" title={text('Run the kernel with google.colab and /content, as Colab notebooks expect')}>
          <input type="checkbox" role="switch" checked={colab} onChange={() => run(actions.toggleColab)} />
          {colab ? text('Colab mode: on') : text('Colab mode: off')}
        </label>
      )}
      <footer className="ownlab-Popover-actions">
        {runtime.may_extend && runtime.ends_at !== null && (
          <button className="ownlab-Button" onClick={() => run(() => actions.extend(runtime))}>
            {text('Extend')}
          </button>
        )}
        <button className="ownlab-Button" onClick={() => run(actions.changeType)}>
          {text('Change type…')}
        </button>
        <button className="ownlab-Button" onClick={() => run(actions.showAll)}>
          {text('All runtimes')}
        </button>
        <button className="ownlab-Button ownlab-mod-danger" onClick={() => run(() => actions.stop(runtime))}>
          {text('Stop…')}
        </button>
      </footer>
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
