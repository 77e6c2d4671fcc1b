/** The side panel: all runtimes of this machine, its cards, and the last minutes. */
import * as React from 'react';
import { activity, booked, listed, notebookName, percent, rate, runtimeName, timeLeft, units } from '../formatting';
import { runtimesIcon } from '../icons';
import type { Point, Runtime, RuntimePoint, Snapshot } from '../records';
import { Cards } from './cards';
import { Graph, Labelled, MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface IPanelActions {
  extend: (runtime: Runtime) => void;
  stop: (runtime: Runtime) => void;
  /** Opens the notebook; undefined where it belongs to another lab, or to none. */
  opener: (runtime: Runtime) => (() => void) | undefined;
}

export class RuntimesPanel extends LiveWidget {
  constructor(live: LiveSnapshot, actions: IPanelActions) {
    super(live);
    this._actions = actions;
    this.id = 'ownlab-runtimes';
    this.addClass('ownlab-Panel');
    this.title.icon = runtimesIcon;
    this.title.caption = 'Runtimes and cards';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Runtimes and cards');
  }

  protected render(): React.JSX.Element {
    const snapshot = this.live.current;
    return (
      <div className="ownlab-Panel-scroll">
        <h2 className="ownlab-Panel-title">Runtimes</h2>
        {this.live.failure && <p className="ownlab-Notice ownlab-mod-failure">{this.live.failure}</p>}
        {snapshot && <Everything snapshot={snapshot} live={this.live} actions={this._actions} />}
        {!snapshot && !this.live.failure && <p className="ownlab-Empty">Waiting for the server…</p>}
      </div>
    );
  }

  private readonly _actions: IPanelActions;
}

interface IEverythingProps {
  snapshot: Snapshot;
  live: LiveSnapshot;
  actions: IPanelActions;
}

function Everything({ snapshot, live, actions }: IEverythingProps): React.JSX.Element {
  const yours = snapshot.runtimes.filter(one => one.person === snapshot.person);
  const others = snapshot.runtimes.filter(one => one.person !== snapshot.person);
  return (
    <>
      {snapshot.notices.map(notice => (
        <p key={notice} className="ownlab-Notice">
          {notice}
        </p>
      ))}
      <section className="ownlab-Section" aria-label="Your runtimes">
        {others.length > 0 && <h3>Yours</h3>}
        {yours.length === 0 && <p className="ownlab-Empty">None yet. Open a notebook, or choose a type in the launcher.</p>}
        {yours.map(one => (
          <Row key={one.id} runtime={one} live={live} actions={actions} />
        ))}
      </section>
      {others.length > 0 && (
        <section className="ownlab-Section" aria-label="Runtimes of others">
          <h3>Others’</h3>
          {others.map(one => (
            <Row key={one.id} runtime={one} live={live} actions={actions} />
          ))}
        </section>
      )}
      <Cards
        cards={snapshot.cards}
        runtimes={snapshot.runtimes}
        person={snapshot.person}
        now={live.now()}
        history={live.history}
      />
      <Graph snapshot={snapshot} history={live.history} />
      <footer className="ownlab-Panel-foot" title={snapshot.store}>
        {snapshot.shared ? 'Cards are shared through the machine’s store.' : 'The store is your own: others’ runtimes are not seen.'}
      </footer>
    </>
  );
}

interface IRowProps {
  runtime: Runtime;
  live: LiveSnapshot;
  actions: IPanelActions;
}

function Row({ runtime, live, actions }: IRowProps): React.JSX.Element {
  const now = live.now();
  const left = timeLeft(runtime, now);
  const foreign = runtime.person !== live.current?.person;
  return (
    <article className={`ownlab-Runtime ownlab-state-${runtime.state}`} aria-label={notebookName(runtime.notebook)}>
      <div className="ownlab-Runtime-head">
        <span className="ownlab-Runtime-title">
          <Dot runtime={runtime} />
          <Notebook runtime={runtime} open={actions.opener(runtime)} />
        </span>
        {runtime.mine && <Buttons runtime={runtime} actions={actions} />}
      </div>
      <div className="ownlab-Runtime-line">
        {foreign && <span className="ownlab-Runtime-person">{runtime.person}</span>}
        <span className="ownlab-Runtime-type" title={runtime.label}>
          {runtimeName(runtime, live)}
        </span>
        {runtime.cards.length > 0 && <span className="ownlab-Runtime-cards">{cardNumbers(runtime)}</span>}
      </div>
      <div className="ownlab-Runtime-line">
        <span className="ownlab-Runtime-activity" title={runtime.why}>
          {activity(runtime, now)}
        </span>
        {left && (
          <span className={runtime.warned ? 'ownlab-mod-warned' : ''} title={runtime.ends_why}>
            {left}
          </span>
        )}
      </div>
      {runtime.state === 'running' && (
        <div className="ownlab-Runtime-bars">
          <MemoryBar label="RAM" used={runtime.ram} whole={live.current?.host.memory ?? null} />
          {runtime.cards.length > 0 && <MemoryBar label="VRAM" used={runtime.vram} whole={booked(runtime)} />}
        </div>
      )}
      {runtime.state === 'running' && <Curves runtime={runtime} live={live} />}
      {runtime.units_per_hour > 0 && runtime.started_at !== null && (
        <div className="ownlab-Runtime-cost">
          {rate(runtime.units_per_hour)}, {units(runtime.units)} so far
        </div>
      )}
    </article>
  );
}

/** What its processes did in the last minutes: on the cores, and on its cards. */
function Curves({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element | null {
  const { history, current } = live;
  if (history.length < 2) {
    return null;
  }
  const cores = current?.host.cores ?? null;
  const at = (point: Point): RuntimePoint | undefined => point.runtimes.find(one => one.id === runtime.id);
  const most = Math.max(100 * (cores ?? 1), ...(cores === null ? history.map(point => at(point)?.cpu ?? 0) : []));
  return (
    <div className="ownlab-Runtime-curves">
      <Labelled label="CPU" figure={coresOf(runtime, cores)} most={most} points={history} value={point => at(point)?.cpu} />
      {runtime.cards.length > 0 && (
        <Labelled
          label="GPU"
          figure={percent(runtime.utilisation)}
          most={100}
          points={history}
          value={point => at(point)?.utilisation}
        />
      )}
    </div>
  );
}

/** "1.2 of 8 cores". */
function coresOf({ cpu }: Runtime, cores: number | null): string {
  if (cpu === null) {
    return '–';
  }
  const used = String(Number((cpu / 100).toFixed(1)));
  return cores === null ? `${used} cores` : `${used} of ${cores} cores`;
}

/** "card 0", "cards 1 and 2", "card 1, 2 gone". */
function cardNumbers({ cards }: Runtime): string {
  const numbers = cards.flatMap(({ index }) => (index === null ? [] : [String(index)]));
  const gone = cards.length - numbers.length;
  if (numbers.length === 0) {
    return gone === 1 ? 'card gone' : 'cards gone';
  }
  return `${numbers.length === 1 ? 'card' : 'cards'} ${listed(numbers)}${gone ? `, ${gone} gone` : ''}`;
}

function Dot({ runtime }: { runtime: Runtime }): React.JSX.Element {
  const busy = runtime.state === 'running' && runtime.busy;
  return <span className={`ownlab-Dot${busy ? ' ownlab-mod-busy' : ''}`} aria-hidden="true" />;
}

function Notebook({ runtime, open }: { runtime: Runtime; open: (() => void) | undefined }): React.JSX.Element {
  const name = <span className="ownlab-Runtime-name">{notebookName(runtime.notebook)}</span>;
  if (!open) {
    return (
      <span className="ownlab-Runtime-notebook" title={runtime.notebook}>
        {name}
      </span>
    );
  }
  return (
    <button className="ownlab-Runtime-notebook ownlab-mod-link" title={`Open ${runtime.notebook}`} onClick={open}>
      {name}
    </button>
  );
}

function Buttons({ runtime, actions }: { runtime: Runtime; actions: IPanelActions }): React.JSX.Element {
  const name = notebookName(runtime.notebook);
  return (
    <span className="ownlab-Runtime-buttons">
      {runtime.may_extend && runtime.ends_at !== null && (
        <button className="ownlab-Button" aria-label={`Extend the runtime of ${name}`} onClick={() => actions.extend(runtime)}>
          Extend
        </button>
      )}
      {runtime.state !== 'ending' && (
        <button
          className="ownlab-Button ownlab-mod-danger"
          aria-label={`Stop the runtime of ${name}`}
          onClick={() => actions.stop(runtime)}
        >
          Stop
        </button>
      )}
    </span>
  );
}
