// Runs the page's own code for fields in node. argv: the labextension's folder. stdin: {"values": [row], "writes": [step]}.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const home = process.argv[2];
const ts = createRequire(join(home, 'package.json'))('typescript');
const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true };
const folder = mkdtempSync(join(tmpdir(), 'ownlab-page-'));

/** TypeScript without its types; the page's bundler finds imports without endings, node does not. */
for (const name of ['python', 'fieldValue', 'parsedForm']) {
  const source = readFileSync(join(home, 'src', 'forms', `${name}.ts`), 'utf-8');
  const { outputText } = ts.transpileModule(source, { compilerOptions: options });
  writeFileSync(join(folder, `${name}.mjs`), outputText.replace(/from '\.\/(\w+)'/g, "from './$1.mjs'"));
}
const load = name => import(pathToFileURL(join(folder, `${name}.mjs`)).href);

try {
  const [{ displayValue, sourceText }, { withFieldValue, minimalEdit }] = await Promise.all([load('fieldValue'), load('parsedForm')]);
  const { values, writes } = JSON.parse(readFileSync(0, 'utf-8'));
  const written = writes.map(({ source, form, field, text }) => {
    const fields = form.parts.filter(part => part.part === 'field');
    const chosen = fields[field];
    const edit = minimalEdit(chosen.value, text, chosen.start);
    const { source: made, form: after } = withFieldValue({ source, view: null, form }, chosen, text);
    return { made, edited: source.slice(0, edit.start) + edit.text + source.slice(edit.end), form: after };
  });
  const read = values.map(({ field, given }) => ({ shown: displayValue(field), text: sourceText(field, given) }));
  process.stdout.write(JSON.stringify({ values: read, writes: written }));
} finally {
  rmSync(folder, { recursive: true });
}
