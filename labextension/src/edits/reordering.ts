/** Finds the fewest steps from one order of cells to another: a cell that is moved is drawn anew, and loses its focus. */

export type Step =
  | { readonly kind: 'delete'; readonly index: number }
  | { readonly kind: 'insert'; readonly index: number; readonly id: string }
  | { readonly kind: 'move'; readonly from: number; readonly to: number };

/** Return the steps, each with indices as of its turn. `fixed`: a cell that is not moved; the others move around it. */
export function stepsBetween(now: readonly string[], wanted: readonly string[], fixed: string | null = null): Step[] {
  const steps: Step[] = [];
  const place = new Map(wanted.map((id, index) => [id, index]));
  const order: string[] = [];
  [...now].reverse().forEach((id, fromEnd) => {
    if (place.has(id)) {
      order.unshift(id);
    } else {
      steps.push({ kind: 'delete', index: now.length - 1 - fromEnd });
    }
  });
  const staying = new Set(longestOrdered(order, place, fixed));
  wanted.forEach((id, index) => {
    if (staying.has(id)) {
      return;
    }
    // Everything that is wanted before this cell is in its order already: the cell follows the one before it.
    const before = index === 0 ? -1 : order.indexOf(wanted[index - 1] ?? '');
    const from = order.indexOf(id);
    if (from < 0) {
      order.splice(before + 1, 0, id);
      steps.push({ kind: 'insert', index: before + 1, id });
      return;
    }
    const to = from <= before ? before : before + 1;
    order.splice(from, 1);
    order.splice(to, 0, id);
    if (from !== to) {
      steps.push({ kind: 'move', from, to });
    }
  });
  return steps;
}

/** Return the longest part of an order whose cells are wanted in the same order. */
function longestOrdered(order: readonly string[], place: ReadonlyMap<string, number>, fixed: string | null): string[] {
  const at = fixed === null ? -1 : order.indexOf(fixed);
  const fixedPlace = at < 0 ? 0 : placeOf(place, fixed);
  const candidates = at < 0 ? order : order.filter((id, index) => index === at || index < at === placeOf(place, id) < fixedPlace);
  // Patience sorting: the last cell of the best sequence of each length, and the cell before each.
  const last: string[] = [];
  const before = new Map<string, string | undefined>();
  for (const id of candidates) {
    const found = last.findIndex(other => placeOf(place, other) >= placeOf(place, id));
    const length = found < 0 ? last.length : found;
    before.set(id, last[length - 1]);
    last[length] = id;
  }
  const longest: string[] = [];
  for (let id = last.at(-1); id !== undefined; id = before.get(id)) {
    longest.unshift(id);
  }
  return longest;
}

function placeOf(place: ReadonlyMap<string, number>, id: string | null): number {
  return place.get(id ?? '') ?? -1;
}
