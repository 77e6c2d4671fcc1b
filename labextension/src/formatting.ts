/** Formats numbers and records for display, like the terminal does. */
import type { HostState, Runtime, RuntimeType } from './records';
import type { LiveSnapshot } from './runtimes/liveSnapshot';
import { dateLocale, text } from './text';

/** A card is booked in twelfths. */
export const PARTS = 12;

const FRACTIONS: Record<number, string> = { 2: '⅙', 3: '¼', 4: '⅓', 6: '½', 8: '⅔', 9: '¾', 10: '⅚' };
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** 1536 -> "1.5 KiB". */
export function formatBytes(count: number): string {
  let size = count;
  let power = 0;
  while (Math.abs(size) >= 1024 && power < BINARY.length - 1) {
    size /= 1024;
    power += 1;
  }
  return `${figure(size, power)} ${BINARY[power]}`;
}

/** "1.2 of 8 GiB", "51 MiB of 8 GiB". */
export function formatBytesOf(used: number, total: number): string {
  const [size, unit] = formatBytes(used).split(' ');
  const of = formatBytes(total);
  return text('{used} of {total}', { used: of.endsWith(` ${unit}`) ? (size ?? '') : formatBytes(used), total: of });
}

function figure(size: number, power: number): string {
  return power === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1).replace(/\.0$/, '');
}

/** 43.2 -> "43 %", 0.75 -> "0.8 %": small values are not rounded to zero. */
export function formatPercent(value: number | null): string {
  return value === null ? '–' : `${value < 0.95 ? Number(value.toFixed(1)) : Math.round(value)} %`;
}

/** 5400 -> "1 h 30 min". */
export function formatDuration(seconds: number): string {
  if (seconds < 60) {
    return text('{n} s', { n: Math.max(0, Math.round(seconds)) });
  }
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) {
    return text('{n} min', { n: minutes });
  }
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) {
    const [days, rest] = [Math.floor(hours / 24), hours % 24];
    return rest ? text('{days} d {hours} h', { days, hours: rest }) : text('{n} d', { n: days });
  }
  return minutes % 60 ? text('{hours} h {minutes} min', { hours, minutes: minutes % 60 }) : text('{n} h', { n: hours });
}

/** "10:02", or "Tue 10:02" if it is not today. */
export function formatTime(at: number, now: number): string {
  const then = new Date(at * 1000);
  const sameDay = then.toDateString() === new Date(now * 1000).toDateString();
  return then.toLocaleTimeString(dateLocale(), { ...(sameDay ? {} : { weekday: 'short' }), hour: '2-digit', minute: '2-digit' });
}

/** 6 -> "½". */
export function formatShare(parts: number): string {
  return parts === PARTS ? '1' : (FRACTIONS[parts] ?? `${parts}/${PARTS}`);
}

/** "NVIDIA GeForce GTX 1080 Ti" -> "GTX 1080 Ti". */
export function cardName(name: string): string {
  return name.replace(/^(NVIDIA|AMD|Intel)(\(R\))?\s+/i, '').replace(/^(GeForce|Tesla|Radeon|Instinct)\s+/i, '');
}

/** "½ × H200", "2 × H200", "CPU"; on a cluster "2 × a100 · gpu", with the partition. */
export function typeName(type: Pick<RuntimeType, 'kind' | 'cards' | 'parts'> & { partition?: string }): string {
  const resources = resourcesName(type);
  return type.partition ? text('{type} · {partition}', { type: resources, partition: type.partition }) : resources;
}

function resourcesName(type: Pick<RuntimeType, 'kind' | 'cards' | 'parts'>): string {
  if (type.kind === null) {
    return 'CPU';
  }
  const whole = type.parts === PARTS;
  const count = whole ? String(type.cards) : type.cards === 1 ? formatShare(type.parts) : `${type.cards} × ${formatShare(type.parts)}`;
  return `${count} × ${cardName(type.kind)}`;
}

/** Return a short name of what a runtime has or waits for. */
export function runtimeName(runtime: Runtime, live: LiveSnapshot): string {
  const [card] = runtime.cards;
  if (card) {
    return typeName({ kind: card.name, cards: runtime.cards.length, parts: card.parts });
  }
  const type = live.type(runtime.type);
  return type ? typeName(type) : runtime.label;
}

/** The environment that `ownlab up` makes. Its types are named without it. */
const DEFAULT_ENVIRONMENT = 'default';

/** Return a short name of a type, with its environment if that is not the default one. */
export function typeNameInEnvironment(type: RuntimeType): string {
  const name = typeName(type);
  return type.environment === DEFAULT_ENVIRONMENT ? name : text('{type} · {environment}', { type: name, environment: type.environment });
}

/** Return the environment of a runtime, in words; empty: it is not known. */
export function describeEnvironment(runtime: Runtime, live: LiveSnapshot): string {
  const environment = live.type(runtime.type)?.environment;
  return environment === undefined ? '' : text('Environment: {environment}', { environment });
}

/** Return a short name of what a runtime has, with its environment if that is not the default one. */
export function runtimeNameInEnvironment(runtime: Runtime, live: LiveSnapshot): string {
  const name = runtimeName(runtime, live);
  const environment = live.type(runtime.type)?.environment ?? DEFAULT_ENVIRONMENT;
  return environment === DEFAULT_ENVIRONMENT ? name : text('{type} · {environment}', { type: name, environment });
}

/** Return the file name of a runtime's notebook, or a substitute if it has none. */
export function notebookName(notebook: string): string {
  return notebook.split('/').at(-1) || text('no notebook');
}

/** "busy for 3 min", "waiting, place 2". */
export function describeActivity(runtime: Runtime, now: number): string {
  const duration = formatDuration(now - runtime.changed_at);
  switch (runtime.state) {
    case 'waiting':
      return runtime.place === null ? text('waiting') : text('waiting, place {place}', { place: runtime.place });
    case 'starting':
      return text('starting');
    case 'ending':
      return text('ending');
    case 'running':
      return runtime.busy ? text('busy for {duration}', { duration }) : text('idle for {duration}', { duration });
  }
}

/** "3 min" while it is busy, "idle 3 min", "waiting, place 2"; with the time left once a limit is near. */
export function describeActivityBriefly(runtime: Runtime, now: number): string {
  if (runtime.state !== 'running') {
    return describeActivity(runtime, now);
  }
  if (runtime.warned && runtime.ends_at !== null) {
    return describeTimeLeft(runtime, now);
  }
  const duration = formatDuration(now - runtime.changed_at);
  return runtime.busy ? duration : text('idle {duration}', { duration });
}

/** "42 min left"; empty if no limit applies. */
export function describeTimeLeft(runtime: Runtime, now: number): string {
  return runtime.ends_at === null ? '' : text('{duration} left', { duration: formatDuration(runtime.ends_at - now) });
}

/** "Ends at 10:02, in 42 min (idle for 90 min)". */
export function describeEnd(runtime: Runtime, endsAt: number, now: number): string {
  const time = formatTime(endsAt, now);
  const duration = formatDuration(endsAt - now);
  const reason = runtime.ends_why;
  return reason
    ? text('Ends at {time}, in {duration} ({reason})', { time, duration, reason })
    : text('Ends at {time}, in {duration}', { time, duration });
}

/** "1.5 units/h". */
export function formatRate(unitsPerHour: number): string {
  return unitsPerHour === 1 ? text('1 unit/h') : text('{units} units/h', { units: formatUnits(unitsPerHour) });
}

/** "1.5 units/h, 3 so far". */
export function describeCost(runtime: Runtime): string {
  return text('{rate}, {units} so far', { rate: formatRate(runtime.units_per_hour), units: formatUnits(runtime.units) });
}

function formatUnits(amount: number): string {
  return amount >= 100 ? amount.toFixed(0) : String(Number(amount.toFixed(2)));
}

/** The machine that a runtime uses: the lab's, or the node of a cluster; null if nothing is known of that one. */
export function hostOf(runtime: Runtime, own: HostState | undefined): HostState | null {
  return runtime.node ? runtime.host : (own ?? null);
}

/** Return the memory that a runtime has booked on its cards; null if it is not known. */
export function bookedMemory(runtime: Runtime): number | null {
  const shares = runtime.cards.map(card => card.booked);
  return shares.length && shares.every(share => share !== null) ? shares.reduce((sum: number, share) => sum + (share ?? 0), 0) : null;
}

/** Return the memory of some parts of a card; null if it is not known. */
export function bookedShare(memory: number | null, parts: number): number | null {
  return memory === null ? null : Math.floor((memory * parts) / PARTS);
}
