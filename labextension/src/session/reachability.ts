/** Tracks whether the server is reachable. While it is not, this class alone polls it, for as long as the page is open. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

/** refused: a server answers, but rejects this page; usually a new server with another token. */
export type Reach = 'reachable' | 'unreachable' | 'refused';

const MIN_INTERVAL_MS = 1_000;
const MAX_INTERVAL_MS = 5_000;
const PROBE_TIMEOUT_MS = 10_000;

/** Status codes with which proxies report a stopped server: 424 and 503 come from JupyterHub. */
const UNREACHABLE_STATUS = [424, 502, 503, 504];

export class Reachability {
  constructor(settings: ServerConnection.ISettings) {
    this._settings = settings;
    this._whenReachable.resolve();
    const checkNow = (): void => {
      if (this._reach !== 'reachable' && !document.hidden) {
        void this.check();
      }
    };
    window.addEventListener('online', checkNow);
    document.addEventListener('visibilitychange', checkNow);
  }

  get reach(): Reach {
    return this._reach;
  }

  get changed(): ISignal<this, Reach> {
    return this._changed;
  }

  /** Resolved while the server is reachable; otherwise as soon as it is again. */
  get whenReachable(): Promise<void> {
    return this._whenReachable.promise;
  }

  /** Check whether the server is reachable; called after each failed request. Concurrent callers share one probe. */
  check(): Promise<boolean> {
    if (this._probe === null) {
      window.clearTimeout(this._timer);
      this._probe = this._probeServer().then(reach => {
        this._probe = null;
        this._update(reach);
        return reach === 'reachable';
      });
    }
    return this._probe;
  }

  private async _probeServer(): Promise<Reach> {
    const abort = new AbortController();
    const timer = window.setTimeout(() => abort.abort(), PROBE_TIMEOUT_MS);
    const url = URLExt.join(this._settings.baseUrl, 'api/status');
    try {
      const { status } = await ServerConnection.makeRequest(url, { signal: abort.signal }, this._settings);
      if (UNREACHABLE_STATUS.includes(status)) {
        return 'unreachable';
      }
      return status === 401 || status === 403 ? 'refused' : 'reachable';
    } catch {
      return 'unreachable';
    } finally {
      window.clearTimeout(timer);
    }
  }

  private _update(reach: Reach): void {
    const previous = this._reach;
    this._reach = reach;
    if (reach === 'reachable') {
      this._interval = MIN_INTERVAL_MS;
      this._whenReachable.resolve();
    } else {
      if (previous === 'reachable') {
        this._whenReachable = new PromiseDelegate<void>();
      }
      this._timer = window.setTimeout(() => void this.check(), this._interval);
      this._interval = Math.min(this._interval + 1_000, MAX_INTERVAL_MS);
    }
    if (previous !== reach) {
      this._changed.emit(reach);
    }
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _changed = new Signal<this, Reach>(this);
  private _reach: Reach = 'reachable';
  private _whenReachable = new PromiseDelegate<void>();
  private _probe: Promise<boolean> | null = null;
  private _timer = 0;
  private _interval = MIN_INTERVAL_MS;
}
