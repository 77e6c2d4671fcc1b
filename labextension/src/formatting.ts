/** Numbers and records as people read them. The same words as in the terminal. */
import type { Runtime, RuntimeType } from './records';
import type { LiveSnapshot } from './runtimes/liveSnapshot';

/** A card is booked in twelfths. */
export const PARTS = 12;

const FRACTIONS: Record<number, string> = { 2: '⅙', 3: '¼', 4: '⅓', 6: '½', 8: '⅔', 9: '¾', 10: '⅚' };
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** 1536 -> "1.5 KiB". */
export function bytes(count: number): string {
  let size = count;
  let power = 0;
  while (Math.abs(size) >= 1024 && power < BINARY.length - 1) {
    size /= 1024;
    power += 1;
  }
  return `${figure(size, power)} ${BINARY[power]}`;
}

/** "1.2 of 8 GiB", "51 MiB of 8 GiB". */
export function bytesOf(used: number, whole: number): string {
  const [figure, unit] = bytes(used).split(' ');
  const words = bytes(whole);
  return words.endsWith(` ${unit}`) ? `${figure} of ${words}` : `${figure} ${unit} of ${words}`;
}

function figure(size: number, power: number): string {
  return power === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1).replace(/\.0$/, '');
}

/** 43.2 -> "43 %", 0.75 -> "0.8 %": little is not nothing. */
export function percent(value: number | null): string {
  return value === null ? '–' : `${value < 0.95 ? Number(value.toFixed(1)) : Math.round(value)} %`;
}

/** 5400 -> "1 h 30 min". */
export function duration(seconds: number): string {
  if (seconds < 60) {
    return `${Math.max(0, Math.round(seconds))} s`;
  }
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) {
    return `${minutes} min`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) {
    return joined(Math.floor(hours / 24), 'd', hours % 24, 'h');
  }
  return joined(hours, 'h', minutes % 60, 'min');
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

/** "10:02", or "Tue 10:02" where that was another day. */
export function clock(at: number, now: number): string {
  const then = new Date(at * 1000);
  const sameDay = then.toDateString() === new Date(now * 1000).toDateString();
  return then.toLocaleTimeString('en-GB', { ...(sameDay ? {} : { weekday: 'short' }), hour: '2-digit', minute: '2-digit' });
}

/** 6 -> "½". */
export function share(parts: number): string {
  return parts === PARTS ? '1' : (FRACTIONS[parts] ?? `${parts}/${PARTS}`);
}

/** "NVIDIA GeForce GTX 1080 Ti" -> "GTX 1080 Ti". */
export function cardName(name: string): string {
  return name.replace(/^(NVIDIA|AMD|Intel)(\(R\))?\s+/i, '').replace(/^(GeForce|Tesla|Radeon|Instinct)\s+/i, '');
}

/** "½ × H200", "2 × H200", "CPU". */
export function typeName(type: Pick<RuntimeType, 'kind' | 'cards' | 'parts'>): string {
  if (type.kind === null) {
    return 'CPU';
  }
  const whole = type.parts === PARTS;
  const count = whole ? String(type.cards) : type.cards === 1 ? share(type.parts) : `${type.cards} × ${share(type.parts)}`;
  return `${count} × ${cardName(type.kind)}`;
}

/** What a runtime is or waits for, in few letters. */
export function runtimeName(runtime: Runtime, live: LiveSnapshot): string {
  const [card] = runtime.cards;
  if (card) {
    return typeName({ kind: card.name, cards: runtime.cards.length, parts: card.parts });
  }
  const type = live.type(runtime.type);
  return type ? typeName(type) : runtime.label;
}

/** "train.ipynb", or what stands for a runtime that has no notebook. */
export function notebookName(notebook: string): string {
  return notebook.split('/').at(-1) || 'no notebook';
}

/** "busy for 3 min", "waiting, place 2". */
export function activity(runtime: Runtime, now: number): string {
  switch (runtime.state) {
    case 'waiting':
      return runtime.place === null ? 'waiting' : `waiting, place ${runtime.place}`;
    case 'starting':
      return 'starting';
    case 'ending':
      return 'ending';
    case 'running':
      return `${runtime.busy ? 'busy' : 'idle'} for ${duration(now - runtime.changed_at)}`;
  }
}

/** "42 min left", or nothing where no limit applies. */
export function timeLeft(runtime: Runtime, now: number): string {
  return runtime.ends_at === null ? '' : `${duration(runtime.ends_at - now)} left`;
}

/** "Ends at 10:02, in 42 min (idle for 90 min)". */
export function endWords(runtime: Runtime, endsAt: number, now: number): string {
  const why = runtime.ends_why ? ` (${runtime.ends_why})` : '';
  return `Ends at ${clock(endsAt, now)}, in ${duration(endsAt - now)}${why}`;
}

/** "1.5 units/h". */
export function rate(unitsPerHour: number): string {
  return `${units(unitsPerHour)} ${unitsPerHour === 1 ? 'unit' : 'units'}/h`;
}

export function units(amount: number): string {
  return amount >= 100 ? amount.toFixed(0) : String(Number(amount.toFixed(2)));
}

/** The share of the cards' memory that a runtime booked. */
export function booked(runtime: Runtime): number | null {
  const shares = runtime.cards.map(card => card.booked);
  return shares.length && shares.every(one => one !== null) ? shares.reduce((sum: number, one) => sum + (one ?? 0), 0) : null;
}

/** "a, b and c". */
export function listed(parts: ReadonlyArray<string>): string {
  return parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;
}
