/** A bar with a figure: how much of something is used. */
import * as React from 'react';
import { bytes, bytesOf } from '../words';

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
          <span className="ownlab-Bar-fill" style={{ width: `${percent(used ?? 0, whole)}%` }} />
        </span>
      )}
      <span className="ownlab-Bar-figure">{used === null ? '–' : small ? bytes(used) : words}</span>
    </span>
  );
}

function percent(used: number, whole: number): number {
  return whole > 0 ? Math.min(100, (100 * used) / whole) : 0;
}
