/** Which runtime type a notebook gets when it connects. Without JupyterLab's modules, so that it can be tested alone. */

/** What a notebook says about its kernel, in its metadata. */
export interface IKernelMetadata {
  name?: unknown;
  language?: unknown;
}

/** The kernelspecs of the server, as far as they are used here. */
export interface ISpecs {
  readonly default: string;
  readonly kernelspecs: { readonly [name: string]: { readonly language: string } | undefined };
}

/** The CPU type as the command line and other programs know it, and as a lab lists it: most notebooks name their kernel so. */
const CPU_TYPE = 'ownlab-cpu';
const LISTED_CPU_TYPE = 'python3';

export interface IChosenType {
  name: string;
  /** The type that the notebook names and that this lab does not have; null: it has it, or the notebook names none. */
  missing: string | null;
}

/**
 * Return the type that the notebook had last; otherwise the default type, if it speaks the notebook's language, or any that
 * does. null: no type of this lab can run the notebook.
 *
 * `preferred`: the type that was chosen when the notebook was created or opened.
 */
export function chooseType(metadata: IKernelMetadata | undefined, preferred: string | undefined, specs: ISpecs | null): IChosenType | null {
  if (!specs) {
    return null;
  }
  const named = [metadata?.name, preferred].filter((name): name is string => typeof name === 'string' && name !== '');
  const known = named.map(name => listedName(name, specs)).find(name => specs.kernelspecs[name] !== undefined);
  if (known !== undefined) {
    return { name: known, missing: null };
  }
  const language = typeof metadata?.language === 'string' ? metadata.language.toLowerCase() : '';
  const speaks = (name: string): boolean => {
    const spec = specs.kernelspecs[name];
    return spec !== undefined && (language === '' || spec.language.toLowerCase() === language);
  };
  const name = [specs.default, ...Object.keys(specs.kernelspecs)].find(speaks);
  return name === undefined ? null : { name, missing: named[0] ?? null };
}

function listedName(name: string, specs: ISpecs): string {
  return name === CPU_TYPE && specs.kernelspecs[name] === undefined ? LISTED_CPU_TYPE : name;
}
