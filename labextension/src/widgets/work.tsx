/** What a card does: how busy it is, how much of it works, and what that means in a sentence. */
import * as React from 'react';
import type { CardState, Point, Verdict } from '../records';
import { percent } from '../words';
import { Curve } from './curve';

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
      {card.verdict && <Said verdict={card.verdict} />}
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
function Said({ verdict }: { verdict: Verdict }): React.JSX.Element {
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
