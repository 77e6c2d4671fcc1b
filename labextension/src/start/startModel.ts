/** The data of the start page, shared by all start pages of this browser page. */
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchDoctorReport, fetchStartPage } from '../api';
import { errorMessage } from '../failures';
import type { DoctorReport, StartPage } from '../records';

/** Several reasons to refresh come at once: a tab is shown, and a runtime has ended. */
const MIN_INTERVAL_MS = 1_500;

export class StartModel {
  constructor(settings: ServerConnection.ISettings) {
    this._settings = settings;
  }

  /** null until it has arrived. */
  get page(): StartPage | null {
    return this._page;
  }

  /** The doctor's report; null until the machine has been examined. */
  get report(): DoctorReport | null {
    return this._report;
  }

  /** Why there is no newer page; empty if there is no problem. */
  get failure(): string {
    return this._failure;
  }

  /** Why there is no report; empty if there is no problem. */
  get doctorFailure(): string {
    return this._doctorFailure;
  }

  /** Whether the machine is being examined. */
  get examining(): boolean {
    return this._examining;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Fetch the page, soon: requests in quick succession become one. */
  refresh(): void {
    if (this._timer === null) {
      const wait = Math.max(0, this._fetchedAt + MIN_INTERVAL_MS - Date.now());
      this._timer = window.setTimeout(() => void this._fetch(), wait);
    }
  }

  /** Fetch the doctor's report; `again`: of a new examination. */
  async examine(again: boolean): Promise<void> {
    if (this._examining) {
      return;
    }
    this._examining = true;
    this._changed.emit();
    try {
      this._report = await fetchDoctorReport(this._settings, again);
      this._doctorFailure = '';
    } catch (reason) {
      this._doctorFailure = errorMessage(reason);
    }
    this._examining = false;
    this._changed.emit();
  }

  private async _fetch(): Promise<void> {
    this._fetchedAt = Date.now();
    try {
      this._page = await fetchStartPage(this._settings);
      this._failure = '';
    } catch (reason) {
      this._failure = errorMessage(reason);
    }
    this._timer = null;
    if (this._page?.doctor) {
      this._report = this._page.doctor;
    } else if (this._page && !this._report && !this._doctorFailure) {
      void this.examine(false);
    }
    this._changed.emit();
  }

  private readonly _settings: ServerConnection.ISettings;
  private _page: StartPage | null = null;
  private _report: DoctorReport | null = null;
  private _failure = '';
  private _doctorFailure = '';
  private _examining = false;
  private _timer: number | null = null;
  private _fetchedAt = 0;
  private _changed = new Signal<this, void>(this);
}
