/** Memory bars, curves over the last minutes, and the section with the curves of the whole machine. */
import * as React from 'react';
import { formatBytes, formatBytesOf, formatDuration, formatPercent } from '../formatting';
import type { Point, Snapshot } from '../records';
import { text } from '../text';
import { HISTORY_SECONDS } from './liveSnapshot';

export interface IBarProps {
  label: string;
  used: number | null;
  /** null: the total is not known, so no bar is drawn. */
  total: number | null;
  /** Show only the used amount, to save room. */
  compact?: boolean;
}

export function MemoryBar({ label, used, total, compact }: IBarProps): React.JSX.Element {
  const exceeded = used !== null && total !== null && used > total;
  const amount = used === null ? text('not known') : total === null ? formatBytes(used) : formatBytesOf(used, total);
  return (
    <span
      className={`ownlab-Bar${exceeded ? ' ownlab-mod-over' : ''}`}
      title={exceeded ? text('{label}: {amount}, more than booked', { label, amount }) : text('{label}: {amount}', { label, amount })}
    >
      <span className="ownlab-Bar-label">{label}</span>
      {total !== null && (
        <span className="ownlab-Bar-track" aria-hidden="true">
          <span className="ownlab-Bar-fill" style={{ width: `${fillPercent(used ?? 0, total)}%` }} />
        </span>
      )}
      <span className="ownlab-Bar-figure">{used === null ? '–' : compact ? formatBytes(used) : amount}</span>
    </span>
  );
}

function fillPercent(used: number, total: number): number {
  return total > 0 ? Math.min(100, (100 * used) / total) : 0;
}

const WIDTH = 240;
const HEIGHT = 28;
/** Points farther apart have a gap between them: no page was open. */
const GAP_SECONDS = 15;

/** A quantity of a point; null or undefined if it was not known then. */
export type Value = (point: Point) => number | null | undefined;

export interface ICurveProps {
  points: ReadonlyArray<Point>;
  maximum: number;
  /** Drawn as a line with the area below it. */
  value: Value;
  /** Drawn as an area behind the line, for comparison. */
  background?: Value;
  /** What the curve shows, for screen readers. */
  description: string;
}

/** A small curve; null if there is nothing to draw. */
export function Curve({ points, maximum, value, background, description }: ICurveProps): React.JSX.Element | null {
  const backgrounds = background ? segments(points, background, maximum) : [];
  const lines = segments(points, value, maximum);
  if (lines.length === 0 && backgrounds.length === 0) {
    return null;
  }
  return (
    <svg
      className="ownlab-Curve"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={description}
    >
      {backgrounds.map((background, index) => (
        <path key={index} className="ownlab-Curve-behind" d={area(background)} />
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

interface ISegment {
  path: string;
  from: string;
  to: string;
}

function area({ path, from, to }: ISegment): string {
  return `${path}L${to},${HEIGHT}L${from},${HEIGHT}Z`;
}

/** Return one segment for each uninterrupted series of points. */
function segments(points: ReadonlyArray<Point>, value: Value, maximum: number): ISegment[] {
  const first = (points.at(-1)?.at ?? 0) - HISTORY_SECONDS;
  const lines: { x: string; y: string }[][] = [];
  let previous = -Infinity;
  for (const point of points) {
    const height = value(point) ?? null;
    if (height === null) {
      continue;
    }
    if (point.at - previous > GAP_SECONDS) {
      lines.push([]);
    }
    previous = point.at;
    const x = (((point.at - first) / HISTORY_SECONDS) * WIDTH).toFixed(1);
    const y = (HEIGHT - 1 - Math.min(1, height / maximum) * (HEIGHT - 2)).toFixed(1);
    lines.at(-1)?.push({ x, y });
  }
  return lines.map(line => ({
    path: `M${line.map(({ x, y }) => `${x},${y}`).join('L')}`,
    from: line[0]?.x ?? '0',
    to: line.at(-1)?.x ?? '0'
  }));
}

const MAX_PERCENT = 100;

export function MachineHistory({ snapshot, history }: { snapshot: Snapshot; history: ReadonlyArray<Point> }): React.JSX.Element | null {
  const last = history.at(-1);
  if (!last || history.length < 2) {
    return null;
  }
  const { host, cards } = snapshot;
  const vram = cards.reduce((sum, card) => sum + (card.memory ?? 0), 0);
  return (
    <section className="ownlab-Section ownlab-Graph" aria-label={text('The last minutes')}>
      <h3>{text('The last {duration}', { duration: formatDuration(HISTORY_SECONDS) })}</h3>
      <LabelledCurve label={text('CPU')} figure={formatPercent(last.cpu)} maximum={MAX_PERCENT} points={history} value={point => point.cpu} />
      {host.memory !== null && (
        <LabelledCurve
          label={text('RAM')}
          figure={last.memory_used === null ? '–' : formatBytesOf(last.memory_used, host.memory)}
          maximum={host.memory}
          points={history}
          value={point => point.memory_used}
        />
      )}
      {cards.length > 1 && (
        <LabelledCurve
          label={text('GPUs')}
          figure={formatPercent(last.utilisation)}
          maximum={MAX_PERCENT}
          points={history}
          value={point => point.utilisation}
        />
      )}
      {vram > 0 && (
        <LabelledCurve
          label={text('VRAM')}
          figure={last.vram_used === null ? '–' : formatBytesOf(last.vram_used, vram)}
          maximum={vram}
          points={history}
          value={point => point.vram_used}
        />
      )}
    </section>
  );
}

export interface ILabelledCurveProps {
  label: string;
  figure: string;
  maximum: number;
  points: ReadonlyArray<Point>;
  value: Value;
}

/** A curve with its name and its newest value; nothing if it was never known. */
export function LabelledCurve({ label, figure, maximum, points, value }: ILabelledCurveProps): React.JSX.Element | null {
  if (!points.some(point => (value(point) ?? null) !== null)) {
    return null;
  }
  return (
    <div className="ownlab-Labelled">
      <span className="ownlab-Labelled-label">{label}</span>
      <span className="ownlab-Labelled-figure">{figure}</span>
      <Curve points={points} maximum={maximum} value={value} description={text('{label}: {figure}', { label, figure })} />
    </div>
  );
}
