/** An open notebook of JupyterLab, as edits read, watch and change it. */
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';
import { endUndoStep } from '../cells/undoSteps';
import { minimalEdit } from '../forms/parsedForm';
import type { ChangedCell, MetadataPatch, OutputsPatch } from '../records';
import type { ICellState, Metadata } from './baseline';
import type { IEditableNotebook } from './remoteChanges';

type SharedNotebook = INotebookModel['sharedModel'];
type SharedCell = SharedNotebook['cells'][number];
type SharedCodeCell = Extract<SharedCell, { getOutputs: unknown }> & { readonly youtputs: { readonly length: number } };
type NewCell = Parameters<SharedNotebook['insertCell']>[1];

/** What belongs to a run of the cell, or to this page, and is no edit. */
const NO_EDITS = ['execution', 'trusted'];

/** What changed in a cell: its text, metadata or attachments; or its outputs. */
export type ChangeKind = 'content' | 'outputs';

export interface IWatcher {
  /** Cells were added, deleted or moved, or the notebook's metadata changed. */
  onNotebookChanged(): void;
  onCellChanged(id: string, kind: ChangeKind): void;
}

export class SharedNotebookAdapter implements IEditableNotebook {
  /** `panels` returns the notebook's views; `isRunning` whether its kernel is at work on a cell. */
  constructor(
    private readonly _model: INotebookModel,
    private readonly _panels: () => readonly NotebookPanel[],
    readonly isRunning: (id: string) => boolean,
    private readonly _watcher: IWatcher
  ) {
    this._ydoc.on('afterTransaction', this._onTransaction);
    this._watchCells();
  }

  dispose(): void {
    this._ydoc.off('afterTransaction', this._onTransaction);
  }

  get order(): readonly string[] {
    return this._shared.cells.map(cell => cell.id);
  }

  get metadata(): Metadata {
    const { widgets: _, ...metadata } = this._shared.metadata as Metadata;
    return metadata;
  }

  cell(id: string): ICellState | undefined {
    const cell = this._find(id);
    return cell && stateOf(cell);
  }

  /** Return the outputs of a cell; null: it is no code cell. */
  outputs(id: string): OutputsPatch | null {
    const cell = this._findCode(id);
    return cell ? { outputs: cell.getOutputs(), execution_count: cell.execution_count } : null;
  }

  /** Return whether a cell has neither outputs nor a count, without copying them. */
  hasNoOutputs(id: string): boolean {
    const cell = this._findCode(id);
    return cell !== undefined && cell.youtputs.length === 0 && cell.execution_count === null;
  }

  /** Return whether a cell is neither running nor queued. */
  isIdle(id: string): boolean {
    return this._findCode(id)?.executionState === 'idle' && !this.isRunning(id);
  }

  isFocused(id: string): boolean {
    return this._panels().some(({ content }) => content.activeCell?.model.id === id && content.activeCell.editor?.hasFocus() === true);
  }

  /** Change the notebook as others did: not as an edit of this page. */
  change(work: () => void): void {
    const active = this._panels().map(({ content }) => [content, content.activeCell?.model.id] as const);
    this._changing = true;
    try {
      work();
    } finally {
      this._changing = false;
    }
    for (const [content, id] of active) {
      const index = content.isDisposed || content.activeCell?.model.id === id ? -1 : this.order.indexOf(id ?? '');
      if (index >= 0) {
        content.activeCellIndex = index;
      }
    }
  }

  /** Replace a cell's text as an edit of the user, which can be undone. */
  edit(id: string, source: string): void {
    const cell = this._find(id);
    if (cell) {
      const { start, end, text } = minimalEdit(cell.getSource(), source, 0);
      cell.updateSource(start, end, text);
    }
  }

  /** A step that can be undone, too: Yjs would undo an older one around this text, and leave a mixture of both. */
  setSource(id: string, source: string): void {
    const cell = this._find(id);
    if (cell) {
      endUndoStep(cell);
      this.edit(id, source);
      endUndoStep(cell);
    }
  }

  replace(id: string, cell: ChangedCell): void {
    const index = this.order.indexOf(id);
    this._shared.transact(() => {
      this._shared.deleteCell(index);
      this._shared.insertCell(index, asJson(cell));
    }, false);
  }

  patchCellMetadata(id: string, { set, unset }: MetadataPatch): void {
    const cell = this._find(id);
    cell?.transact(() => {
      Object.entries(set).forEach(([key, value]) => cell.setMetadata(key, value as never));
      unset.filter(key => !NO_EDITS.includes(key)).forEach(key => cell.deleteMetadata(key));
    }, false);
  }

  setAttachments(id: string, attachments: Metadata | null): void {
    const cell = this._find(id);
    if (cell && 'setAttachments' in cell) {
      cell.setAttachments((attachments ?? undefined) as never);
    }
  }

  setOutputs(id: string, { outputs, execution_count }: OutputsPatch): void {
    const cell = this._findCode(id);
    if (cell) {
      cell.setOutputs(outputs as never);
      cell.execution_count = execution_count;
    }
  }

  insert(index: number, cell: ChangedCell): void {
    this._shared.transact(() => this._shared.insertCell(index, asJson(cell)), false);
  }

  move(from: number, to: number): void {
    this._shared.transact(() => this._shared.moveCell(from, to), false);
  }

  delete(index: number): void {
    this._shared.transact(() => this._shared.deleteCell(index), false);
  }

  patchMetadata({ set, unset }: MetadataPatch): void {
    this._shared.transact(() => {
      Object.entries(set).forEach(([key, value]) => this._shared.setMetadata(key, value as never));
      unset.forEach(key => this._shared.deleteMetadata(key));
    }, false);
  }

  /** Watch the document itself: JupyterLab's signals leave out changes that it makes "silently", such as hiding outputs. */
  private readonly _onTransaction = ({ changed }: ITransaction): void => {
    const cells = this._ydoc.getArray('cells');
    if (changed.has(cells)) {
      this._separateIds();
    }
    const drawnAnew = changed.has(cells) ? this._watchCells() : [];
    if (this._changing) {
      return;
    }
    drawnAnew.forEach(id => this._watcher.onCellChanged(id, 'content'));
    for (const [type, keys] of changed) {
      if (type === cells || type === this._ymetadata) {
        this._watcher.onNotebookChanged();
        continue;
      }
      let part: IYType | null = null;
      let cell: IYType | null = type;
      while (cell && cell.parent !== cells) {
        part = cell;
        cell = cell.parent;
      }
      const id = cell?.get?.('id');
      const kind = cell && kindOf(cell, part, keys);
      if (typeof id === 'string' && kind) {
        this._watcher.onCellChanged(id, kind);
      }
    }
  };

  /** A cell that was dragged here from another notebook, a copy for instance, may have an id that is taken: it gets a new one. */
  private _separateIds(): void {
    const known = new Set(this._cells.values());
    const taken = new Set(this._shared.cells.filter(cell => known.has(cell)).map(cell => cell.id));
    for (const cell of this._shared.cells.filter(cell => !known.has(cell))) {
      if (taken.has(cell.id)) {
        cell.transact(() => (cell as unknown as { ymodel: IYMap }).ymodel.set('id', UUID.uuid4()), false);
      }
      taken.add(cell.id);
    }
  }

  /** Remember the cells, and return those that are there again: moved, with another type, or after an undone deletion. */
  private _watchCells(): string[] {
    const before = this._cells;
    this._cells = new Map(this._shared.cells.map(cell => [cell.id, cell]));
    return [...this._cells].filter(([id, cell]) => before.get(id) !== cell).map(([id]) => id);
  }

  private _find(id: string): SharedCell | undefined {
    return this._cells.get(id);
  }

  private _findCode(id: string): SharedCodeCell | undefined {
    const cell = this._find(id);
    return cell?.cell_type === 'code' ? (cell as SharedCodeCell) : undefined;
  }

  private get _shared(): SharedNotebook {
    return this._model.sharedModel;
  }

  private get _ydoc(): IYDocument {
    return (this._shared as unknown as { ydoc: IYDocument }).ydoc;
  }

  private get _ymetadata(): IYType | undefined {
    return this._ydoc.getMap('meta').get?.('metadata') as IYType | undefined;
  }

  private _cells = new Map<string, SharedCell>();
  private _changing = false;
}

/** A part of the document, as far as it is used here; see @jupyter/ydoc and yjs. */
interface IYType {
  readonly parent: IYType | null;
  get?(key: string): unknown;
}

interface IYMap extends IYType {
  set(key: string, value: unknown): void;
}

interface ITransaction {
  /** What changed -> the keys; for texts and lists, null. */
  readonly changed: ReadonlyMap<IYType, ReadonlySet<string | null>>;
}

interface IYDocument {
  getArray(name: string): IYType;
  getMap(name: string): IYType;
  on(event: 'afterTransaction', listener: (transaction: ITransaction) => void): void;
  off(event: 'afterTransaction', listener: (transaction: ITransaction) => void): void;
}

/** Return what kind of change it is; null: none that counts. `part`: the part of the cell that changed; null: the cell itself. */
function kindOf(cell: IYType, part: IYType | null, keys: ReadonlySet<string | null>): ChangeKind | null {
  if (part === null) {
    return keys.has('attachments') ? 'content' : keys.has('execution_count') || keys.has('execution_state') ? 'outputs' : null;
  }
  if (part === cell.get?.('outputs')) {
    return 'outputs';
  }
  const isMetadata = part === cell.get?.('metadata');
  return isMetadata && [...keys].every(key => NO_EDITS.includes(key ?? '')) ? null : 'content';
}

function stateOf(cell: SharedCell): ICellState {
  const { metadata } = cell as { metadata: Metadata };
  const attachments = 'getAttachments' in cell ? (cell.getAttachments() as Metadata | undefined) : undefined;
  return {
    type: cell.cell_type,
    source: cell.getSource(),
    metadata: Object.fromEntries(Object.entries(metadata).filter(([key, value]) => !NO_EDITS.includes(key) && value !== undefined)),
    attachments: attachments && Object.keys(attachments).length > 0 ? attachments : null
  };
}

function asJson({ id, type, source, metadata, attachments, outputs }: ChangedCell): NewCell {
  const code = type === 'code' ? (outputs ?? { outputs: [], execution_count: null }) : {};
  return { id, cell_type: type, source, metadata, ...(attachments ? { attachments } : {}), ...code } as unknown as NewCell;
}
