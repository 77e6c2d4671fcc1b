/**
 * Changes that others made to an open notebook: another page, another program, or the server, which merges.
 *
 * A cell with the cursor, or with text that was not sent yet, is left alone: what the server has of it waits. Its text is sent
 * with the text that it was based on, so that the server can merge both.
 */
import type { ChangedCell, Changes, MetadataPatch, OutputsPatch } from '../records';
import { type Baseline, type ICellState, type INotebookState, isSame, type IUnsent, metadataPatch, patched, sameOrder, type Metadata } from './baseline';
import { stepsBetween } from './reordering';

/** An open notebook that can be changed without making it dirty. */
export interface IEditableNotebook extends INotebookState {
  setSource(id: string, text: string): void;
  /** Give a cell another type: it is drawn anew. */
  replace(id: string, cell: ChangedCell): void;
  patchCellMetadata(id: string, patch: MetadataPatch): void;
  setAttachments(id: string, attachments: Metadata | null): void;
  setOutputs(id: string, outputs: OutputsPatch): void;
  insert(index: number, cell: ChangedCell): void;
  move(from: number, to: number): void;
  delete(index: number): void;
  patchMetadata(patch: MetadataPatch): void;
  /** Return whether the cursor is in a cell. */
  isFocused(id: string): boolean;
  isRunning(id: string): boolean;
}

export class RemoteChanges {
  /** `version`: the server's version that the page has. */
  constructor(
    private readonly _baseline: Baseline,
    public version: number
  ) {}

  /** Whether something waits. */
  get isPending(): boolean {
    return this._cells.size > 0 || this._order !== null || this._metadata !== null;
  }

  /** Take over what the server reports; `sent`: in its answer to a patch, which the baseline has accepted already. */
  receive(changes: Changes, sent: IUnsent | null = null): void {
    if (sent) {
      this._forgetOutdated(sent);
    }
    this.version = changes.version;
    changes.cells.forEach(cell => this._cells.set(cell.id, { ...cell, metadata: asShown(cell.metadata) }));
    this._order = changes.order ?? this._order;
    this._metadata = changes.metadata ?? this._metadata;
  }

  /** Show everything that can be shown now. */
  settle(notebook: IEditableNotebook): void {
    if (this._metadata) {
      const { widgets: _, ...metadata } = this._metadata;
      const patch = unlessChanged(metadataPatch(this._baseline.metadata, metadata), this._baseline.metadata, notebook.metadata);
      if (patch) {
        notebook.patchMetadata(patch);
      }
      this._baseline.metadata = metadata;
      this._metadata = null;
    }
    for (const [id, cell] of [...this._cells]) {
      const now = notebook.cell(id);
      const known = this._baseline.cells.get(id);
      if (now && known) {
        this._settleCell(notebook, cell, known, now);
      } else if (!now && !(this._order ?? this._baseline.order).includes(id)) {
        this._cells.delete(id);
      }
    }
    this._settleOrder(notebook);
  }

  /** What was received before a patch and does not contain it must not be shown after it. */
  private _forgetOutdated(sent: IUnsent): void {
    for (const { id, source, metadata } of sent.cells) {
      const waiting = this._cells.get(id);
      if (source) {
        this._cells.delete(id);
      } else if (waiting && metadata) {
        this._cells.set(id, { ...waiting, metadata: patched(waiting.metadata, metadata) });
      }
    }
    if (sent.order) {
      this._order = null;
    }
    if (sent.metadata && this._metadata) {
      this._metadata = patched(this._metadata, sent.metadata);
    }
  }

  private _settleCell(notebook: IEditableNotebook, cell: ChangedCell, known: ICellState, now: ICellState): void {
    const { id, source, type, outputs } = cell;
    const attachments = cell.attachments ?? null;
    const hasText = now.source === source || known.source === source;
    if ((!hasText && now.source !== known.source) || ((!hasText || now.type !== type) && notebook.isFocused(id))) {
      return;
    }
    if (now.type !== type && known.type === now.type) {
      notebook.replace(id, { ...cell, source: hasText ? now.source : source });
    } else {
      if (!hasText) {
        notebook.setSource(id, source);
      }
      const patch = unlessChanged(metadataPatch(known.metadata, cell.metadata), known.metadata, now.metadata);
      if (patch) {
        notebook.patchCellMetadata(id, patch);
      }
      if (!isSame(now.attachments, attachments) && isSame(now.attachments, known.attachments)) {
        notebook.setAttachments(id, attachments);
      }
      if (outputs && !notebook.isRunning(id)) {
        notebook.setOutputs(id, outputs);
      }
    }
    this._baseline.cells.set(id, { type, source, metadata: cell.metadata, attachments });
    this._cells.delete(id);
  }

  private _settleOrder(notebook: IEditableNotebook): void {
    const { _baseline: baseline, _order: order } = this;
    if (!order || !(sameOrder(baseline.order, notebook.order) || baseline.hasOnlyPlaceholder(notebook))) {
      return; // first the page sends its own
    }
    const present = new Set(notebook.order);
    const wanted = order.filter(id => present.has(id) || this._cells.has(id));
    // A cell that others deleted stays while somebody works on it here: an edit counts more than a deletion.
    const kept = notebook.order.filter(id => !wanted.includes(id) && this._isInUse(notebook, id));
    for (const id of kept) {
      const before = notebook.order[notebook.order.indexOf(id) - 1];
      wanted.splice(before === undefined ? 0 : wanted.indexOf(before) + 1, 0, id);
    }
    const focused = notebook.order.find(id => notebook.isFocused(id)) ?? null;
    for (const step of stepsBetween(notebook.order, wanted, focused)) {
      if (step.kind === 'delete') {
        baseline.cells.delete(notebook.order[step.index] ?? '');
        notebook.delete(step.index);
      } else if (step.kind === 'move') {
        notebook.move(step.from, step.to);
      } else {
        this._insert(notebook, step.index, step.id);
      }
    }
    baseline.order = wanted;
    this._order = kept.length > 0 ? order : null;
  }

  private _insert(notebook: IEditableNotebook, index: number, id: string): void {
    const cell = this._cells.get(id);
    if (cell) {
      notebook.insert(index, cell);
      const { type, source, metadata, attachments = null } = cell;
      this._baseline.cells.set(id, { type, source, metadata, attachments });
      this._cells.delete(id);
    }
  }

  private _isInUse(notebook: IEditableNotebook, id: string): boolean {
    return notebook.isFocused(id) || notebook.cell(id)?.source !== (this._baseline.cells.get(id)?.source ?? '');
  }

  private readonly _cells = new Map<string, ChangedCell>();
  private _order: readonly string[] | null = null;
  private _metadata: Metadata | null = null;
}

/** Return a patch without the keys that this page has changed itself. */
function unlessChanged(patch: MetadataPatch | null, known: Metadata, now: Metadata): MetadataPatch | null {
  if (!patch) {
    return null;
  }
  const isUnchanged = (key: string): boolean => isSame(known[key], now[key]);
  return {
    set: Object.fromEntries(Object.entries(patch.set).filter(([key]) => isUnchanged(key))),
    unset: patch.unset.filter(isUnchanged)
  };
}

/** JupyterLab keeps two keys of a cell's metadata equal: whether its outputs are hidden. */
function asShown(metadata: Metadata): Metadata {
  const jupyter = metadata['jupyter'] as Metadata | undefined;
  const hidden = metadata['collapsed'] ?? jupyter?.['outputs_hidden'];
  return hidden === undefined || hidden === null
    ? metadata
    : { ...metadata, collapsed: hidden, jupyter: { ...jupyter, outputs_hidden: hidden } };
}
