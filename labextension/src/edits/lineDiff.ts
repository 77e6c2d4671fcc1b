/** Compares two texts line by line. */

export interface IDiffLine {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** Longer texts are shown one after the other: comparing them would take seconds. */
const MAX_LINES = 2_000;

/** Return the lines of both texts: those that only the first has are "removed", those that only the second has "added". */
export function diffLines(before: string, after: string): IDiffLine[] {
  const [first, second] = [before.split('\n'), after.split('\n')];
  let head = 0;
  while (head < Math.min(first.length, second.length) && first[head] === second[head]) {
    head += 1;
  }
  let tail = 0;
  while (tail < Math.min(first.length, second.length) - head && first.at(-1 - tail) === second.at(-1 - tail)) {
    tail += 1;
  }
  const as = (kind: IDiffLine['kind'], lines: string[]): IDiffLine[] => lines.map(text => ({ kind, text }));
  return [
    ...as('same', first.slice(0, head)),
    ...diffMiddle(first.slice(head, first.length - tail), second.slice(head, second.length - tail)),
    ...as('same', first.slice(first.length - tail))
  ];
}

function diffMiddle(first: string[], second: string[]): IDiffLine[] {
  const lines: IDiffLine[] = [];
  const common = first.length > MAX_LINES || second.length > MAX_LINES ? null : commonLengths(first, second);
  let [i, j] = [0, 0];
  while (i < first.length || j < second.length) {
    const [one, other] = [first[i], second[j]];
    if (one !== undefined && one === other && common) {
      lines.push({ kind: 'same', text: one });
      i += 1;
      j += 1;
    } else if (one !== undefined && (other === undefined || !common || lengthAt(common, i + 1, j) >= lengthAt(common, i, j + 1))) {
      lines.push({ kind: 'removed', text: one });
      i += 1;
    } else {
      lines.push({ kind: 'added', text: other ?? '' });
      j += 1;
    }
  }
  return lines;
}

/** Return, for each pair of positions, how many lines the rests of both texts have in common, in the same order. */
function commonLengths(first: string[], second: string[]): Uint16Array[] {
  const lengths = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i -= 1) {
    const row = lengths[i];
    for (let j = second.length - 1; row && j >= 0; j -= 1) {
      row[j] = first[i] === second[j] ? lengthAt(lengths, i + 1, j + 1) + 1 : Math.max(lengthAt(lengths, i + 1, j), row[j + 1] ?? 0);
    }
  }
  return lengths;
}

function lengthAt(lengths: Uint16Array[], i: number, j: number): number {
  return lengths[i]?.[j] ?? 0;
}
