/** What the toolbar says about saving a notebook: one short sentence, and the whole truth as its title. */
import { formatDuration } from '../formatting';
import { sentences, text } from '../text';

/** Shorter saves would only flicker. */
const SAVING_MS = 700;
/** A server that answers confirms edits within a fraction of a second; a server that hangs does not. */
const LATE_MS = 10_000;

export interface ISaving {
  /** Whether the server answers; refused: it wants another token. */
  readonly reach: 'reachable' | 'unreachable' | 'refused';
  /** Why the server cannot store edits at the moment; empty if it can. */
  readonly failure: string;
  /** Why the server accepts no edits of this notebook; empty if it does. */
  readonly refusal: string;
  readonly isDirty: boolean;
  /** Milliseconds since the first change that is not saved. */
  readonly dirtyFor: number;
  /** Milliseconds since the notebook was saved; NaN: not known. */
  readonly savedFor: number;
}

export interface ISavedSentences {
  readonly status: string;
  readonly title: string;
  readonly isFailure: boolean;
}

export function describeSaving(saving: ISaving): ISavedSentences {
  const problem = describeProblem(saving);
  if (problem) {
    return { ...problem, isFailure: true };
  }
  const status = saving.isDirty && saving.dirtyFor > SAVING_MS ? text('Saving…') : describeSaved(saving.savedFor / 1000);
  const title = text('Changes are saved as you type. Older versions of this notebook are in its history.');
  return { status, title, isFailure: false };
}

function describeProblem({ reach, failure, refusal, isDirty, dirtyFor }: ISaving): Omit<ISavedSentences, 'isFailure'> | null {
  const kept = text('Your changes are kept in this page: do not close it.');
  if (failure) {
    return { status: text('Not saved'), title: sentences(failure, kept) };
  }
  if (!isDirty) {
    return null;
  }
  if (reach === 'unreachable') {
    return { status: text('Not saved: the server does not answer'), title: sentences(kept, text('They are saved as soon as the server answers.')) };
  }
  if (reach === 'refused') {
    const remedy = text('Open the address that `ownlab status` prints in another tab; then they are saved.');
    return { status: text('Not saved: the server requires its token'), title: sentences(kept, remedy) };
  }
  if (refusal) {
    return { status: text('Not saved'), title: sentences(refusal, kept, text('Save it with Ctrl+S, or as a copy: File > Save Notebook As…')) };
  }
  return dirtyFor > LATE_MS
    ? { status: text('Not saved yet'), title: sentences(text('The server has not confirmed the last changes yet.'), kept) }
    : null;
}

function describeSaved(seconds: number): string {
  if (!Number.isFinite(seconds)) {
    return '';
  }
  return seconds < 1 ? text('Saved just now') : text('Saved {duration} ago', { duration: formatDuration(seconds) });
}
