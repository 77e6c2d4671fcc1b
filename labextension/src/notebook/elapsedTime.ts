/** How long a running cell has been running, beside its prompt. */
import type { CodeCell } from '@jupyterlab/cells';

/** Most cells are done before anybody asks. */
const SHOWN_AFTER = 2;
const TICK = 1_000;

export class Elapsed {
  /** `now`: the server's clock, in seconds. */
  constructor(private readonly _now: () => number) {}

  /** A cell began. `find`: its widget, which may be another one later. */
  began(execution: string, at: number, find: () => CodeCell | undefined): void {
    this._running.set(execution, { at, find, node: made() });
    if (this._timer === 0) {
      this._timer = window.setInterval(() => this._draw(), TICK);
    }
    this._draw();
  }

  ended(execution: string): void {
    this._running.get(execution)?.node.remove();
    this._running.delete(execution);
    if (this._running.size === 0) {
      window.clearInterval(this._timer);
      this._timer = 0;
    }
  }

  /** The kernel is gone, or the notebook. */
  clear(): void {
    [...this._running.keys()].forEach(execution => this.ended(execution));
  }

  private _draw(): void {
    for (const { at, find, node } of this._running.values()) {
      const seconds = Math.floor(this._now() - at);
      const cell = find();
      const place = cell?.inputArea?.node; // null as long as the cell was not drawn yet
      if (!place || seconds < SHOWN_AFTER || cell.model.executionState !== 'running') {
        node.remove();
      } else {
        node.textContent = words(seconds);
        if (node.parentElement !== place) {
          place.appendChild(node);
        }
      }
    }
  }

  private readonly _running = new Map<string, { at: number; find: () => CodeCell | undefined; node: HTMLElement }>();
  private _timer = 0;
}

function made(): HTMLElement {
  const node = document.createElement('div');
  node.className = 'ownlab-Elapsed';
  node.title = 'How long this cell has been running';
  return node;
}

/** 65 -> "1:05", 725 -> "12m", 3725 -> "1h02": four letters have room. */
function words(seconds: number): string {
  const two = (count: number): string => String(count).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 10) {
    return `${minutes}:${two(seconds % 60)}`;
  }
  if (hours === 0) {
    return `${minutes}m`;
  }
  return hours < 10 ? `${hours}h${two(minutes % 60)}` : `${hours}h`;
}
