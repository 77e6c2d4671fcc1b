/** The last minutes of the machine, as small curves. */
import * as React from 'react';
import { HISTORY_SECONDS } from '../live';
import type { Point, Snapshot } from '../records';
import { bytesOf, duration, percent } from '../words';
import { Curve, type Value } from './curve';

const PER_CENT = 100;

export function Graph({ snapshot, history }: { snapshot: Snapshot; history: ReadonlyArray<Point> }): React.JSX.Element | null {
  const last = history.at(-1);
  if (!last || history.length < 2) {
    return null;
  }
  const { host, cards } = snapshot;
  const vram = cards.reduce((sum, card) => sum + (card.memory ?? 0), 0);
  return (
    <section className="ownlab-Section ownlab-Graph" aria-label="The last minutes">
      <h3>The last {duration(HISTORY_SECONDS)}</h3>
      <Labelled label="CPU" figure={percent(last.cpu)} most={PER_CENT} points={history} value={point => point.cpu} />
      {host.memory !== null && (
        <Labelled
          label="RAM"
          figure={last.memory_used === null ? '–' : bytesOf(last.memory_used, host.memory)}
          most={host.memory}
          points={history}
          value={point => point.memory_used}
        />
      )}
      {cards.length > 1 && (
        <Labelled
          label="GPUs"
          figure={percent(last.utilisation)}
          most={PER_CENT}
          points={history}
          value={point => point.utilisation}
        />
      )}
      {vram > 0 && (
        <Labelled
          label="VRAM"
          figure={last.vram_used === null ? '–' : bytesOf(last.vram_used, vram)}
          most={vram}
          points={history}
          value={point => point.vram_used}
        />
      )}
    </section>
  );
}

export interface ILabelledProps {
  label: string;
  figure: string;
  most: number;
  points: ReadonlyArray<Point>;
  value: Value;
}

/** A curve below its name and its newest figure; nothing where it was never known. */
export function Labelled({ label, figure, most, points, value }: ILabelledProps): React.JSX.Element | null {
  if (!points.some(point => (value(point) ?? null) !== null)) {
    return null;
  }
  return (
    <div className="ownlab-Labelled">
      <span className="ownlab-Labelled-label">{label}</span>
      <span className="ownlab-Labelled-figure">{figure}</span>
      <Curve points={points} most={most} value={value} spoken={`${label}: ${figure}`} />
    </div>
  );
}
