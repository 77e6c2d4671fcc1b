/** Whether the server answers. While it does not, this alone asks for it, as long as the page is open. */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

/** refused: something answers, but not to us; most often a new server with another token. */
export type Reach = 'reachable' | 'away' | 'refused';

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 5_000;
const PROBE_TIMEOUT = 10_000;

/** What a proxy says of a server that is not running: 424 and 503 are JupyterHub's. */
const AWAY_STATUS = [424, 502, 503, 504];

export class Reachability {
  constructor(settings: ServerConnection.ISettings) {
    this._settings = settings;
    this._back.resolve();
    const now = (): void => {
      if (this._reach !== 'reachable' && !document.hidden) {
        void this.check();
      }
    };
    window.addEventListener('online', now);
    document.addEventListener('visibilitychange', now);
  }

  get reach(): Reach {
    return this._reach;
  }

  get changed(): ISignal<this, Reach> {
    return this._changed;
  }

  /** Fulfilled while the server answers; otherwise as soon as it does. */
  get back(): Promise<void> {
    return this._back.promise;
  }

  /** Ask now whether the server answers; whoever met a failure calls this. Several callers share one request. */
  check(): Promise<boolean> {
    if (this._probe === null) {
      window.clearTimeout(this._timer);
      this._probe = this._ask().then(reach => {
        this._probe = null;
        this._settle(reach);
        return reach === 'reachable';
      });
    }
    return this._probe;
  }

  private async _ask(): Promise<Reach> {
    const abort = new AbortController();
    const timer = window.setTimeout(() => abort.abort(), PROBE_TIMEOUT);
    const url = URLExt.join(this._settings.baseUrl, 'api/status');
    try {
      const { status } = await ServerConnection.makeRequest(url, { signal: abort.signal }, this._settings);
      if (AWAY_STATUS.includes(status)) {
        return 'away';
      }
      return status === 401 || status === 403 ? 'refused' : 'reachable';
    } catch {
      return 'away'; // no answer at all: just what was asked
    } finally {
      window.clearTimeout(timer);
    }
  }

  private _settle(reach: Reach): void {
    const before = this._reach;
    this._reach = reach;
    if (reach === 'reachable') {
      this._wait = FIRST_WAIT;
      this._back.resolve();
    } else {
      if (before === 'reachable') {
        this._back = new PromiseDelegate<void>();
      }
      this._timer = window.setTimeout(() => void this.check(), this._wait);
      this._wait = Math.min(this._wait + 1_000, LONGEST_WAIT);
    }
    if (before !== reach) {
      this._changed.emit(reach);
    }
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _changed = new Signal<this, Reach>(this);
  private _reach: Reach = 'reachable';
  private _back = new PromiseDelegate<void>();
  private _probe: Promise<boolean> | null = null;
  private _timer = 0;
  private _wait = FIRST_WAIT;
}
