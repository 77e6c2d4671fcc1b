/** The side panel: all runtimes of this machine, its cards, and curves of the last minutes. */
import * as React from 'react';
import { bookedMemory, describeActivity, describeActivityBriefly, describeCost, describeTimeLeft, formatPercent, hostOf, notebookName, runtimeName } from '../formatting';
import { runtimesIcon } from '../icons';
import type { Point, Runtime, RuntimePoint, Snapshot } from '../records';
import { listing, plural, text } from '../text';
import { Cards } from './cards';
import { hasNodeTerminal } from './commands';
import { LabelledCurve, MachineHistory, MemoryBar } from './charts';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface IPanelActions {
  extend: (runtime: Runtime) => void;
  stop: (runtime: Runtime) => void;
  openTerminal: (runtime: Runtime) => void;
  /** Return a function that opens the notebook; undefined if it belongs to another lab or there is none. */
  opener: (runtime: Runtime) => (() => void) | undefined;
}

export class RuntimesPanel extends LiveWidget {
  constructor(live: LiveSnapshot, actions: IPanelActions) {
    super(live);
    this._actions = actions;
    this.id = 'ownlab-runtimes';
    this.addClass('ownlab-Panel');
    this.title.icon = runtimesIcon;
    this.title.caption = text('Runtimes and cards');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', text('Runtimes and cards'));
  }

  protected render(): React.JSX.Element {
    const snapshot = this.live.current;
    return (
      <div className="ownlab-Panel-scroll">
        {this.live.failure && <p className="ownlab-Notice ownlab-mod-failure">{this.live.failure}</p>}
        {snapshot && <PanelContent snapshot={snapshot} live={this.live} actions={this._actions} />}
        {!snapshot && !this.live.failure && <p className="ownlab-Empty">{text('Waiting for the server…')}</p>}
      </div>
    );
  }

  private readonly _actions: IPanelActions;
}

interface IPanelContentProps {
  snapshot: Snapshot;
  live: LiveSnapshot;
  actions: IPanelActions;
}

function PanelContent({ snapshot, live, actions }: IPanelContentProps): React.JSX.Element {
  const own = snapshot.runtimes.filter(runtime => runtime.person === snapshot.person);
  const others = snapshot.runtimes.filter(runtime => runtime.person !== snapshot.person);
  return (
    <>
      {snapshot.notices.map(notice => (
        <p key={notice} className="ownlab-Notice">
          {notice}
        </p>
      ))}
      <Cards cards={snapshot.cards} runtimes={snapshot.runtimes} person={snapshot.person} now={live.now()} history={live.history} />
      <section className="ownlab-Section" aria-label={text('Your runtimes')}>
        <h3>{text('Your runtimes')}</h3>
        {own.length === 0 && <p className="ownlab-Empty">{text('No runtimes yet. Running a cell of a notebook starts one.')}</p>}
        {own.map(runtime => (
          <RuntimeRow key={runtime.id} runtime={runtime} live={live} actions={actions} />
        ))}
      </section>
      {others.length > 0 && (
        <section className="ownlab-Section" aria-label={text('Runtimes of other users')}>
          <h3>{text('Runtimes of other users')}</h3>
          {others.map(runtime => (
            <RuntimeRow key={runtime.id} runtime={runtime} live={live} actions={actions} />
          ))}
        </section>
      )}
      <MachineHistory snapshot={snapshot} history={live.history} />
      <footer className="ownlab-Panel-foot" title={snapshot.store}>
        {snapshot.shared
          ? text('Cards are shared with other users through the machine’s store.')
          : text('This store is private: runtimes of other users are not shown.')}
      </footer>
    </>
  );
}

interface IRuntimeRowProps {
  runtime: Runtime;
  live: LiveSnapshot;
  actions: IPanelActions;
}

/** One line; a click shows the rest. */
function RuntimeRow({ runtime, live, actions }: IRuntimeRowProps): React.JSX.Element {
  const [expanded, setExpanded] = React.useState(false);
  const notebook = notebookName(runtime.notebook);
  const isOther = runtime.person !== live.current?.person;
  const name = runtimeName(runtime, live);
  const activity = describeActivityBriefly(runtime, live.now());
  return (
    <article className={`ownlab-Runtime ownlab-state-${runtime.state}`} aria-label={notebook}>
      <div className="ownlab-Runtime-head">
        <BusyDot runtime={runtime} />
        <NotebookLink runtime={runtime} open={actions.opener(runtime)} />
        <button
          className="ownlab-Runtime-expand"
          aria-expanded={expanded}
          aria-label={text('Details of the runtime of {notebook}', { notebook })}
          title={runtime.why || runtime.label}
          onClick={() => setExpanded(!expanded)}
        >
          <span className={`ownlab-Runtime-brief${runtime.warned ? ' ownlab-mod-warned' : ''}`}>
            {isOther
              ? text('{person} · {name} · {activity}', { person: runtime.person, name, activity })
              : text('{name} · {activity}', { name, activity })}
          </span>
        </button>
      </div>
      {expanded && <RuntimeDetails runtime={runtime} live={live} actions={actions} />}
    </article>
  );
}

function RuntimeDetails({ runtime, live, actions }: IRuntimeRowProps): React.JSX.Element {
  const now = live.now();
  const left = describeTimeLeft(runtime, now);
  const isRunning = runtime.state === 'running';
  return (
    <div className="ownlab-Runtime-more">
      <div className="ownlab-Runtime-line">
        {runtime.node && <span>{text('node {node}', { node: runtime.node })}</span>}
        {runtime.cards.length > 0 && <span className="ownlab-Runtime-cards">{describeCards(runtime)}</span>}
        <span className="ownlab-Runtime-activity" title={runtime.why}>
          {describeActivity(runtime, now)}
        </span>
        {left && (
          <span className={runtime.warned ? 'ownlab-mod-warned' : ''} title={runtime.ends_why}>
            {left}
          </span>
        )}
        {runtime.units_per_hour > 0 && runtime.started_at !== null && <span>{describeCost(runtime)}</span>}
      </div>
      {runtime.state === 'waiting' && runtime.why && <p className="ownlab-Runtime-why">{runtime.why}</p>}
      {isRunning && (
        <div className="ownlab-Runtime-bars">
          <MemoryBar label={text('RAM')} used={runtime.ram} total={hostOf(runtime, live.current?.host)?.memory ?? null} />
          {runtime.cards.length > 0 && <MemoryBar label={text('VRAM')} used={runtime.vram} total={bookedMemory(runtime)} />}
        </div>
      )}
      {isRunning && <RuntimeCurves runtime={runtime} live={live} />}
      {runtime.mine && <RuntimeButtons runtime={runtime} actions={actions} />}
    </div>
  );
}

/** CPU and GPU utilization of a runtime's processes in the last minutes. */
function RuntimeCurves({ runtime, live }: { runtime: Runtime; live: LiveSnapshot }): React.JSX.Element | null {
  const { history, current } = live;
  const host = hostOf(runtime, current?.host);
  if (history.length < 2) {
    return null;
  }
  const cores = host?.cores ?? null;
  const at = (point: Point): RuntimePoint | undefined => point.runtimes.find(({ id }) => id === runtime.id);
  const maximum = Math.max(100 * (cores ?? 1), ...(cores === null ? history.map(point => at(point)?.cpu ?? 0) : []));
  return (
    <div className="ownlab-Runtime-curves">
      <LabelledCurve label={text('CPU')} figure={describeCores(runtime, cores)} maximum={maximum} points={history} value={point => at(point)?.cpu} />
      {runtime.cards.length > 0 && (
        <LabelledCurve
          label={text('GPU')}
          figure={formatPercent(runtime.utilisation)}
          maximum={100}
          points={history}
          value={point => at(point)?.utilisation}
        />
      )}
    </div>
  );
}

/** "1.2 of 8 cores". */
function describeCores({ cpu }: Runtime, cores: number | null): string {
  if (cpu === null) {
    return '–';
  }
  const used = String(Number((cpu / 100).toFixed(1)));
  return cores === null ? text('{used} cores', { used }) : text('{used} of {cores} cores', { used, cores });
}

/** "card 0", "cards 1 and 2", "card 1, 2 missing". */
function describeCards({ cards }: Runtime): string {
  const numbers = cards.flatMap(({ index }) => (index === null ? [] : [String(index)]));
  const missing = cards.length - numbers.length;
  const list = listing(numbers);
  if (numbers.length === 0) {
    return plural(missing, 'card missing', '{n} cards missing');
  }
  if (missing > 0) {
    return numbers.length === 1
      ? text('card {list}, {missing} missing', { list, missing })
      : text('cards {list}, {missing} missing', { list, missing });
  }
  return numbers.length === 1 ? text('card {list}', { list }) : text('cards {list}', { list });
}

function BusyDot({ runtime }: { runtime: Runtime }): React.JSX.Element {
  const busy = runtime.state === 'running' && runtime.busy;
  return <span className={`ownlab-Dot${busy ? ' ownlab-mod-busy' : ''}`} aria-hidden="true" />;
}

function NotebookLink({ runtime, open }: { runtime: Runtime; open: (() => void) | undefined }): React.JSX.Element {
  const name = <span className="ownlab-Runtime-name">{notebookName(runtime.notebook)}</span>;
  if (!open) {
    return (
      <span className="ownlab-Runtime-notebook" title={runtime.notebook}>
        {name}
      </span>
    );
  }
  return (
    <button className="ownlab-Runtime-notebook ownlab-mod-link" title={text('Open {path}', { path: runtime.notebook })} onClick={open}>
      {name}
    </button>
  );
}

function RuntimeButtons({ runtime, actions }: { runtime: Runtime; actions: IPanelActions }): React.JSX.Element {
  const notebook = notebookName(runtime.notebook);
  return (
    <span className="ownlab-Runtime-buttons">
      {runtime.may_extend && runtime.ends_at !== null && (
        <button className="ownlab-Button" aria-label={text('Extend the runtime of {notebook}', { notebook })} onClick={() => actions.extend(runtime)}>
          {text('Extend')}
        </button>
      )}
      {hasNodeTerminal(runtime) && (
        <button
          className="ownlab-Button"
          title={text('Open a terminal on {node}, in the job of this notebook', { node: runtime.node })}
          aria-label={text('Open a terminal on the node of {notebook}', { notebook })}
          onClick={() => actions.openTerminal(runtime)}
        >
          {text('Terminal')}
        </button>
      )}
      {runtime.state !== 'ending' && (
        <button
          className="ownlab-Button ownlab-mod-danger"
          aria-label={text('Stop the runtime of {notebook}', { notebook })}
          onClick={() => actions.stop(runtime)}
        >
          {text('Stop')}
        </button>
      )}
    </span>
  );
}
