/** The history of one notebook as its panel shows it, and the operations on it. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents, ServerConnection } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import { fetchHistory, fetchVersion, isDamage, nameVersion, purgeVersion, restoreVersion } from '../api';
import { errorMessage } from '../failures';
import type { NotebookHistory, Version } from '../records';
import { cellsOf, compareCells, type ICell, type ICellDifference } from './comparison';

/** How long an open page may take to show a restored version before it is loaded again. */
const ARRIVAL_MS = 5000;
const LOOK_MS = 100;

/** What the panel is asked to show. */
export interface ITarget {
  /** The id of a version. */
  version?: string;
  /** The id of a cell; without a version, the newest one that kept a text which the cell lost. */
  cell?: string;
}

export class HistoryModel {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _contents: Contents.IManager,
    private readonly _notebooks: INotebookTracker,
    private _path: string
  ) {}

  /** JupyterLab's path of the notebook. */
  get path(): string {
    return this._path;
  }

  set path(path: string) {
    this._path = path;
    this._changed.emit();
  }

  /** null until it was loaded. */
  get history(): NotebookHistory | null {
    return this._history;
  }

  get selected(): Version | null {
    return this._history?.versions.find(({ id }) => id === this._selected) ?? null;
  }

  /** The cells of the selected version beside those of the notebook now; null until both were loaded. */
  get differences(): readonly ICellDifference[] | null {
    return this._differences;
  }

  /** The id of a cell to show; the panel shows it once. */
  takeTargetCell(): string | null {
    const cell = this._targetCell;
    this._targetCell = null;
    return cell;
  }

  /** The last error; empty if there is none. */
  get failure(): string {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The MIME type of code cells. */
  get mimeType(): string {
    return this._panel?.content.codeMimetype ?? 'text/x-ipython';
  }

  /** Load the list again, and compare again. */
  async refresh(): Promise<void> {
    await this._attempt(async () => {
      this._history = await fetchHistory(this._settings, this._path);
      if (!this.selected) {
        // The newest one is usually the notebook as it is now, so the one before is more useful.
        const [newest, before] = this._history.versions;
        this._selected = (before ?? newest)?.id ?? null;
      }
      await this.compare();
    });
  }

  /** Show a version. */
  async show({ version, cell }: ITarget): Promise<void> {
    await this.refresh();
    const lost = ({ reason }: Version): boolean => reason === 'conflict' || reason === 'recovered';
    const wanted = version ?? (cell === undefined ? undefined : this._history?.versions.find(lost)?.id);
    this._targetCell = cell ?? null;
    if (wanted !== undefined) {
      await this.select(wanted);
    }
  }

  async select(version: string): Promise<void> {
    this._selected = version;
    this._differences = null;
    this._changed.emit();
    await this._attempt(() => this.compare());
  }

  /** Compare the selected version with the notebook as it is now. */
  async compare(): Promise<void> {
    const version = this.selected;
    if (!version) {
      this._differences = null;
      return;
    }
    if (this._cellsOf !== version.id) {
      const { notebook } = await fetchVersion(this._settings, this._path, version.id);
      if (this._selected !== version.id) {
        return;
      }
      this._cells = cellsOf(notebook);
      this._cellsOf = version.id;
    }
    this._differences = compareCells(this._cells, await this._presentCells());
  }

  /** Put a version in place of the notebook. Return the version that the notebook had before; null if it was the same. */
  async restore(version: Version): Promise<Version | null> {
    await this._saveTyped();
    const known = new Set((await fetchHistory(this._settings, this._path)).versions.map(({ id }) => id));
    this._history = await restoreVersion(this._settings, this._path, version.id);
    const [restored, before] = this._history.versions;
    const { notebook } = await fetchVersion(this._settings, this._path, version.id);
    await this._waitFor(cellsOf(notebook));
    await this.refresh();
    const isNew = restored?.reason === 'restored' && !known.has(restored.id);
    return isNew ? (before ?? null) : null;
  }

  /** Name a version, or the notebook as it is now. */
  async name(version: Version | null, name: string): Promise<void> {
    if (!version) {
      await this._saveTyped();
    }
    const named = await nameVersion(this._settings, this._path, version?.id ?? null, name || null);
    this._selected = named.id;
    await this.refresh();
  }

  /** Remove a version for good. */
  async purge(version: Version): Promise<void> {
    const versions = this._history?.versions ?? [];
    const place = versions.indexOf(version);
    this._history = await purgeVersion(this._settings, this._path, version.id);
    if (this._selected === version.id) {
      this._selected = (versions[place + 1] ?? versions[place - 1])?.id ?? null;
    }
    await this.refresh();
  }

  private get _panel(): NotebookPanel | undefined {
    return this._notebooks.find(({ context }) => context.path === this._path);
  }

  private async _presentCells(): Promise<ICell[]> {
    const model = this._panel?.context.model;
    if (model && !model.isDisposed) {
      return model.sharedModel.cells.map(cell => ({ id: cell.id, type: cell.cell_type, source: cell.source }));
    }
    try {
      const file = await this._contents.get(this._path, { type: 'notebook', content: true });
      return cellsOf(file.content);
    } catch (reason) {
      if (isDamage(reason)) {
        return [];
      }
      throw reason;
    }
  }

  /** Let the server have what was typed a moment ago. */
  private async _saveTyped(): Promise<void> {
    const context = this._panel?.context;
    if (context?.model.dirty) {
      await context.save();
    }
  }

  /** Wait until an open page shows these cells: the server sends them. Load the notebook again if they do not come. */
  private async _waitFor(cells: readonly ICell[]): Promise<void> {
    const panel = this._panel;
    if (!panel) {
      return;
    }
    const deadline = Date.now() + ARRIVAL_MS;
    while (Date.now() < deadline) {
      if (!compareCells(cells, await this._presentCells()).some(({ change }) => change !== 'same')) {
        return;
      }
      await new Promise(resolve => window.setTimeout(resolve, LOOK_MS));
    }
    await panel.context.revert();
  }

  private async _attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this._failure = '';
    } catch (reason) {
      this._failure = errorMessage(reason);
    }
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private _history: NotebookHistory | null = null;
  private _selected: string | null = null;
  private _cells: readonly ICell[] = [];
  /** The version of `_cells`. */
  private _cellsOf: string | null = null;
  private _differences: readonly ICellDifference[] | null = null;
  private _targetCell: string | null = null;
  private _failure = '';
}
