/** The sentences of the start page. */
import { bookedShare, cardName, formatBytes, formatDuration, formatShare, formatTime, notebookName, PARTS, typeName } from '../formatting';
import type { CardState, ListedDataSet, RecentNotebook, Runtime, RuntimeType, Snapshot } from '../records';
import { dateLocale, listing, plural, sentences, text } from '../text';

const MINUTE = 60;
const HOUR = 3600;
const DAY = 24 * HOUR;

export function greeting(hour: number): string {
  if (hour < 5) {
    return text('Good evening');
  }
  if (hour < 12) {
    return text('Good morning');
  }
  return hour < 18 ? text('Good afternoon') : text('Good evening');
}

/** "One card is free."; empty if there are no cards. */
export function describeCards(cards: readonly Pick<CardState, 'free_parts'>[]): string {
  const free = cards.filter(card => card.free_parts === PARTS).length;
  const n = cards.length;
  if (n === 0) {
    return '';
  }
  if (free === 0) {
    return plural(n, 'The card is in use.', 'All {n} cards are in use.');
  }
  if (free === n) {
    return plural(n, 'The card is free.', 'All {n} cards are free.');
  }
  return plural(free, 'One card is free.', '{n} cards are free.');
}

/** "½ H200", "2 × H200", "CPU". */
export function tileName(type: Pick<RuntimeType, 'kind' | 'cards' | 'parts'>): string {
  const isShare = type.kind !== null && type.cards === 1 && type.parts < PARTS;
  return isShare ? text('{share} {card}', { share: formatShare(type.parts), card: cardName(type.kind ?? '') }) : typeName(type);
}

/** What a tile says about a type: whether it is free, and if not, when or why. `canStart`: whether it could if a runtime ended. */
export function describeAvailability(
  type: RuntimeType,
  snapshot: Pick<Snapshot, 'at' | 'cards' | 'runtimes' | 'host'>,
  canStart: (type: RuntimeType, replaced: Runtime) => boolean
): string {
  if (type.engine !== '') {
    return describeOnCluster(type, snapshot.at);
  }
  if (type.kind === null) {
    return describeCores(snapshot.host);
  }
  const cards = snapshot.cards.filter(card => card.name === type.kind);
  if (type.free) {
    return describeFree(type, cards);
  }
  const enough = snapshot.runtimes.filter(runtime => runtime.cards.length > 0 && canStart(type, runtime));
  const [first, second] = enough;
  if (first && !second) {
    return text('free when {notebook} ends', { notebook: notebookName(first.notebook) });
  }
  if (first && second) {
    return enough.length === 2
      ? text('free when {first} or {second} ends', { first: notebookName(first.notebook), second: notebookName(second.notebook) })
      : text('free when one of {n} notebooks ends', { n: enough.length });
  }
  if (cards.some(card => card.holders.length > 0)) {
    return text('in use');
  }
  return cards.some(card => card.strangers.length > 0) ? text('used by other programs') : type.why_not;
}

/** "free on the cluster · at most 2 d", "expected start 14:20 · at most 2 d". */
function describeOnCluster(type: RuntimeType, now: number): string {
  const { time_limit } = type;
  const state = type.free ? text('free on the cluster') : describeExpectedStart(type, now) || type.why_not;
  return time_limit === null ? state : text('{state} · at most {duration}', { state, duration: formatDuration(time_limit) });
}

/** "expected start 14:20"; empty if the cluster does not know it. */
export function describeExpectedStart({ starts_at }: RuntimeType, now: number): string {
  if (starts_at === null) {
    return '';
  }
  const time = starts_at < now + 6 * DAY ? formatTime(starts_at, now) : formatDate(starts_at, now);
  return text('expected start {time}', { time });
}

function formatDate(at: number, now: number): string {
  const then = new Date(at * 1000);
  const sameYear = then.getFullYear() === new Date(now * 1000).getFullYear();
  return then.toLocaleDateString(dateLocale(), { day: 'numeric', month: 'long', ...(sameYear ? {} : { year: 'numeric' }) });
}

function describeCores({ cores, cpu }: Snapshot['host']): string {
  if (cores === null || cpu === null) {
    return text('always available');
  }
  const idle = Math.max(0, Math.round(cores * (1 - cpu / 100)));
  return plural(cores, '{idle} of {n} core idle', '{idle} of {n} cores idle', { idle });
}

/** "2 free · 70 GiB each", "free now · 70 GiB". */
function describeFree(type: RuntimeType, cards: readonly CardState[]): string {
  const usable = cards.filter(card => card.strangers.length === 0);
  const places = usable.reduce((sum, card) => sum + Math.floor(card.free_parts / type.parts), 0);
  const count = Math.floor(places / type.cards);
  const memory = bookedShare(cards[0]?.memory ?? null, type.parts);
  if (memory === null) {
    return count > 1 ? text('{count} free', { count }) : text('free now');
  }
  const size = formatBytes(memory);
  if (type.cards > 1) {
    return text('free now · {size} each', { size });
  }
  return count > 1 ? text('{count} free · {size} each', { count, size }) : text('free now · {size}', { size });
}

/** What happened to a notebook, the newest first. `runtime`: its runtime, if it has one now. */
export function describeRecent(notebook: RecentNotebook, runtime: Runtime | undefined, now: number): string {
  const { died_at, ran_at, edited_at, owner } = notebook;
  if (runtime && (runtime.busy || runtime.state !== 'running' || died_at === null)) {
    return runtime.mine ? describeRuntime(runtime, now) : text('{person} · {activity}', { person: runtime.person, activity: describeRuntime(runtime, now) });
  }
  if (died_at !== null && died_at + MINUTE > (edited_at ?? 0)) {
    const when = describeAgo(died_at, now);
    return notebook.died_of ? text('kernel died {when}: {cause}', { when, cause: notebook.died_of }) : text('kernel died {when}', { when });
  }
  if (ran_at !== null && ran_at + MINUTE > (edited_at ?? 0)) {
    return describeRun(notebook, describeAgo(ran_at, now));
  }
  if (edited_at !== null) {
    const when = describeAgo(edited_at, now);
    return notebook.versions_today > 1
      ? text('edited {when} · {n} versions today', { when, n: notebook.versions_today })
      : text('edited {when}', { when });
  }
  if (owner) {
    return notebook.read_only ? text('{owner} · read only', { owner }) : text('{owner} · changed {when}', { owner, when: describeAgo(notebook.changed_at, now) });
  }
  return notebook.read_only ? text('read only') : text('changed {when}', { when: describeAgo(notebook.changed_at, now) });
}

/** "running for 12 min on card 0". */
function describeRuntime(runtime: Runtime, now: number): string {
  const duration = formatDuration(now - runtime.changed_at);
  const indices = runtime.cards.map(card => card.index).filter(index => index !== null);
  const cards = listing(indices.map(String));
  switch (runtime.state) {
    case 'waiting':
      return runtime.place === null ? text('waiting for a card') : text('waiting for a card, place {place}', { place: runtime.place });
    case 'starting':
      return text('starting');
    case 'ending':
      return text('ending');
    case 'running':
      if (indices.length === 0) {
        return runtime.busy ? text('running for {duration}', { duration }) : text('idle for {duration}', { duration });
      }
      if (indices.length === 1) {
        return runtime.busy ? text('running for {duration} on card {cards}', { duration, cards }) : text('idle for {duration} on card {cards}', { duration, cards });
      }
      return runtime.busy ? text('running for {duration} on cards {cards}', { duration, cards }) : text('idle for {duration} on cards {cards}', { duration, cards });
  }
}

function describeRun({ run_seconds, failed_cells, stopped }: RecentNotebook, when: string): string {
  if (stopped) {
    return run_seconds === null
      ? text('stopped {when} while a cell was running', { when })
      : text('stopped {when}, after {duration}', { when, duration: formatDuration(run_seconds) });
  }
  if (run_seconds === null) {
    return failed_cells
      ? plural(failed_cells, 'ran {when}, one cell failed', 'ran {when}, {n} cells failed', { when })
      : text('ran {when}, no errors', { when });
  }
  const duration = formatDuration(run_seconds);
  return failed_cells
    ? text('failed {when}, after {duration}', { when, duration })
    : text('finished {when}, {duration}, no errors', { when, duration });
}

/** "just now", "12 min ago", "2 h ago", "yesterday", "on Tuesday", "on 3 March". */
export function describeAgo(at: number, now: number): string {
  const seconds = Math.max(0, now - at);
  if (seconds < MINUTE) {
    return text('just now');
  }
  if (seconds < HOUR) {
    return text('{n} min ago', { n: Math.floor(seconds / MINUTE) });
  }
  const days = calendarDays(at, now);
  if (days === 0 || seconds < 6 * HOUR) {
    return text('{n} h ago', { n: Math.floor(seconds / HOUR) });
  }
  if (days === 1) {
    return text('yesterday');
  }
  const then = new Date(at * 1000);
  if (days < 7) {
    return text('on {weekday}', { weekday: then.toLocaleDateString(dateLocale(), { weekday: 'long' }) });
  }
  return text('on {date}', { date: formatDate(at, now) });
}

function calendarDays(at: number, now: number): number {
  const midnight = (seconds: number): number => new Date(seconds * 1000).setHours(0, 0, 0, 0) / 1000;
  return Math.round((midnight(now) - midnight(at)) / DAY);
}

/** "1.2 GiB · packed · used 2 h ago". */
export function describeDataSet({ kind, size, last_used, state }: ListedDataSet, now: number): string {
  if (state === 'missing') {
    return text('moved or removed');
  }
  const facts = { size: formatBytes(size), when: describeAgo(last_used, now) };
  if (state !== 'complete') {
    return state === 'copying' ? text('{size} · being copied', facts) : text('{size} · incomplete · {when}', facts);
  }
  switch (kind) {
    case 'downloaded':
      return text('{size} · downloaded · used {when}', facts);
    case 'unpacked':
      return text('{size} · unpacked · used {when}', facts);
    case 'packed':
      return text('{size} · packed · used {when}', facts);
    case 'staged':
      return text('{size} · local copy · used {when}', facts);
  }
}

/** The verdict of the doctor and the state of the cards. */
export function describeMachine(verdict: string, cards: readonly CardState[]): string {
  return sentences(verdict, describeCards(cards));
}
