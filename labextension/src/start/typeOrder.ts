/** Which runtime type a new notebook gets if people do not choose. */
import { PARTS } from '../formatting';
import type { RuntimeType } from '../records';

/**
 * Return a whole card if one is free, else a part of one, else the CPU; undefined if there are no types yet.
 *
 * A node of a cluster is only taken if people choose it: others may wait for it.
 */
export function preferredType(allTypes: readonly RuntimeType[]): RuntimeType | undefined {
  const types = allTypes.filter(type => type.engine === '');
  const single = types.filter(type => type.kind !== null && type.cards === 1 && type.free);
  return (
    single.find(type => type.parts === PARTS) ??
    [...single].sort((a, b) => b.parts - a.parts)[0] ??
    types.find(type => type.kind === null) ??
    types[0]
  );
}
