/** Which runtime type a new notebook gets if people do not choose. */
import { PARTS } from '../formatting';
import type { RuntimeType } from '../records';

/** Return a whole card if one is free, else a part of one, else the CPU; undefined if there are no types yet. */
export function preferredType(types: readonly RuntimeType[]): RuntimeType | undefined {
  const single = types.filter(type => type.kind !== null && type.cards === 1 && type.free);
  return (
    single.find(type => type.parts === PARTS) ??
    [...single].sort((a, b) => b.parts - a.parts)[0] ??
    types.find(type => type.kind === null) ??
    types[0]
  );
}
