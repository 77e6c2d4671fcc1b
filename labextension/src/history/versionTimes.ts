/** Versions in words: when they were made, and why. */
import type { Version } from '../records';
import { dateLocale, plural, text } from '../text';

const DAY_MS = 86_400_000;

/** "Today", "Yesterday", "Mon, 16 Nov", with the year if it is another. */
export function describeDay(at: number, now: number): string {
  const then = new Date(at * 1000);
  const today = new Date(now * 1000);
  if (then.toDateString() === today.toDateString()) {
    return text('Today');
  }
  if (then.toDateString() === new Date(today.getTime() - DAY_MS).toDateString()) {
    return text('Yesterday');
  }
  const year = then.getFullYear() === today.getFullYear() ? {} : ({ year: 'numeric' } as const);
  return then.toLocaleDateString(dateLocale(), { weekday: 'short', day: 'numeric', month: 'short', ...year });
}

/** "11:49". */
export function describeClock(at: number): string {
  return new Date(at * 1000).toLocaleTimeString(dateLocale(), { hour: '2-digit', minute: '2-digit' });
}

/** "Today, 11:49". */
export function describeMoment(at: number, now: number): string {
  return text('{day}, {time}', { day: describeDay(at, now), time: describeClock(at) });
}

/** Why a version was recorded. */
export function describeReason({ reason }: Pick<Version, 'reason'>): string {
  switch (reason) {
    case 'opened':
      return text('Before editing');
    case 'edited':
      return text('Edited');
    case 'named':
      return text('Saved by you');
    case 'before-restore':
      return text('Before restoring');
    case 'restored':
      return text('Restored');
    case 'deleted':
      return text('Deleted');
    case 'conflict':
      return text('The other text of a conflict');
    case 'recovered':
      return text('The file before a recovery');
  }
}

/** "2 cells changed". */
export function describeChanges({ reason, cells, changed }: Pick<Version, 'reason' | 'cells' | 'changed'>): string {
  return reason === 'opened' ? plural(cells, '1 cell', '{n} cells') : plural(changed, '1 cell changed', '{n} cells changed');
}

/** Group versions, which are sorted by time, by day. */
export function groupByDay(versions: readonly Version[], now: number): { day: string; versions: Version[] }[] {
  const groups: { day: string; versions: Version[] }[] = [];
  for (const version of versions) {
    const day = describeDay(version.at, now);
    const last = groups.at(-1);
    if (last?.day === day) {
      last.versions.push(version);
    } else {
      groups.push({ day, versions: [version] });
    }
  }
  return groups;
}
