/** Errors, as the user sees them. */
import { Notification } from '@jupyterlab/apputils';
import type { Failure } from './records';
import { sentences, text } from './text';

/** Return the message of anything that was thrown. */
export function errorMessage(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** Return the message and the hint of a failure that the server reports. */
export function failureMessage({ error: { message, hint } }: Failure): string {
  return sentences(/[.!?。！？⟧]$/.test(message) ? message : text('{message}.', { message }), hint);
}

/** Wait for some work, and show a notification if it fails. Return whether it succeeded. */
export async function reportFailure(work: Promise<unknown>, describe: (error: string) => string = error => error): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (reason) {
    Notification.error(describe(errorMessage(reason)), { autoClose: false });
    return false;
  }
}
