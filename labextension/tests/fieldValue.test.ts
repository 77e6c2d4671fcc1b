import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asRawField, displayValue, matchesType, sourceText } from '../src/forms/fieldValue';
import type { Field } from '../src/records';

function field(fields: Partial<Field>): Field {
  return {
    part: 'field', name: 'x', type: 'string', value: "'a'", line: 0, start: 4, end: 7, choices: null, value_type: 'raw',
    allow_input: false, min: null, max: null, step: null, placeholder: null, ...fields
  };
}

test('a string is shown without its quotes, an expression as it is', () => {
  assert.equal(displayValue(field({ value: "'a'" })), 'a');
  assert.equal(displayValue(field({ value: "f'{a}'" })), "f'{a}'");
  assert.equal(displayValue(field({ type: 'raw', value: "'a'" })), "'a'");
  assert.equal(displayValue(field({ type: 'dropdown', value_type: 'string', value: '"a"' })), 'a');
});

test('input becomes source text', () => {
  const cases: [Partial<Field>, string, string | null][] = [
    [{}, "it's", String.raw`'it\'s'`],
    [{ type: 'date' }, '2026-02-28', "'2026-02-28'"],
    [{ type: 'date' }, '2026-02-30', null],
    [{ type: 'date' }, 'tomorrow', null],
    [{ type: 'boolean' }, ' Yes ', 'True'],
    [{ type: 'boolean' }, '0', 'False'],
    [{ type: 'boolean' }, 'maybe', null],
    [{ type: 'number' }, ' 1.50 ', '1.50'],
    [{ type: 'number' }, 'nan', null],
    [{ type: 'integer' }, '1e3', '1000'],
    [{ type: 'integer' }, '1.5', null],
    [{ type: 'integer' }, '0x10', '0x10'],
    [{ type: 'slider', min: 0, max: 10 }, '10', '10'],
    [{ type: 'slider', min: 0, max: 10 }, '11', null],
    [{ type: 'slider', min: 0, max: 10 }, '-1', null],
    [{ type: 'raw' }, ' [1, 2] ', '[1, 2]'],
    [{ type: 'raw' }, '[1, 2', null]
  ];
  for (const [fields, given, expected] of cases) {
    assert.equal(sourceText(field(fields), given), expected, `${fields.type ?? 'string'}: ${given}`);
  }
});

test('a list accepts its choices, and other input only if that is allowed', () => {
  const list = { type: 'dropdown', value_type: 'string', choices: ['a', 'b'] } as const;
  assert.equal(sourceText(field(list), 'b'), "'b'");
  assert.equal(sourceText(field(list), 'c'), null);
  assert.equal(sourceText(field({ ...list, allow_input: true }), 'c'), "'c'");
});

test('whether a type can show the value of the source', () => {
  assert.ok(matchesType(field({ value: '' })));
  assert.ok(!matchesType(field({ value: 'name' })));
  assert.ok(!matchesType(field({ type: 'date', value: "'2026-13-01'" })));
  assert.ok(!matchesType(field({ type: 'boolean', value: '1' })));
  assert.ok(!matchesType(field({ type: 'slider', value: 'n + 1' })));
  assert.ok(matchesType(field({ type: 'slider', value: '1_000' })));
  assert.ok(matchesType(asRawField(field({ type: 'slider', value: 'n + 1' }))));
});
