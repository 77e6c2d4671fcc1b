/** The machine's cards: who has booked or uses them, what is free, and how well they are used. */
import * as React from 'react';
import { cardName, formatBytesOf, formatPercent, formatShare, formatTime, notebookName, PARTS } from '../formatting';
import type { CardHolder, CardState, Point, Runtime } from '../records';
import { facts, sentences, text } from '../text';
import { Curve } from './charts';

export interface ICardsProps {
  cards: ReadonlyArray<CardState>;
  runtimes: ReadonlyArray<Runtime>;
  person: string;
  now: number;
  history: ReadonlyArray<Point>;
}

export function Cards({ cards, runtimes, person, now, history }: ICardsProps): React.JSX.Element | null {
  if (cards.length === 0) {
    return null;
  }
  const mine = new Set(runtimes.filter(runtime => runtime.mine && runtime.person === person).map(runtime => runtime.id));
  return (
    <section className="ownlab-Section ownlab-Cards" aria-label={text('Cards')}>
      <h3>{text('Cards')}</h3>
      {cards.map(card => (
        <Card key={card.uuid} card={card} mine={mine} now={now} history={history} />
      ))}
    </section>
  );
}

interface ICardProps {
  card: CardState;
  mine: ReadonlySet<string>;
  now: number;
  history: ReadonlyArray<Point>;
}

/** One line for a card that nobody uses; else who uses it, and how well. */
function Card({ card, mine, now, history }: ICardProps): React.JSX.Element {
  const isFree = card.free_parts === PARTS && card.strangers.length === 0;
  const percent = card.utilisation === null ? '' : formatPercent(card.utilisation);
  return (
    <div className="ownlab-Card" title={card.uuid}>
      <div className="ownlab-Card-head">
        <span className="ownlab-Card-name">
          {card.index} · {cardName(card.name)}
        </span>
        {isFree && <span className="ownlab-mod-free">{text('free')}</span>}
        {!isFree && percent && (
          <span className="ownlab-Card-busy" title={text('A kernel was running {percent} of the time.', { percent })}>
            {percent}
          </span>
        )}
      </div>
      {!isFree && <CardUsers card={card} mine={mine} now={now} />}
      {(!isFree || isInUse(card)) && <CardUtilization card={card} history={history} />}
    </div>
  );
}

/** Something runs on the card although nobody has booked it, or the driver does not name it. */
function isInUse({ utilisation, verdict }: CardState): boolean {
  return (utilisation ?? 0) > 0 || (verdict !== null && verdict.code !== 'idle');
}

function CardUsers({ card, mine, now }: Omit<ICardProps, 'history'>): React.JSX.Element {
  const memory = card.memory !== null && card.memory_used !== null ? formatBytesOf(card.memory_used, card.memory) : '';
  const isShared = card.strangers.length > 0 || card.free_parts > 0 || card.holders.length > 1;
  return (
    <>
      <ul className="ownlab-Card-who">
        {card.holders.map(holder => (
          <li key={holder.runtime} title={text('Since {time}', { time: formatTime(holder.since, now) })}>
            {describeUser(holder, mine.has(holder.runtime))}
          </li>
        ))}
        {card.strangers.map(stranger => (
          <li key={stranger} className="ownlab-mod-stranger">
            {stranger}
          </li>
        ))}
        {card.free_parts > 0 && <li className="ownlab-mod-free">{text('{share} free', { share: formatShare(card.free_parts) })}</li>}
        {memory && <li className="ownlab-Card-memory">{memory}</li>}
      </ul>
      {isShared && <CardParts card={card} mine={mine} />}
    </>
  );
}

/** Who has which part of a card that several share. */
function CardParts({ card, mine }: { card: CardState; mine: ReadonlySet<string> }): React.JSX.Element {
  return (
    <div className="ownlab-Card-parts" aria-hidden="true">
      {card.holders.map(holder => (
        <span
          key={holder.runtime}
          className={`ownlab-Part ${mine.has(holder.runtime) ? 'ownlab-mod-mine' : 'ownlab-mod-other'}`}
          style={{ flexGrow: holder.parts }}
        />
      ))}
      {card.strangers.length > 0 && <span className="ownlab-Part ownlab-mod-stranger" style={{ flexGrow: unbookedParts(card) }} />}
      {card.free_parts > 0 && <span className="ownlab-Part ownlab-mod-free" style={{ flexGrow: card.free_parts }} />}
    </div>
  );
}

/** "you · train.ipynb", "½ ann · train.ipynb". */
function describeUser({ person, notebook: path, parts }: CardHolder, mine: boolean): string {
  const notebook = notebookName(path);
  if (parts === PARTS) {
    return mine ? text('you · {notebook}', { notebook }) : text('{person} · {notebook}', { person, notebook });
  }
  const share = formatShare(parts);
  return mine ? text('{share} you · {notebook}', { share, notebook }) : text('{share} {person} · {notebook}', { share, person, notebook });
}

/** "½: ann, train.ipynb, since 10:02". */
export function describeHolder(holder: CardHolder, mine: boolean, now: number): string {
  const { person } = holder;
  const notebook = notebookName(holder.notebook);
  const time = formatTime(holder.since, now);
  if (holder.parts === PARTS) {
    return mine ? text('you, {notebook}, since {time}', { notebook, time }) : text('{person}, {notebook}, since {time}', { person, notebook, time });
  }
  const share = formatShare(holder.parts);
  return mine
    ? text('{share}: you, {notebook}, since {time}', { share, notebook, time })
    : text('{share}: {person}, {notebook}, since {time}', { share, person, notebook, time });
}

/** Return the number of parts that no runtime has booked; at least one, so that other users of the card are visible. */
function unbookedParts(card: CardState): number {
  return Math.max(1, PARTS - card.holders.reduce((sum, holder) => sum + holder.parts, 0) - card.free_parts);
}

/** A percentage, with a sentence that explains it. */
interface IMetric {
  id: 'busy' | 'power' | 'sm' | 'tensor' | 'dram';
  name: string;
  meaning: string;
  value: number | null;
}

function CardUtilization({ card, history }: { card: CardState; history: ReadonlyArray<Point> }): React.JSX.Element | null {
  const metrics = metricsOf(card).filter(({ value }) => value !== null);
  if (metrics.length === 0 && !card.verdict) {
    return null;
  }
  const at = (point: Point) => point.cards.find(({ uuid }) => uuid === card.uuid);
  const measured = card.saturation !== null;
  return (
    <div className="ownlab-Work" role="group" aria-label={text('Utilization of card {index}', { index: card.index })}>
      {history.length > 1 && (
        <Curve
          points={history}
          maximum={100}
          value={point => (measured ? at(point)?.sm : at(point)?.utilisation)}
          background={measured ? point => at(point)?.utilisation : undefined}
          description={facts(metrics.map(({ name, value }) => text('{name} {percent}', { name, percent: formatPercent(value) })))}
        />
      )}
      <CardDetails card={card} metrics={metrics} />
    </div>
  );
}

/** A sentence about the use of the card; a click shows the advice and the figures behind it. */
function CardDetails({ card, metrics }: { card: CardState; metrics: readonly IMetric[] }): React.JSX.Element {
  const { verdict, power, temperature, saturation } = card;
  const figures = [power !== null ? `${Math.round(power)} W` : '', temperature !== null ? `${Math.round(temperature)} °C` : ''].filter(Boolean);
  return (
    <details className={`ownlab-Verdict ownlab-verdict-${verdict?.code ?? 'none'}`}>
      <summary>{verdict?.sentence ?? text('Details')}</summary>
      <div className="ownlab-Verdict-more">
        {verdict?.advice}
        {verdict && verdict.because.length > 0 && (
          <ul>
            {verdict.because.map(reason => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        )}
        <div className="ownlab-Work-shares">
          {metrics.map(metric => (
            <Metric key={metric.id} metric={metric} highlighted={saturation !== null && metric.id === 'busy'} />
          ))}
        </div>
        <div className="ownlab-Card-figures">{figures.join(' · ')}</div>
      </div>
    </details>
  );
}

/** Return what is known in percent; without GPM's metrics, the power gives a hint. */
function metricsOf({ utilisation, saturation, no_saturation, power, power_limit }: CardState): IMetric[] {
  const percent = formatPercent(utilisation);
  const busy: IMetric = {
    id: 'busy',
    name: text('busy'),
    meaning: sentences(
      text('A kernel was running {percent} of the time, as reported by nvidia-smi.', { percent }),
      no_saturation ? text('It is not known how much of the card was used: {reason}', { reason: no_saturation }) : ''
    ),
    value: utilisation
  };
  if (!saturation) {
    const value = power !== null && power_limit ? (100 * power) / power_limit : null;
    const meaning = text('The card draws {percent} of its power limit.', { percent: formatPercent(value) });
    return [busy, { id: 'power', name: text('power'), meaning, value }];
  }
  const { sm, tensor, dram } = saturation;
  return [
    busy,
    {
      id: 'sm',
      name: text('SMs'),
      meaning: text('On average, {percent} of the multiprocessors were active.', { percent: formatPercent(sm) }),
      value: sm
    },
    {
      id: 'tensor',
      name: text('tensor'),
      meaning: text('The tensor cores were active {percent} of the time.', { percent: formatPercent(tensor) }),
      value: tensor
    },
    {
      id: 'dram',
      name: text('DRAM'),
      meaning: text('{percent} of the memory bandwidth was used.', { percent: formatPercent(dram) }),
      value: dram
    }
  ];
}

function Metric({ metric, highlighted }: { metric: IMetric; highlighted: boolean }): React.JSX.Element {
  const { name, meaning, value } = metric;
  return (
    <span className={`ownlab-Share${highlighted ? ' ownlab-mod-busy' : ''}`} title={meaning}>
      <span className="ownlab-Share-label">{name}</span>
      <span className="ownlab-Share-figure">{formatPercent(value)}</span>
      <span className="ownlab-Share-track" aria-hidden="true">
        <span className="ownlab-Share-fill" style={{ width: `${Math.min(100, value ?? 0)}%` }} />
      </span>
    </span>
  );
}
