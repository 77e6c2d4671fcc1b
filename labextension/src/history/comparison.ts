/** The differences of two notebooks, cell by cell. Cells are aligned by their ids, as in the terminal. */

/** A cell as a notebook's JSON has it. */
export interface ICell {
  id: string;
  type: string;
  source: string;
}

/** A cell of one or both notebooks. `number` counts from 1 in the notebook that has it, the newer one if both do. */
export interface ICellDifference {
  id: string;
  number: number;
  change: 'added' | 'removed' | 'edited' | 'moved' | 'same';
  type: string;
  before: string | null;
  after: string | null;
  /** If the cell had another type. */
  typeBefore: string | null;
}

/** Return the cells of a notebook's JSON, which may be damaged. */
export function cellsOf(notebook: unknown): ICell[] {
  const cells = isObject(notebook) ? notebook['cells'] : null;
  return Array.isArray(cells) ? cells.filter(isObject).map(readCell) : [];
}

/** Return all cells in the order of the newer notebook, with removed ones where they were. */
export function compareCells(before: readonly ICell[], after: readonly ICell[]): ICellDifference[] {
  const old = new Map(before.map((cell, index) => [cell.id, { cell, number: index + 1 }]));
  const present = new Set(after.map(cell => cell.id));
  const stayed = inPlace(
    before.map(cell => cell.id).filter(id => present.has(id)),
    after.map(cell => cell.id).filter(id => old.has(id))
  );
  const differences: ICellDifference[] = [];
  const waiting = [...old.keys()];
  const takeRemoved = (until: string | null): void => {
    while (waiting.length && waiting[0] !== until) {
      const { cell, number } = old.get(waiting.shift() ?? '') ?? {};
      if (cell && number && !present.has(cell.id)) {
        differences.push({ id: cell.id, number, change: 'removed', type: cell.type, before: cell.source, after: null, typeBefore: null });
      }
    }
  };
  after.forEach((cell, index) => {
    if (stayed.has(cell.id)) {
      takeRemoved(cell.id);
      waiting.shift();
    }
    differences.push(difference(old.get(cell.id)?.cell ?? null, cell, index + 1, !stayed.has(cell.id)));
  });
  takeRemoved(null);
  return differences;
}

function difference(before: ICell | null, { id, type, source }: ICell, number: number, moved: boolean): ICellDifference {
  if (!before) {
    return { id, number, change: 'added', type, before: null, after: source, typeBefore: null };
  }
  const same = before.source === source && before.type === type;
  const change = !same ? 'edited' : moved ? 'moved' : 'same';
  return { id, number, change, type, before: before.source, after: source, typeBefore: before.type === type ? null : before.type };
}

/** Return the cells whose order did not change: the longest subsequence that both orders share. */
function inPlace(old: readonly string[], now: readonly string[]): Set<string> {
  const places = new Map(old.map((id, place) => [id, place]));
  // ends[n]: the index in `now` of the smallest place that ends an increasing subsequence of length n + 1.
  const ends: number[] = [];
  const previous: number[] = [];
  const place = (index: number): number => places.get(now[index] ?? '') ?? -1;
  now.forEach((_, index) => {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (place(ends[middle] ?? 0) < place(index)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    previous[index] = low > 0 ? (ends[low - 1] ?? -1) : -1;
    ends[low] = index;
  });
  const stayed = new Set<string>();
  for (let index = ends.at(-1) ?? -1; index >= 0; index = previous[index] ?? -1) {
    stayed.add(now[index] ?? '');
  }
  return stayed;
}

function readCell(cell: Record<string, unknown>, index: number): ICell {
  const { id, cell_type: type, source } = cell;
  return {
    id: typeof id === 'string' ? id : `#${index}`,
    type: String(type),
    source: Array.isArray(source) ? source.join('') : String(source ?? '')
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
