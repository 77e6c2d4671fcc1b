/** The last minutes of the machine, as small curves. */
import * as React from 'react';
import { HISTORY_SECONDS } from '../live';
import type { Point, Snapshot } from '../records';
import { bytesOf, duration } from '../words';

const WIDTH = 240;
const HEIGHT = 28;
const PER_CENT = 100;
/** Points farther apart than this were not measured: nobody looked. */
const GAP_SECONDS = 15;

interface ICurveProps {
  label: string;
  figure: string;
  most: number;
  points: ReadonlyArray<Point>;
  value: (point: Point) => number | null;
}

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
      <Curve label="CPU" figure={rounded(last.cpu)} most={PER_CENT} points={history} value={point => point.cpu} />
      {host.memory !== null && (
        <Curve
          label="RAM"
          figure={last.memory_used === null ? '–' : bytesOf(last.memory_used, host.memory)}
          most={host.memory}
          points={history}
          value={point => point.memory_used}
        />
      )}
      {cards.length > 0 && (
        <Curve label="GPU" figure={rounded(last.utilisation)} most={PER_CENT} points={history} value={point => point.utilisation} />
      )}
      {vram > 0 && (
        <Curve
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

function Curve({ label, figure, most, points, value }: ICurveProps): React.JSX.Element | null {
  const lines = pieces(points, value, most);
  if (lines.length === 0) {
    return null; // a card that tells nothing
  }
  return (
    <div className="ownlab-Curve">
      <span className="ownlab-Curve-label">{label}</span>
      <span className="ownlab-Curve-figure">{figure}</span>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${figure}`}>
        {lines.map((line, index) => (
          <g key={index}>
            <path className="ownlab-Curve-area" d={`${line.path}L${line.to},${HEIGHT}L${line.from},${HEIGHT}Z`} />
            <path className="ownlab-Curve-line" d={line.path} />
          </g>
        ))}
      </svg>
    </div>
  );
}

/** One line for each stretch in which something was measured. */
function pieces(
  points: ReadonlyArray<Point>,
  value: (point: Point) => number | null,
  most: number
): { path: string; from: string; to: string }[] {
  const first = (points.at(-1)?.at ?? 0) - HISTORY_SECONDS;
  const found: { x: string; y: string }[][] = [];
  let before = -Infinity;
  for (const point of points) {
    const height = value(point);
    if (height === null) {
      continue;
    }
    if (point.at - before > GAP_SECONDS) {
      found.push([]);
    }
    before = point.at;
    const x = (((point.at - first) / HISTORY_SECONDS) * WIDTH).toFixed(1);
    const y = (HEIGHT - 1 - Math.min(1, height / most) * (HEIGHT - 2)).toFixed(1);
    found.at(-1)?.push({ x, y });
  }
  return found.map(line => ({
    path: `M${line.map(({ x, y }) => `${x},${y}`).join('L')}`,
    from: line[0]?.x ?? '0',
    to: line.at(-1)?.x ?? '0'
  }));
}

function rounded(percentage: number | null): string {
  return percentage === null ? '–' : `${Math.round(percentage)} %`;
}
