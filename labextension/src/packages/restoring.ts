/** Between a notebook's packages and its kernel: which of them that lacks, and how they are installed. The kernel knows. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Remembered } from './remembered';

const MODULE = 'ownlab_guest.shell.packages';

interface IRestored {
  installed: string[];
  /** Why not all of it was; '': it was. */
  failed: string;
}

/** null: that kernel is none of ours, or it is gone. */
export function lacking(kernel: Kernel.IKernelConnection, wanted: Remembered): Promise<Remembered | null> {
  return ask<Remembered>(kernel, 'lacking', wanted);
}

/** `say` hears each line of what installers print. */
export function restore(kernel: Kernel.IKernelConnection, wanted: Remembered, say: (line: string) => void): Promise<IRestored | null> {
  return ask<IRestored>(kernel, 'restore', wanted, say);
}

/** A call in the kernel, of which no cell and no history knows. */
async function ask<T>(kernel: Kernel.IKernelConnection, what: string, { pip, apt }: Remembered, say?: (line: string) => void): Promise<T | null> {
  // Texts in JSON are texts in Python.
  const call = `__import__('${MODULE}', fromlist=['${what}']).${what}(${JSON.stringify(pip)}, ${JSON.stringify(apt)})`;
  try {
    const future = kernel.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { found: call }
    });
    future.onIOPub = message => {
      if (message.header.msg_type === 'stream') {
        (message.content as KernelMessage.IStreamMsg['content']).text.split(/[\r\n]+/).forEach(line => line.trim() && say?.(line.trim()));
      }
    };
    const { content } = await future.done;
    const found = content.status === 'ok' ? content.user_expressions['found'] : undefined;
    const answer = found as { status?: string; data?: Record<string, unknown> } | undefined;
    return answer?.status === 'ok' ? ((answer.data?.['application/json'] ?? null) as T | null) : null;
  } catch {
    return null; // the kernel was restarted, or ended
  }
}
