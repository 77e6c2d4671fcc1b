/** What the start page says about environments. */
import { formatBytes } from '../formatting';
import type { EnvironmentState } from '../records';
import { facts, text } from '../text';

const NAMED = 3;

/** "numpy, pandas, matplotlib and 4 more", without versions. */
export function namePackages(packages: readonly string[]): string {
  const names = packages.map(requirement => requirement.split(/[\s<>=!~;@[]/, 1)[0] ?? requirement);
  const more = names.length - NAMED;
  return more > 1 ? text('{names} and {more} more', { names: facts(names.slice(0, NAMED)), more }) : facts(names);
}

/** "Python 3.11 · numpy, pandas, matplotlib · 1.2 GiB · proven on card 0". */
export function describeEnvironment(environment: EnvironmentState): string {
  const { status, version, packages, size_bytes, proof, progress } = environment;
  switch (status) {
    case 'building':
    case 'updating':
      return progress?.message ?? text('is being built');
    case 'failed':
      return text('could not be built');
    case 'cancelled':
      return text('cancelled; what was downloaded is kept');
    case 'interrupted':
      return text('interrupted; what was downloaded is kept');
    case 'missing':
      return text('its interpreter is gone');
    case 'ready':
      return [
        ...(version ? [text('Python {version}', { version: version.split('.').slice(0, 2).join('.') })] : []),
        ...(packages.length ? [namePackages(packages)] : []),
        ...(size_bytes === null ? [] : [formatBytes(size_bytes)]),
        ...(proof ? [proof] : [])
      ].join(' · ');
  }
}
