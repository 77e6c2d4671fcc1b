/** How full the disk with the lab's folder is: below the file browser, and once in a notification before it is full. */
import { Notification } from '@jupyterlab/apputils';
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { fetchDiskUse } from '../api';
import { formatBytes, formatBytesOf } from '../formatting';
import type { DiskUse } from '../records';
import { text } from '../text';

const INTERVAL_MS = 60_000;
/** Set from the warning until there is space again, so that no other page and no reload repeats it. */
const WARNED = 'ownlab:disk-warned';

export class DiskUseMonitor {
  constructor(private readonly _settings: ServerConnection.ISettings) {
    window.setInterval(() => void this.read(), INTERVAL_MS);
    document.addEventListener('visibilitychange', () => void this.read());
    void this.read();
  }

  /** null: not known yet. */
  get current(): DiskUse | null {
    return this._current;
  }

  get changed(): ISignal<this, DiskUse> {
    return this._changed;
  }

  async read(): Promise<void> {
    if (document.hidden) {
      return;
    }
    try {
      const use = await fetchDiskUse(this._settings);
      if (use) {
        this._current = use;
        this._changed.emit(use);
      }
    } catch (reason) {
      console.warn('ownlab: the use of the disk is not known', reason);
    }
  }

  private readonly _changed = new Signal<this, DiskUse>(this);
  private _current: DiskUse | null = null;
}

/** Warn once when the disk becomes nearly full. */
export function warnWhenFull(monitor: DiskUseMonitor): void {
  const check = (): void => {
    if (monitor.current?.nearly_full === false) {
      window.localStorage.removeItem(WARNED);
    } else if (monitor.current && !window.localStorage.getItem(WARNED)) {
      window.localStorage.setItem(WARNED, '1');
      const values = { free: formatBytes(monitor.current.free), total: formatBytes(monitor.current.total) };
      Notification.warning(text('The disk of this lab is nearly full: {free} of {total} are free. What does not fit is not saved.', values), {
        autoClose: false
      });
    }
  };
  monitor.changed.connect(check);
  check();
}

/** One line with a bar. */
export class DiskUseLine extends Widget {
  constructor(private readonly _monitor: DiskUseMonitor) {
    super();
    this.addClass('ownlab-Disk');
    this._bar.className = 'ownlab-Disk-bar';
    this._bar.appendChild(this._filled);
    this.node.append(this._label, this._bar);
    this.hide();
    _monitor.changed.connect(this._show, this);
    this._show();
  }

  private _show(): void {
    const use = this._monitor.current;
    if (!use) {
      return;
    }
    const used = use.total - use.free;
    this._label.textContent = text('Disk: {used} used', { used: formatBytesOf(used, use.total) });
    this.node.title = text('{free} are free on the disk with {folder}.', { free: formatBytes(use.free), folder: use.folder });
    this._filled.style.width = `${(100 * used) / use.total}%`;
    this.toggleClass('ownlab-mod-full', use.nearly_full);
    this.show();
  }

  private readonly _label = document.createElement('span');
  private readonly _bar = document.createElement('span');
  private readonly _filled = document.createElement('span');
}
