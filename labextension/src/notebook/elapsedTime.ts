/** Shows how long a cell has been running, beside its prompt. */
import type { CodeCell } from '@jupyterlab/cells';
import { text } from '../text';

/** Most cells finish sooner. */
const MIN_SECONDS = 2;
const INTERVAL_MS = 1_000;

export class ElapsedTime {
  /** `now` returns the server's time, in seconds. */
  constructor(private readonly _now: () => number) {}

  /** A cell started. `find` returns its widget, which may change. */
  start(execution: string, at: number, find: () => CodeCell | undefined): void {
    this._running.set(execution, { at, find, node: createNode() });
    if (this._timer === 0) {
      this._timer = window.setInterval(() => this._draw(), INTERVAL_MS);
    }
    this._draw();
  }

  stop(execution: string): void {
    this._running.get(execution)?.node.remove();
    this._running.delete(execution);
    if (this._running.size === 0) {
      window.clearInterval(this._timer);
      this._timer = 0;
    }
  }

  /** Stop all: the kernel or the notebook is gone. */
  clear(): void {
    [...this._running.keys()].forEach(execution => this.stop(execution));
  }

  private _draw(): void {
    for (const { at, find, node } of this._running.values()) {
      const seconds = Math.floor(this._now() - at);
      const cell = find();
      const inputArea = cell?.inputArea?.node; // null until the cell is rendered
      if (!inputArea || seconds < MIN_SECONDS || cell.model.executionState !== 'running') {
        node.remove();
      } else {
        node.textContent = format(seconds);
        if (node.parentElement !== inputArea) {
          inputArea.appendChild(node);
        }
      }
    }
  }

  private readonly _running = new Map<string, { at: number; find: () => CodeCell | undefined; node: HTMLElement }>();
  private _timer = 0;
}

function createNode(): HTMLElement {
  const node = document.createElement('div');
  node.className = 'ownlab-Elapsed';
  node.title = text('How long this cell has been running');
  return node;
}

/** 65 -> "1:05", 725 -> "12m", 3725 -> "1h02": there is room for four characters. */
function format(seconds: number): string {
  const pad = (count: number): string => String(count).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 10) {
    return `${minutes}:${pad(seconds % 60)}`;
  }
  if (hours === 0) {
    return `${minutes}m`;
  }
  return hours < 10 ? `${hours}h${pad(minutes % 60)}` : `${hours}h`;
}
