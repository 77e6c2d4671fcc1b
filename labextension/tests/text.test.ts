import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as React from 'react';
import { dateLocale, ENGLISH, listing, pageLanguage, plural, PSEUDO, sentences, setLanguage, text, textNodes } from '../src/text';

test('placeholders are replaced by their values', () => {
  assert.equal(text('{name} uses {n} cards.', { name: 'train.ipynb', n: 2 }), 'train.ipynb uses 2 cards.');
  assert.equal(text('{a} {a}', { a: 0 }), '0 0');
  assert.equal(text('No placeholder.'), 'No placeholder.');
});

test('a value that looks like a placeholder or a pattern is taken as it is', () => {
  assert.equal(text('{a} {b}', { a: '{b}', b: '$&' }), '{b} $&');
});

test('values may be elements', () => {
  const code = React.createElement('code', null, 'pip');
  assert.deepEqual(textNodes('Run {command} now.', { command: code }).props, { children: ['Run ', code, ' now.'] });
});

test('plural chooses the template and fills in the count', () => {
  assert.equal(plural(1, '{n} card', '{n} cards'), '1 card');
  assert.equal(plural(0, '{n} card', '{n} cards'), '0 cards');
  assert.equal(plural(12, '{n} card', '{n} of {n} cards'), '12 of 12 cards');
  assert.equal(plural(2, '{name} has {n} card', '{name} has {n} cards', { name: 'gpu1' }), 'gpu1 has 2 cards');
});

test('empty sentences are left out', () => {
  assert.equal(sentences('One.', '', 'Two.'), 'One. Two.');
  assert.equal(sentences(), '');
});

test('names are listed as in a sentence', () => {
  assert.deepEqual([[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listing), ['', 'a', 'a and b', 'a, b and c']);
});

test('in another language, templates are translated before their values are put in', () => {
  const german: Record<string, string> = {
    '{name} uses {n} cards.': '{n} Karten: {name}.',
    'Run {command} now.': 'Jetzt {command} starten.',
    '{n} cards': '{n} Karten',
    '{first} {second}': '{first}{second}',
    '{names} and {last}': '{names} und {last}'
  };
  setLanguage('de', template => german[template] ?? template);
  try {
    assert.equal(text('{name} uses {n} cards.', { name: 'a.ipynb', n: 2 }), '2 Karten: a.ipynb.');
    assert.equal(plural(2, '{n} card', '{n} cards'), '2 Karten');
    assert.equal(text('Not in the catalogue.'), 'Not in the catalogue.');
    const code = React.createElement('code', null, 'pip');
    assert.deepEqual(textNodes('Run {command} now.', { command: code }).props, { children: ['Jetzt ', code, ' starten.'] });
    assert.equal(sentences('One.', '', 'Two.', 'Three.'), 'One.Two.Three.');
    assert.equal(listing(['a', 'b', 'c']), 'a, b und c');
    assert.deepEqual([pageLanguage(), dateLocale()], ['de', 'de']);
  } finally {
    setLanguage(ENGLISH, template => template);
  }
  assert.equal(dateLocale(), 'en-GB');
});

test('the pseudo-language changes what has words of its own', () => {
  setLanguage(PSEUDO, template => template);
  try {
    assert.equal(text('{name} is free.', { name: 'card 0' }), '⟦card 0 îš fréé.⟧');
    assert.equal(text('{type} · {environment}', { type: 'CPU', environment: 'default' }), 'CPU · default');
    assert.equal(plural(1, '{n} card', '{n} cards'), '⟦1 çårđ⟧');
  } finally {
    setLanguage(ENGLISH, template => template);
  }
});
