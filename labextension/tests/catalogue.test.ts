import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';

const SOURCES = 'src';
const CATALOGUE = '../src/ownlab/locale/zh_CN/LC_MESSAGES/ownlab.json';

/** Function -> which of its arguments are templates. */
const TEMPLATES: Record<string, readonly number[]> = { text: [0], textNodes: [0], plural: [1, 2] };

/** Return all templates, as the compiler reads them. */
function templates(): Set<string> {
  const found = new Set<string>();
  for (const name of readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })) {
    if (['.ts', '.tsx'].includes(extname(name))) {
      const visit = (node: ts.Node): void => {
        if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
          for (const position of TEMPLATES[node.expression.text] ?? []) {
            const argument = node.arguments[position];
            if (argument && ts.isStringLiteral(argument)) {
              found.add(argument.text);
            }
          }
        }
        ts.forEachChild(node, visit);
      };
      visit(ts.createSourceFile(name, readFileSync(join(SOURCES, name), 'utf8'), ts.ScriptTarget.Latest));
    }
  }
  return found;
}

test('the catalogue has every template that the compiler finds', () => {
  const catalogue = JSON.parse(readFileSync(CATALOGUE, 'utf8')) as Record<string, unknown>;
  const wanted = templates();
  assert.ok(wanted.size > 500);
  assert.deepEqual([...wanted].filter(template => !(template in catalogue)), []);
});
