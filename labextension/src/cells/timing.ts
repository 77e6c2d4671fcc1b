/** When a cell ran, for how long, and who ran it: from its metadata, in words. */
import { formatTime } from '../formatting';
import { dateLocale, text } from '../text';

/** An execution that has ended. Times are in seconds since 1970. */
export interface ITiming {
  readonly startedAt: number;
  readonly seconds: number;
  /** Who ran it; null: not known. */
  readonly person: string | null;
}

/** The keys of metadata.execution, see JupyterLab's setting recordTiming; ownlab.person is added by ownlab's server. */
const STARTED = ['shell.execute_reply.started', 'iopub.execute_input', 'iopub.status.busy'];
const ENDED = ['shell.execute_reply', 'iopub.status.idle', 'execution_failed'];

/** Return the timing that JupyterLab (metadata.execution) or Colab (metadata.executionInfo) has stored in a cell. */
export function storedTiming(execution: unknown, colab: unknown): ITiming | null {
  return jupyterTiming(execution) ?? colabTiming(colab);
}

/** Return whether an execution that metadata.execution describes was ended from outside. A cell that failed has a reply, too. */
export function wasCutShort(execution: unknown): boolean {
  return isObject(execution) && typeof execution['execution_failed'] === 'string' && execution['shell.execute_reply'] === undefined;
}

function jupyterTiming(execution: unknown): ITiming | null {
  if (!isObject(execution)) {
    return null;
  }
  const startedAt = firstTime(execution, STARTED);
  const endedAt = firstTime(execution, ENDED);
  const person = execution['ownlab.person'];
  return startedAt === null || endedAt === null || endedAt < startedAt
    ? null
    : { startedAt, seconds: endedAt - startedAt, person: typeof person === 'string' && person ? person : null };
}

function firstTime(execution: Record<string, unknown>, keys: readonly string[]): number | null {
  for (const key of keys) {
    const date = execution[key];
    const time = typeof date === 'string' ? Date.parse(date) / 1000 : NaN;
    if (Number.isFinite(time)) {
      return time;
    }
  }
  return null;
}

/** {"elapsed": milliseconds, "timestamp": milliseconds at its end, "user": {"displayName": …}}. */
function colabTiming(info: unknown): ITiming | null {
  if (!isObject(info)) {
    return null;
  }
  const { elapsed, timestamp, user } = info;
  if (typeof elapsed !== 'number' || typeof timestamp !== 'number' || elapsed < 0) {
    return null;
  }
  const name = isObject(user) ? user['displayName'] : null;
  return { startedAt: (timestamp - elapsed) / 1000, seconds: elapsed / 1000, person: typeof name === 'string' && name ? name : null };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** 0.01 -> "<0.1 s", 0.42 -> "0.4 s", 31.4 -> "31 s", 725 -> "12:05", 3725 -> "1:02:05". */
export function formatSeconds(seconds: number): string {
  if (seconds < 0.05) {
    return text('<0.1 s');
  }
  if (seconds < 9.95) {
    return text('{seconds} s', { seconds: seconds.toFixed(1) });
  }
  return seconds < 59.5 ? text('{seconds} s', { seconds: Math.round(seconds) }) : formatClock(Math.round(seconds));
}

/** 7 -> "0:07", 3725 -> "1:02:05": does not jump while it counts. */
export function formatClock(seconds: number): string {
  const pad = (count: number): string => String(count).padStart(2, '0');
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  return hours > 0 ? `${hours}:${pad(minutes % 60)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

/** "You ran this cell on Tue 10:02. It took 3.1 s." */
export function describeTiming({ startedAt, seconds, person }: ITiming, you: string | null, now: number): string {
  const time = describeTime(startedAt, now);
  const duration = formatSeconds(seconds);
  if (person !== null && person === you) {
    return text('You ran this cell at {time}. It took {duration}.', { time, duration });
  }
  return person === null
    ? text('This cell ran at {time}. It took {duration}.', { time, duration })
    : text('{person} ran this cell at {time}. It took {duration}.', { person, time, duration });
}

const WEEK_SECONDS = 6 * 86_400;

/** "10:02", "Tue 10:02", or "2026-05-03 10:02" if it is older than a week. */
function describeTime(at: number, now: number): string {
  if (now - at < WEEK_SECONDS) {
    return formatTime(at, now);
  }
  const then = new Date(at * 1000);
  const date = `${then.getFullYear()}-${String(then.getMonth() + 1).padStart(2, '0')}-${String(then.getDate()).padStart(2, '0')}`;
  return text('{date} {time}', { date, time: then.toLocaleTimeString(dateLocale(), { hour: '2-digit', minute: '2-digit' }) });
}
