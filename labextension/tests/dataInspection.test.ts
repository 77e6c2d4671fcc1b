import { strict as assert } from 'node:assert';
import { test } from 'node:test';
import { canBeInspected, inspectionCommand } from '../src/files/dataInspection';

test('Folders, archives and tables can be inspected', () => {
  for (const name of ['train.zip', 'a.tar.gz', 'A.TGZ', 'x.7z', 'labels.csv', 't.parquet']) {
    assert.equal(canBeInspected({ type: 'file', name }), true, name);
  }
  assert.equal(canBeInspected({ type: 'directory', name: 'train' }), true);
  for (const name of ['train.py', 'a.ipynb', 'zip', 'photo.jpg']) {
    assert.equal(canBeInspected({ type: 'file', name }), false, name);
  }
});

test('A name is one word of the shell', () => {
  assert.equal(inspectionCommand('/lab/my data'), "ownlab data inspect -- '/lab/my data'\r");
  assert.equal(inspectionCommand("/lab/it's; rm -rf $HOME"), "ownlab data inspect -- '/lab/it'\\''s; rm -rf $HOME'\r");
});

test('Control characters are not typed into a terminal', () => {
  for (const name of ['a\nb', 'a\u0003b', 'a\rb', 'a\u009bb']) {
    assert.throws(() => inspectionCommand(`/lab/${name}`), /control characters/);
  }
});
