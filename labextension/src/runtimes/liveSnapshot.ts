/** The newest snapshot of the machine. One stream updates it for the whole page. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchSnapshot, isFailure, openStream } from '../api';
import { errorMessage, failureMessage } from '../failures';
import type { Failure, Point, Runtime, RuntimeType, Snapshot } from '../records';
import type { Reachability } from '../session/reachability';
import { text } from '../text';

const MIN_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** As long as the server keeps the history. */
export const HISTORY_SECONDS = 300;

export class LiveSnapshot {
  constructor(settings: ServerConnection.ISettings, reachability: Reachability) {
    this._settings = settings;
    this._reachability = reachability;
    document.addEventListener('visibilitychange', () => this._sendVisibility());
  }

  /** null until the first snapshot has arrived. */
  get current(): Snapshot | null {
    return this._current;
  }

  /** Why there is no newer snapshot; empty if there is no problem. */
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

  /** The server's time in seconds: the browser's clock may be wrong. */
  now(): number {
    return Date.now() / 1000 + this._clockOffset;
  }

  runtime(id: string | undefined): Runtime | undefined {
    return this._current?.runtimes.find(runtime => runtime.id === id);
  }

  type(name: string): RuntimeType | undefined {
    return this._current?.types.find(type => type.name === name);
  }

  /** Return whether a type could start immediately if a runtime ended for it and gave up its cards or its place in the queue. */
  canStartNow(type: RuntimeType, replaced: Runtime | undefined): boolean {
    const snapshot = this._current;
    if (type.free || !replaced || !snapshot || type.engine !== '') {
      return type.free;
    }
    const others = snapshot.runtimes.filter(runtime => runtime.state === 'waiting' && runtime.id !== replaced.id);
    const released = new Map(replaced.cards.map(card => [card.uuid, card.parts]));
    const usable = snapshot.cards.filter(
      card => card.name === type.kind && card.strangers.length === 0 && card.free_parts + (released.get(card.uuid) ?? 0) >= type.parts
    );
    return usable.length >= type.cards && !others.some(runtime => this.type(runtime.type)?.kind === type.kind);
  }

  /** Start streaming; a server without ownlab's routes is left alone. */
  async start(): Promise<void> {
    let snapshot: Snapshot | null;
    try {
      snapshot = await fetchSnapshot(this._settings);
    } catch (reason) {
      this._setFailure(errorMessage(reason));
      this._retry();
      return;
    }
    if (snapshot === null) {
      this._setFailure(text('This server was not started by `ownlab up` and has no runtimes.'));
      return;
    }
    this._update(snapshot);
    this._connect();
  }

  private _connect(): void {
    const socket = openStream(this._settings);
    this._socket = socket;
    socket.onopen = () => {
      this._retryDelay = MIN_RETRY_MS;
      this._sendVisibility();
    };
    socket.onmessage = event => {
      const document = JSON.parse(String(event.data)) as Snapshot | Failure;
      if (isFailure(document)) {
        this._setFailure(failureMessage(document));
      } else {
        this._update(document);
      }
    };
    socket.onclose = () => {
      this._socket = null;
      this._retry();
    };
  }

  private _retry(): void {
    window.setTimeout(() => void this._reachability.whenReachable.then(() => this.start()), this._retryDelay);
    this._retryDelay = Math.min(2 * this._retryDelay, MAX_RETRY_MS);
  }

  /** The server sends nothing to hidden pages. */
  private _sendVisibility(): void {
    if (this._socket?.readyState === WebSocket.OPEN) {
      this._socket.send(JSON.stringify({ visible: !document.hidden }));
    }
  }

  private _setFailure(failure: string): void {
    this._failure = failure;
    this._changed.emit();
  }

  private _update(snapshot: Snapshot): void {
    this._current = snapshot;
    this._failure = '';
    this._clockOffset = snapshot.at - Date.now() / 1000;
    // Snapshots contain the whole history, or only what is new.
    const old = this._history.filter(point => point.at <= snapshot.at); // the clock may have been set back
    const last = old.at(-1)?.at ?? 0;
    const added = snapshot.history.filter(point => point.at > last);
    this._history = [...old, ...added].filter(point => point.at > snapshot.at - HISTORY_SECONDS);
    this._changed.emit();
  }

  private readonly _settings: ServerConnection.ISettings;
  private readonly _reachability: Reachability;
  private readonly _changed = new Signal<this, void>(this);
  private _current: Snapshot | null = null;
  private _failure = '';
  private _history: Point[] = [];
  private _clockOffset = 0;
  private _socket: WebSocket | null = null;
  private _retryDelay = MIN_RETRY_MS;
}

/** Return the runtime of an open notebook. */
export function runtimeOf(panel: NotebookPanel | null, live: LiveSnapshot): Runtime | undefined {
  return live.runtime(panel?.sessionContext.session?.kernel?.id);
}

/** Return the open notebook that has a runtime. */
export function panelOf(runtime: Runtime, notebooks: INotebookTracker): NotebookPanel | undefined {
  return notebooks.find(panel => panel.sessionContext.session?.kernel?.id === runtime.id);
}

/** A widget that shows the newest snapshot, and is not rendered while it is hidden. */
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
