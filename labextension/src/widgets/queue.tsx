/** The body of the dialog that is shown where a notebook's runtime has to wait for a card. */
import * as React from 'react';
import type { LiveSnapshot } from '../live';
import type { CardState, Snapshot } from '../records';
import { cardName, runtimeName } from '../words';
import { holderWords } from './cards';
import { LiveWidget } from './live';

export class QueueBody extends LiveWidget {
  constructor(
    live: LiveSnapshot,
    private readonly _runtimeId: string
  ) {
    super(live);
    this.addClass('ownlab-Queue');
  }

  protected render(): React.JSX.Element | null {
    const snapshot = this.live.current;
    const runtime = this.live.runtime(this._runtimeId);
    if (!snapshot || !runtime) {
      return null;
    }
    const type = this.live.type(runtime.type);
    const cards = snapshot.cards.filter(card => card.name === type?.kind);
    const free = (runtime.place ?? 1) > 1 ? 'free, but kept for those before you' : `free (${type?.cards ?? 1} needed)`;
    return (
      <>
        <p>
          <strong>{runtimeName(runtime, this.live)}</strong> is not free.
          {runtime.place !== null && ` This notebook is number ${runtime.place} in the queue.`}
        </p>
        <ul className="ownlab-Queue-cards">
          {cards.map(card => (
            <li key={card.uuid}>
              <span className="ownlab-Queue-card">
                Card {card.index}, {cardName(card.name)}
              </span>
              <span>{whoHas(card, snapshot, this.live.now()) || free}</span>
            </li>
          ))}
        </ul>
        {cards.length === 0 && <p>{runtime.why}</p>}
        <p className="ownlab-Queue-hint">If you wait, it starts by itself as soon as it can; you may close this page meanwhile.</p>
      </>
    );
  }
}

function whoHas(card: CardState, snapshot: Snapshot, now: number): string {
  const yours = new Set(snapshot.runtimes.filter(one => one.person === snapshot.person).map(one => one.id));
  const words = [...card.holders.map(holder => holderWords(holder, yours.has(holder.runtime), now)), ...card.strangers];
  return words.join('; ');
}
