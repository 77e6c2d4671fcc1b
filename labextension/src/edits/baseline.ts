/** What the server has of an open notebook, as far as this page knows; and what the page has to send. */
import { JSONExt, type PartialJSONValue } from '@lumino/coreutils';
import type { CellPatch, MetadataPatch, OrderPatch, OutputsPatch } from '../records';

export type Metadata = Readonly<Record<string, unknown>>;

/** A cell without its outputs, and without what its last run left in its metadata. */
export interface ICellState {
  readonly type: string;
  readonly source: string;
  readonly metadata: Metadata;
  readonly attachments: Metadata | null;
}

export interface INotebookState {
  readonly order: readonly string[];
  readonly metadata: Metadata;
  cell(id: string): ICellState | undefined;
}

/** A patch without its number and addresses, and what the server has once it has accepted it. */
export interface IUnsent {
  readonly cells: readonly CellPatch[];
  readonly deleted: Readonly<Record<string, string>>;
  readonly order: OrderPatch | null;
  readonly metadata: MetadataPatch | null;
  readonly accepted: { readonly cells: ReadonlyMap<string, ICellState>; readonly metadata: Metadata };
}

/** Called with a cell that the server does not have, has with another type, or has. */
export type OutputsOf = (id: string, kind: 'new' | 'retyped' | 'known') => OutputsPatch | null;

export class Baseline {
  constructor(notebook: INotebookState, ids: readonly string[] = notebook.order) {
    this.order = [...ids];
    this.metadata = notebook.metadata;
    for (const id of ids) {
      const cell = notebook.cell(id);
      if (cell) {
        this.cells.set(id, cell);
      }
    }
  }

  order: readonly string[];
  metadata: Metadata;
  readonly cells = new Map<string, ICellState>();

  /** The notebook as it was when this was made. */
  get state(): INotebookState {
    return { order: this.order, metadata: this.metadata, cell: id => this.cells.get(id) };
  }

  /**
   * Return what the server lacks; null: nothing, or only what JupyterLab changed by itself.
   *
   * `changed`: the cells that may have changed. `outputsOf` returns the outputs that the server can have from nowhere else.
   * `hasRun`: a cell was run, so that the notebook says which version of the language its outputs are from.
   */
  unsent(
    notebook: INotebookState,
    changed: ReadonlySet<string>,
    outputsOf: OutputsOf,
    hasRun = false
  ): IUnsent | null {
    const cells: CellPatch[] = [];
    const accepted = new Map<string, ICellState>();
    for (const id of notebook.order) {
      const known = this.cells.get(id);
      const now = known && !changed.has(id) ? undefined : notebook.cell(id);
      const patch = now && cellPatch(id, known, now, outputsOf(id, known ? (known.type === now.type ? 'known' : 'retyped') : 'new'));
      if (now && patch) {
        cells.push(patch);
        accepted.set(id, now);
      }
    }
    const kept = new Set(notebook.order);
    const deleted = Object.fromEntries(
      this.order.filter(id => !kept.has(id)).map((id): [string, string] => [id, this.cells.get(id)?.source ?? ''])
    );
    const order = sameOrder(this.order, notebook.order) ? null : { base: this.order, now: [...notebook.order] };
    const metadata = metadataPatch(this.metadata, notebook.metadata);
    const isEdited = (cells.length > 0 || order !== null) && !this.hasOnlyPlaceholder(notebook);
    if (!isEdited && (metadata === null || isAutomatic(this.metadata, metadata, hasRun))) {
      return null;
    }
    return { cells, deleted, order, metadata, accepted: { cells: accepted, metadata: notebook.metadata } };
  }

  /** Return what the baseline will be when the server has accepted a patch. */
  after(unsent: IUnsent): Baseline {
    const next = new Baseline(this.state);
    next.accept(unsent);
    return next;
  }

  /** The server has accepted a patch. */
  accept(unsent: IUnsent): void {
    unsent.accepted.cells.forEach((cell, id) => this.cells.set(id, cell));
    Object.keys(unsent.deleted).forEach(id => this.cells.delete(id));
    if (unsent.order) {
      this.order = unsent.order.now;
    }
    if (unsent.metadata) {
      this.metadata = unsent.accepted.metadata;
    }
  }

  /** Return whether the server has no cells, and the page only the empty one that JupyterLab adds to such a notebook. */
  hasOnlyPlaceholder(notebook: INotebookState): boolean {
    const [first = '', ...others] = notebook.order;
    const cell = notebook.cell(first);
    return this.order.length === 0 && others.length === 0 && cell?.type === 'code' && cell.source === '';
  }
}

function cellPatch(id: string, known: ICellState | undefined, now: ICellState, outputs: OutputsPatch | null): CellPatch | null {
  const metadata = metadataPatch(known?.metadata ?? {}, now.metadata);
  const sameAttachments = isSame(known?.attachments ?? null, now.attachments);
  if (known && known.type === now.type && known.source === now.source && !metadata && sameAttachments && !outputs) {
    return null;
  }
  return {
    id,
    type: now.type,
    ...(known?.source === now.source ? {} : { source: { base: known?.source ?? null, text: now.source } }),
    ...(metadata ? { metadata } : {}),
    ...(sameAttachments ? {} : { attachments: now.attachments ?? {} }),
    ...(outputs ? { outputs } : {})
  };
}

/** Return the top-level keys that differ; null if none does. */
export function metadataPatch(before: Metadata, now: Metadata): MetadataPatch | null {
  const set = Object.fromEntries(Object.entries(now).filter(([key, value]) => !isSame(before[key], value)));
  const unset = Object.keys(before).filter(key => !(key in now));
  return Object.keys(set).length > 0 || unset.length > 0 ? { set, unset } : null;
}

/** Return metadata after a patch. */
export function patched(metadata: Metadata, { set, unset }: MetadataPatch): Metadata {
  return Object.fromEntries(Object.entries({ ...metadata, ...set }).filter(([key]) => !unset.includes(key)));
}

/** Return whether JupyterLab makes such a change by itself, when a kernel has started for instance, and nothing was run in it. */
function isAutomatic(before: Metadata, { set, unset }: MetadataPatch, hasRun: boolean): boolean {
  const kernelName = (metadata: Metadata): unknown => (metadata['kernelspec'] as Metadata | undefined)?.['name'] ?? '';
  const sameKernel = kernelName(set) === '' || kernelName(set) === kernelName(before);
  if (hasRun && 'language_info' in set && kernelName({ ...before, ...set }) !== '') {
    return false;
  }
  return unset.length === 0 && sameKernel && Object.keys(set).every(key => key === 'language_info' || key === 'kernelspec');
}

export function isSame(first: unknown, second: unknown): boolean {
  if (first === undefined || second === undefined) {
    return first === second;
  }
  return JSONExt.deepEqual(first as PartialJSONValue, second as PartialJSONValue);
}

export function sameOrder(first: readonly string[], second: readonly string[]): boolean {
  return first.length === second.length && first.every((id, index) => id === second[index]);
}
