/** Percentages, sizes and the like over the last minutes, as a small curve. */
import * as React from 'react';
import { HISTORY_SECONDS } from '../live';
import type { Point } from '../records';

const WIDTH = 240;
const HEIGHT = 28;
/** Points farther apart than this were not measured: nobody looked. */
const GAP_SECONDS = 15;

/** What a point says of one thing; null or undefined: it was not known then. */
export type Value = (point: Point) => number | null | undefined;

export interface ICurveProps {
  points: ReadonlyArray<Point>;
  most: number;
  /** The line, with the area below it. */
  value: Value;
  /** Behind it, an area alone: what it is to be compared with. */
  behind?: Value;
  /** All of it, in words. */
  spoken: string;
}

/** null where there is nothing to draw. */
export function Curve({ points, most, value, behind, spoken }: ICurveProps): React.JSX.Element | null {
  const shades = behind ? pieces(points, behind, most) : [];
  const lines = pieces(points, value, most);
  if (lines.length === 0 && shades.length === 0) {
    return null;
  }
  return (
    <svg
      className="ownlab-Curve"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={spoken}
    >
      {shades.map((shade, index) => (
        <path key={index} className="ownlab-Curve-behind" d={area(shade)} />
      ))}
      {lines.map((line, index) => (
        <g key={index}>
          <path className="ownlab-Curve-area" d={area(line)} />
          <path className="ownlab-Curve-line" d={line.path} />
        </g>
      ))}
    </svg>
  );
}

interface IPiece {
  path: string;
  from: string;
  to: string;
}

function area({ path, from, to }: IPiece): string {
  return `${path}L${to},${HEIGHT}L${from},${HEIGHT}Z`;
}

/** One line for each stretch in which something was measured. */
function pieces(points: ReadonlyArray<Point>, value: Value, most: number): IPiece[] {
  const first = (points.at(-1)?.at ?? 0) - HISTORY_SECONDS;
  const found: { x: string; y: string }[][] = [];
  let before = -Infinity;
  for (const point of points) {
    const height = value(point) ?? null;
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
