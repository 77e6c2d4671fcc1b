/** The packages that a notebook's cells installed, in its metadata; in the same format as on the server. */
import type { INotebookModel } from '@jupyterlab/notebook';
import { JSONExt, type PartialJSONObject } from '@lumino/coreutils';

const KINDS = ['pip', 'apt'] as const;

/** Requirements for pip (NAME==VERSION, NAME @ URL), and names of Debian packages. */
export type Packages = Record<(typeof KINDS)[number], string[]>;

/** What a kernel reports: name -> what installs it; null: it was removed. */
export type PackageChanges = Partial<Record<(typeof KINDS)[number], Record<string, string | null>>>;

export function readPackages(model: INotebookModel): Packages {
  const value = asObject(asObject(model.getMetadata('ownlab'))['packages']);
  return { pip: strings(value['pip']), apt: strings(value['apt']) };
}

/** Apply changes to a notebook's metadata, and keep everything else in it. */
export function updatePackages(model: INotebookModel, changes: PackageChanges): void {
  const before = readPackages(model);
  const after = { pip: applyChanges('pip', before, changes), apt: applyChanges('apt', before, changes) };
  if (JSONExt.deepEqual(before, after)) {
    return;
  }
  const ownlab: unknown = model.getMetadata('ownlab') ?? {};
  const kept: unknown = isObject(ownlab) ? (ownlab['packages'] ?? {}) : null;
  if (!isObject(ownlab) || !isObject(kept)) {
    return; // not in our format
  }
  const packages: PartialJSONObject = { ...kept, ...after };
  KINDS.filter(kind => after[kind].length === 0).forEach(kind => delete packages[kind]);
  model.setMetadata('ownlab', { ...ownlab, packages });
}

function applyChanges(kind: (typeof KINDS)[number], before: Packages, changes: PackageChanges): string[] {
  const kept = new Map<string, string | null>(before[kind].map(requirement => [packageName(kind, requirement), requirement]));
  Object.entries(changes[kind] ?? {}).forEach(([name, value]) => kept.set(packageName(kind, name), value));
  return [...kept.values()].filter(requirement => requirement !== null).sort();
}

/** Foo_Bar==1.0 -> foo-bar. */
function packageName(kind: string, requirement: string): string {
  const name = /^[A-Za-z0-9][A-Za-z0-9._-]*/.exec(requirement)?.[0];
  return kind === 'pip' && name ? name.replace(/[-_.]+/g, '-').toLowerCase() : requirement;
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((requirement): requirement is string => typeof requirement === 'string') : [];
}

function asObject(value: unknown): PartialJSONObject {
  return isObject(value) ? value : {};
}

function isObject(value: unknown): value is PartialJSONObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
