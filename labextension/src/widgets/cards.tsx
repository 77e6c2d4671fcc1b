/** The machine's cards: who holds which part, who uses one without a lease, what is free, and what each one does. */
import * as React from 'react';
import type { CardHolder, CardState, Point, Runtime } from '../records';
import { bytesOf, cardName, clock, notebookName, PARTS, share } from '../words';
import { Work } from './work';

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
