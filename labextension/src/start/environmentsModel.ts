/** The environments on the start page, with the progress of builds. */
import type { ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { cancelEnvironment, createEnvironment, fetchEnvironments, planEnvironment, removeEnvironment } from '../api';
import { errorMessage } from '../failures';
import type { EnvironmentPlan, Environments, EnvironmentState, NewEnvironment } from '../records';

const POLL_MS = 1_000;
const DEEP_LEARNING = 'deep-learning';

/** What a person wants to create: first its size is found out, then it is created if the person agrees. */
export interface IOffer {
  request: Partial<NewEnvironment>;
  /** null while it is found out. */
  plan: EnvironmentPlan | null;
  failure: string;
}

export class EnvironmentsModel {
  constructor(settings: ServerConnection.ISettings) {
    this._settings = settings;
  }

  /** null: not known yet, or this server has none. */
  get current(): Environments | null {
    return this._current;
  }

  get offer(): IOffer | null {
    return this._offer;
  }

  /** Why the last action failed; empty if it did not. */
  get failure(): string {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with the name of an environment whose creation has ended well. */
  get created(): ISignal<this, string> {
    return this._created;
  }

  /** The packages of the deep-learning environment, if it can be created. */
  get deepLearning(): readonly string[] | null {
    const preset = this._current?.presets.find(each => each.name === DEEP_LEARNING);
    const exists = this._current?.environments.some(each => each.name === preset?.environment || each.preset === DEEP_LEARNING);
    return preset && !exists ? preset.packages : null;
  }

  /** Called with what the start page has fetched, and by this model with newer states. */
  update(environments: Environments | null): void {
    const before = this._current?.environments.filter(({ status }) => status === 'building').map(({ name }) => name) ?? [];
    this._current = environments;
    const building = environments?.environments.some(({ status }) => status === 'building' || status === 'updating');
    if (building && this._timer === null) {
      this._timer = window.setTimeout(() => void this._poll(), POLL_MS);
    }
    this._changed.emit();
    environments?.environments.filter(({ name, status }) => status === 'ready' && before.includes(name)).forEach(({ name }) => this._created.emit(name));
  }

  /** Find out what an environment would need. */
  async propose(request: Partial<NewEnvironment>): Promise<void> {
    const offer: IOffer = { request, plan: null, failure: '' };
    this._offer = offer;
    this._changed.emit();
    try {
      offer.plan = await planEnvironment(this._settings, request);
    } catch (reason) {
      offer.failure = errorMessage(reason);
    }
    this._changed.emit();
  }

  proposeDeepLearning(): Promise<void> {
    return this.propose({ preset: DEEP_LEARNING });
  }

  withdraw(): void {
    this._offer = null;
    this._changed.emit();
  }

  /** Create what was proposed. */
  async accept(): Promise<void> {
    const request = this._offer?.request;
    this._offer = null;
    if (request) {
      await this._act(createEnvironment(this._settings, request));
    }
  }

  /** Continue a build that did not end well. */
  resume({ name }: EnvironmentState): Promise<void> {
    return this._act(createEnvironment(this._settings, { name }));
  }

  cancel({ name }: EnvironmentState): Promise<void> {
    return this._act(cancelEnvironment(this._settings, name));
  }

  remove({ name }: EnvironmentState): Promise<void> {
    return this._act(removeEnvironment(this._settings, name));
  }

  private async _act(work: Promise<Environments>): Promise<void> {
    this._failure = '';
    try {
      this.update(await work);
    } catch (reason) {
      this._failure = errorMessage(reason);
      this._changed.emit();
    }
  }

  private async _poll(): Promise<void> {
    let environments = this._current;
    try {
      environments = await fetchEnvironments(this._settings);
    } catch {
      // The server is away: the next poll asks again.
    }
    this._timer = null;
    this.update(environments);
  }

  private readonly _settings: ServerConnection.ISettings;
  private _current: Environments | null = null;
  private _offer: IOffer | null = null;
  private _failure = '';
  private _timer: number | null = null;
  private _changed = new Signal<this, void>(this);
  private _created = new Signal<this, string>(this);
}
