import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fieldsOf, type IParsedForm, mayHaveForm, minimalEdit, withFieldValue } from '../src/forms/parsedForm';
import type { Field, Form } from '../src/records';

const SOURCE = 'a = 1 #@param\nb = 22 #@param\n';

function parsed(): IParsedForm {
  const field = (name: string, value: string, start: number) => ({ part: 'field', name, value, start, end: start + value.length }) as Field;
  return { source: SOURCE, view: null, form: { parts: [field('a', '1', 4), field('b', '22', 18)] } as unknown as Form };
}

test('what may contain a form', () => {
  assert.ok(mayHaveForm('x = 1 # @param {type: "integer"}'));
  assert.ok(mayHaveForm('#@title A title'));
  assert.ok(!mayHaveForm('# param @ title'));
});

test('a name that occurs twice has two keys', () => {
  const form = { parts: [{ part: 'field', name: 'a' }, { part: 'markdown' }, { part: 'field', name: 'a' }] } as unknown as Form;
  assert.deepEqual([...fieldsOf(form).keys()], ['a', "a'"]);
  assert.equal(fieldsOf(null).size, 0);
});

test('a longer value moves the fields behind it', () => {
  const before = parsed();
  const changed = withFieldValue(before, before.form?.parts[0] as Field, '1000');
  assert.equal(changed.source, 'a = 1000 #@param\nb = 22 #@param\n');
  for (const field of fieldsOf(changed.form).values()) {
    assert.equal(changed.source.slice(field.start, field.end), field.value);
  }
  const again = withFieldValue(changed, fieldsOf(changed.form).get('b') as Field, '');
  assert.equal(again.source, 'a = 1000 #@param\nb =  #@param\n');
});

test('the smallest edit changes one text into the other', () => {
  const texts = ['', 'a', 'aa', 'aba', 'x = 1', 'x = 12', 'x = 21', '😀', '😁', 'a😀b', 'a😁b', 'a😀😀b'];
  for (const before of texts) {
    for (const after of texts) {
      const { start, end, text } = minimalEdit(before, after, 10);
      assert.equal(before.slice(0, start - 10) + text + before.slice(end - 10), after);
    }
  }
  assert.deepEqual(minimalEdit('x = 1', 'x = 12', 10), { start: 15, end: 15, text: '2' });
});

test('an edit does not split a surrogate pair', () => {
  assert.deepEqual(minimalEdit('a😀b', 'a😁b', 0), { start: 1, end: 3, text: '😁' });
});
