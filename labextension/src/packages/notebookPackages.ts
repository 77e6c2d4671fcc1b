/** What a notebook remembers of the packages that its cells installed, in its metadata; as lab/journal/packages.py has it. */
import type { INotebookModel } from '@jupyterlab/notebook';
import { JSONExt, type PartialJSONObject } from '@lumino/coreutils';

const KINDS = ['pip', 'apt'] as const;

/** Requirements for pip (NAME==VERSION, NAME @ URL), and names of Debian's packages. */
export type Remembered = Record<(typeof KINDS)[number], string[]>;

/** What a kernel tells: name -> what installs it; null: it was removed. */
export type Changes = Partial<Record<(typeof KINDS)[number], Record<string, string | null>>>;

export function remembered(model: INotebookModel): Remembered {
  const found = asObject(asObject(model.getMetadata('ownlab'))['packages']);
  return { pip: texts(found['pip']), apt: texts(found['apt']) };
}

/** Put changes into a notebook's metadata; what else stands there stays. */
export function remember(model: INotebookModel, changes: Changes): void {
  const before = remembered(model);
  const after = { pip: changed('pip', before, changes), apt: changed('apt', before, changes) };
  if (JSONExt.deepEqual(before, after)) {
    return;
  }
  const own: unknown = model.getMetadata('ownlab') ?? {};
  const kept: unknown = isObject(own) ? (own['packages'] ?? {}) : null;
  if (!isObject(own) || !isObject(kept)) {
    return; // somebody else's
  }
  const packages: PartialJSONObject = { ...kept, ...after };
  KINDS.filter(kind => after[kind].length === 0).forEach(kind => delete packages[kind]);
  model.setMetadata('ownlab', { ...own, packages });
}

function changed(kind: (typeof KINDS)[number], before: Remembered, changes: Changes): string[] {
  const kept = new Map<string, string | null>(before[kind].map(each => [nameOf(kind, each), each]));
  Object.entries(changes[kind] ?? {}).forEach(([name, value]) => kept.set(nameOf(kind, name), value));
  return [...kept.values()].filter(each => each !== null).sort();
}

/** Foo_Bar==1.0 -> foo-bar. */
function nameOf(kind: string, requirement: string): string {
  const name = /^[A-Za-z0-9][A-Za-z0-9._-]*/.exec(requirement)?.[0];
  return kind === 'pip' && name ? name.replace(/[-_.]+/g, '-').toLowerCase() : requirement;
}

function texts(found: unknown): string[] {
  return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string') : [];
}

function asObject(found: unknown): PartialJSONObject {
  return isObject(found) ? found : {};
}

function isObject(found: unknown): found is PartialJSONObject {
  return typeof found === 'object' && found !== null && !Array.isArray(found);
}
