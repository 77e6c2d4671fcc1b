/** A bar with a figure: how much of something is used. */
import * as React from 'react';
import { bytes, bytesOf, duration, percent } from '../formatting';
import type { Point, Snapshot } from '../records';
import { HISTORY_SECONDS } from './liveSnapshot';

export interface IBarProps {
  label: string;
  used: number | null;
  /** null: how much there is at all is not known, so there is no bar. */
  whole: number | null;
  /** Only the figure of what is used, where there is little room. */
  small?: boolean;
}

export function MemoryBar({ label, used, whole, small }: IBarProps): React.JSX.Element {
  const over = used !== null && whole !== null && used > whole;
  const words = used === null ? 'not known' : whole === null ? bytes(used) : bytesOf(used, whole);
  return (
    <span
      className={`ownlab-Bar${over ? ' ownlab-mod-over' : ''}`}
      title={`${label}: ${words}${over ? ', more than was booked' : ''}`}
    >
      <span className="ownlab-Bar-label">{label}</span>
      {whole !== null && (
        <span className="ownlab-Bar-track" aria-hidden="true">
          <span className="ownlab-Bar-fill" style={{ width: `${fillPercent(used ?? 0, whole)}%` }} />
        </span>
      )}
      <span className="ownlab-Bar-figure">{used === null ? '–' : small ? bytes(used) : words}</span>
    </span>
  );
}

function fillPercent(used: number, whole: number): number {
  return whole > 0 ? Math.min(100, (100 * used) / whole) : 0;
}

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
