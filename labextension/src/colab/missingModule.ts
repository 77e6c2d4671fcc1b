/** Recognises a cell that failed because google.colab cannot be imported. `ownlab run` decides in the same way. */

import type { IKernelError } from '../notebook/errorOffers';

const NO_COLAB = /^No module named 'google\.colab[.']|^cannot import name 'colab' from 'google'/;
const MENTIONS = /(?<![\w.])google\s*\.\s*colab(?!\w)|(?<![\w.])from\s+google\s+import\s[^\n;]*(?<!\w)colab(?!\w)/;
/** The colours of a traceback. */
const COLOURS = /\x1b\[[0-9;]*m/g;

/** Where nothing else of `google` is installed, Python says only that `google` is missing. */
export function lacksColab({ ename, evalue, traceback }: IKernelError): boolean {
  if (ename !== 'ModuleNotFoundError' && ename !== 'ImportError') {
    return false;
  }
  return NO_COLAB.test(evalue) || (evalue === "No module named 'google'" && MENTIONS.test(traceback.join('\n').replace(COLOURS, '')));
}
