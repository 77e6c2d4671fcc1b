import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeSaving, type ISaving } from '../src/cells/savedSentences';

const SAVED: ISaving = { reach: 'reachable', failure: '', refusal: '', isDirty: false, dirtyFor: 0, savedFor: 5000 };
const DIRTY: ISaving = { ...SAVED, isDirty: true, dirtyFor: 2000 };

function status(saving: ISaving): string {
  return describeSaving(saving).status;
}

test('a saved notebook says when', () => {
  assert.equal(status(SAVED), 'Saved 5 s ago');
  assert.equal(status({ ...SAVED, savedFor: 200 }), 'Saved just now');
  assert.equal(status({ ...SAVED, savedFor: NaN }), '');
  assert.equal(describeSaving(SAVED).isFailure, false);
});

test('a short save does not flicker', () => {
  assert.equal(status({ ...DIRTY, dirtyFor: 100 }), 'Saved 5 s ago');
  assert.equal(status(DIRTY), 'Saving…');
});

test('nothing is being saved while the server does not answer', () => {
  const { status, title, isFailure } = describeSaving({ ...DIRTY, reach: 'unreachable' });
  assert.equal(status, 'Not saved: the server does not answer');
  assert.match(title, /kept in this page/);
  assert.equal(isFailure, true);
  assert.equal(describeSaving({ ...SAVED, reach: 'unreachable' }).status, 'Saved 5 s ago', 'there is nothing to save');
});

test('a server that wants its token', () => {
  assert.match(status({ ...DIRTY, reach: 'refused' }), /^Not saved: .*token/);
});

test('a server that hangs is not believed to save for ever', () => {
  assert.equal(status({ ...DIRTY, dirtyFor: 11_000 }), 'Not saved yet');
});

test('the reason of the server is in the title', () => {
  assert.match(describeSaving({ ...DIRTY, refusal: 'The file is read-only.' }).title, /^The file is read-only\. .*Ctrl\+S/);
  assert.match(describeSaving({ ...DIRTY, failure: 'The disk is full.' }).title, /^The disk is full\. /);
  assert.equal(status({ ...SAVED, refusal: 'The file is read-only.' }), 'Saved 5 s ago', 'nothing was changed');
});
