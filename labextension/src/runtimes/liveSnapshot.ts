/** The newest snapshot of the machine, kept up to date by one stream for the whole page. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchSnapshot, isFailure, openStream } from '../api';
import type { Failure, Point, Runtime, RuntimeType, Snapshot } from '../records';
import type { Reachability } from '../session/reachability';

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;
/** As long as the server keeps it. */
export const HISTORY_SECONDS = 300;

export class LiveSnapshot {
  constructor(settings: ServerConnection.ISettings, reachability: Reachability) {
    this._settings = settings;
    this._reachability = reachability;
    document.addEventListener('visibilitychange', () => this._tellVisible());
  }

  /** null until the first one came. */
  get current(): Snapshot | null {
    return this._current;
  }

  /** Why there is no newer one; empty while all is well. */
  get failure(): string {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The last minutes, oldest first. */
  get history(): ReadonlyArray<Point> {
    return this._history;
  }

  /** The server's clock, in seconds: the browser's may be wrong. */
  now(): number {
    return Date.now() / 1000 + this._ahead;
  }

  runtime(id: string | undefined): Runtime | undefined {
    return this._current?.runtimes.find(one => one.id === id);
  }

  type(name: string): RuntimeType | undefined {
    return this._current?.types.find(one => one.name === name);
  }

  /** Whether a type could start at once where a runtime ends for it: what that one holds, or waits for, is free then. */
  startsAtOnce(type: RuntimeType, instead: Runtime | undefined): boolean {
    const snapshot = this._current;
    if (type.free || !instead || !snapshot) {
      return type.free;
    }
    const others = snapshot.runtimes.filter(one => one.state === 'waiting' && one.id !== instead.id);
    const given = new Map(instead.cards.map(card => [card.uuid, card.parts]));
    const fitting = snapshot.cards.filter(
      card => card.name === type.kind && card.strangers.length === 0 && card.free_parts + (given.get(card.uuid) ?? 0) >= type.parts
    );
    return fitting.length >= type.cards && !others.some(one => this.type(one.type)?.kind === type.kind);
  }

  /** Begin; a server without our routes is left alone. */
  async start(): Promise<void> {
    let first: Snapshot | null;
    try {
      first = await fetchSnapshot(this._settings);
    } catch (reason) {
      this._fail(String(reason));
      this._again();
      return;
    }
    if (first === null) {
      this._fail('This server was not started by `ownlab up`: it knows no runtimes.');
      return;
    }
    this._take(first);
    this._listen();
  }

  private _listen(): void {
    const socket = openStream(this._settings);
    this._socket = socket;
    socket.onopen = () => {
      this._wait = FIRST_WAIT;
      this._tellVisible();
    };
    socket.onmessage = event => {
      const document = JSON.parse(String(event.data)) as Snapshot | Failure;
      if (isFailure(document)) {
        this._fail(`${document.error.message}. ${document.error.hint}`.trim());
      } else {
        this._take(document);
      }
    };
    socket.onclose = () => {
      this._socket = null;
      this._again();
    };
  }

  private _again(): void {
    window.setTimeout(() => void this._reachability.back.then(() => this.start()), this._wait);
    this._wait = Math.min(2 * this._wait, LONGEST_WAIT);
  }

  /** A hidden page needs nothing. */
  private _tellVisible(): void {
    if (this._socket?.readyState === WebSocket.OPEN) {
      this._socket.send(JSON.stringify({ visible: !document.hidden }));
    }
  }

  private _fail(words: string): void {
    this._failure = words;
    this._changed.emit();
  }

  private _take(snapshot: Snapshot): void {
    this._current = snapshot;
    this._failure = '';
    this._ahead = snapshot.at - Date.now() / 1000;
    // Snapshots bring the whole history, or only what is new.
    const old = this._history.filter(point => point.at <= snapshot.at); // the clock may have been set back
    const last = old.at(-1)?.at ?? 0;
    const news = snapshot.history.filter(point => point.at > last);
    this._history = [...old, ...news].filter(point => point.at > snapshot.at - HISTORY_SECONDS);
    this._changed.emit();
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _reachability: Reachability;
  private readonly _changed = new Signal<this, void>(this);
  private _current: Snapshot | null = null;
  private _failure = '';
  private _history: Point[] = [];
  private _ahead = 0;
  private _socket: WebSocket | null = null;
  private _wait = FIRST_WAIT;
}

export function runtimeOf(panel: NotebookPanel | null, live: LiveSnapshot): Runtime | undefined {
  return live.runtime(panel?.sessionContext.session?.kernel?.id);
}

/** The open notebook that has this runtime. */
export function panelOf(runtime: Runtime, notebooks: INotebookTracker): NotebookPanel | undefined {
  return notebooks.find(panel => panel.sessionContext.session?.kernel?.id === runtime.id);
}

export abstract class LiveWidget extends ReactWidget {
  constructor(readonly live: LiveSnapshot) {
    super();
    live.changed.connect(this._onChanged, this);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  private _onChanged(): void {
    if (this.isVisible) {
      this.update();
    }
  }
}
