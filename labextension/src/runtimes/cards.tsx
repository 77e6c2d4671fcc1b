/** The machine's cards: who holds which part, who uses one without a lease, what is free, and what each one does. */
import * as React from 'react';
import { bytesOf, cardName, clock, notebookName, PARTS, percent, share } from '../formatting';
import type { CardHolder, CardState, Point, Runtime, Verdict } from '../records';
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
  const mine = new Set(runtimes.filter(one => one.mine && one.person === person).map(one => one.id));
  return (
    <section className="ownlab-Section ownlab-Cards" aria-label="Cards">
      <h3>Cards</h3>
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

function Card({ card, mine, now, history }: ICardProps): React.JSX.Element {
  const figures = [
    card.memory !== null && card.memory_used !== null ? bytesOf(card.memory_used, card.memory) : '',
    card.power !== null ? `${Math.round(card.power)} W` : '',
    card.temperature !== null ? `${Math.round(card.temperature)} °C` : ''
  ].filter(Boolean);
  return (
    <div className="ownlab-Card" title={card.uuid}>
      <div className="ownlab-Card-head">
        <span className="ownlab-Card-name">
          {card.index} · {cardName(card.name)}
        </span>
        <span className="ownlab-Card-figures">{figures.join(' · ')}</span>
      </div>
      <div className="ownlab-Card-parts" aria-hidden="true">
        {card.holders.map(holder => (
          <span
            key={holder.runtime}
            className={`ownlab-Part ${mine.has(holder.runtime) ? 'ownlab-mod-mine' : 'ownlab-mod-other'}`}
            style={{ flexGrow: holder.parts }}
          />
        ))}
        {card.strangers.length > 0 && <span className="ownlab-Part ownlab-mod-stranger" style={{ flexGrow: unheld(card) }} />}
        {card.free_parts > 0 && <span className="ownlab-Part ownlab-mod-free" style={{ flexGrow: card.free_parts }} />}
      </div>
      <ul className="ownlab-Card-who">
        {card.holders.map(holder => (
          <li key={holder.runtime}>{holderWords(holder, mine.has(holder.runtime), now)}</li>
        ))}
        {card.strangers.map(stranger => (
          <li key={stranger} className="ownlab-mod-stranger">
            {stranger}
          </li>
        ))}
        {card.free_parts > 0 && (
          <li className="ownlab-mod-free">{card.free_parts === PARTS ? 'free' : `${share(card.free_parts)} free`}</li>
        )}
      </ul>
      <Work card={card} history={history} />
    </div>
  );
}

/** "½: ann, train.ipynb, since 10:02". */
export function holderWords(holder: CardHolder, mine: boolean, now: number): string {
  const part = holder.parts === PARTS ? '' : `${share(holder.parts)}: `;
  return `${part}${mine ? 'you' : holder.person}, ${notebookName(holder.notebook)}, since ${clock(holder.since, now)}`;
}

/** Parts that nobody booked; at least a sliver, so that a stranger is always seen. */
function unheld(card: CardState): number {
  return Math.max(1, PARTS - card.holders.reduce((sum, holder) => sum + holder.parts, 0) - card.free_parts);
}

interface IShare {
  name: string;
  meaning: string;
  value: number | null;
}

export function Work({ card, history }: { card: CardState; history: ReadonlyArray<Point> }): React.JSX.Element | null {
  const shares = sharesOf(card).filter(({ value }) => value !== null);
  if (shares.length === 0 && !card.verdict) {
    return null;
  }
  const at = (point: Point) => point.cards.find(one => one.uuid === card.uuid);
  const measured = card.saturation !== null;
  return (
    <div className="ownlab-Work" role="group" aria-label={`Work of card ${card.index}`}>
      {history.length > 1 && (
        <Curve
          points={history}
          most={100}
          value={point => (measured ? at(point)?.sm : at(point)?.utilisation)}
          behind={measured ? point => at(point)?.utilisation : undefined}
          spoken={shares.map(({ name, value }) => `${name} ${percent(value)}`).join(', ')}
        />
      )}
      <div className="ownlab-Work-shares">
        {shares.map(one => (
          <Share key={one.name} share={one} behind={measured && one.name === 'busy'} />
        ))}
      </div>
      {card.verdict && <CardVerdict verdict={card.verdict} />}
    </div>
  );
}

/** What can be told in percent; without GPM's figures, power says a little. */
function sharesOf({ utilisation, saturation, no_saturation, power, power_limit }: CardState): IShare[] {
  const more = no_saturation ? `. How much of the card worked is not known: ${no_saturation}` : '';
  const busy = {
    name: 'busy',
    meaning: `of the time, in which any kernel ran: what nvidia-smi says${more}`,
    value: utilisation
  };
  if (!saturation) {
    const drawn = power !== null && power_limit ? (100 * power) / power_limit : null;
    return [busy, { name: 'power', meaning: 'of the power that it may draw', value: drawn }];
  }
  return [
    busy,
    { name: 'SMs', meaning: 'of its multiprocessors worked, on average', value: saturation.sm },
    { name: 'tensor', meaning: 'of what its tensor cores could do', value: saturation.tensor },
    { name: 'DRAM', meaning: 'of its memory’s bandwidth', value: saturation.dram }
  ];
}

function Share({ share, behind }: { share: IShare; behind: boolean }): React.JSX.Element {
  const { name, meaning, value } = share;
  return (
    <span className={`ownlab-Share${behind ? ' ownlab-mod-busy' : ''}`} title={`${percent(value)} ${meaning}`}>
      <span className="ownlab-Share-label">{name}</span>
      <span className="ownlab-Share-figure">{percent(value)}</span>
      <span className="ownlab-Share-track" aria-hidden="true">
        <span className="ownlab-Share-fill" style={{ width: `${Math.min(100, value ?? 0)}%` }} />
      </span>
    </span>
  );
}

/** The sentence; what to try, and the figures that it rests on, where somebody asks. */
function CardVerdict({ verdict }: { verdict: Verdict }): React.JSX.Element {
  const { code, sentence, advice, because } = verdict;
  if (!advice && because.length === 0) {
    return <div className={`ownlab-Verdict ownlab-verdict-${code}`}>{sentence}</div>;
  }
  return (
    <details className={`ownlab-Verdict ownlab-verdict-${code}`}>
      <summary>{sentence}</summary>
      <div className="ownlab-Verdict-more">
        {advice}
        {because.length > 0 && (
          <ul>
            {because.map(each => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        )}
      </div>
    </details>
  );
}
