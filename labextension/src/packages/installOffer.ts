/** Offers to install what a notebook remembers and its runtime lacks. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { remembered, type Remembered } from './notebookPackages';

/** JupyterLab cuts a notice after 140 characters. */
const LONGEST = 140;
const DONE = 8_000;

/** Ask the kernel what it lacks, and say so, with a button. */
export async function offer(panel: NotebookPanel, kernel: Kernel.IKernelConnection): Promise<void> {
  await panel.context.ready;
  const wanted = remembered(panel.context.model);
  const missing = count(wanted) > 0 && !kernel.isDisposed ? await lacking(kernel, wanted) : null;
  if (missing === null || count(missing) === 0 || panel.isDisposed) {
    return;
  }
  const many = count(missing) > 1;
  const head = `This notebook needs ${many ? `${count(missing)} packages` : 'a package'} that this runtime has not got: `;
  const id = Notification.info(withNames(head, missing), {
    autoClose: false,
    actions: [
      {
        label: 'Install',
        displayType: 'accent',
        callback: event => {
          event.preventDefault(); // the notice stays, and shows how it goes on
          void install(id, kernel, missing);
        }
      }
    ]
  });
  kernel.disposed.connect(() => Notification.dismiss(id));
}

async function install(id: string, kernel: Kernel.IKernelConnection, missing: Remembered): Promise<void> {
  if (!(await mayTake(missing))) {
    return;
  }
  const said: string[] = [];
  const tell = (message: string, type: 'in-progress' | 'success' | 'error', autoClose: number | false): void => {
    const cut = message.length > LONGEST ? `${message.slice(0, LONGEST - 1)}…` : message;
    const details = { label: 'Details', callback: () => void showDialog({ title: 'What the installers said', body: lines(said), buttons: [Dialog.okButton()] }) };
    const options = { autoClose, actions: type === 'error' ? [details] : [] };
    if (!Notification.update({ id, message: cut, type, ...options }) && type !== 'in-progress') {
      Notification.emit(cut, type, options); // it was closed meanwhile
    }
  };
  tell(withNames('Installing ', missing), 'in-progress', false);
  const done = await restore(kernel, missing, line => {
    said.push(line);
    tell(`Installing: ${line}`, 'in-progress', false);
  });
  if (done?.failed === '') {
    tell(withNames('Installed: ', missing), 'success', DONE);
  } else {
    const why = done ? done.failed : 'the kernel was interrupted, or is gone';
    said.push(why);
    tell(`Not all was installed: ${why}`, 'error', false);
  }
}

/** What does not come from the package index is code of whoever wrote the notebook: a person should know from where. */
async function mayTake({ pip }: Remembered): Promise<boolean> {
  const elsewhere = pip.filter(each => each.includes(' @ '));
  if (elsewhere.length === 0) {
    return true;
  }
  const { button } = await showDialog({
    title: 'Install packages from these addresses?',
    body: lines(elsewhere),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Install' })]
  });
  return button.accept;
}

function lines(texts: string[]): Widget {
  const node = document.createElement('pre');
  node.textContent = texts.join('\n');
  return new Widget({ node });
}

function count({ pip, apt }: Remembered): number {
  return pip.length + apt.length;
}

/** As many names as there is room for. */
function withNames(head: string, { pip, apt }: Remembered): string {
  const names = [...pip.map(each => each.replace(/ @ .*/, '').replace('==', ' ')), ...apt];
  for (let shown = names.length; shown > 0; shown--) {
    const rest = names.length - shown;
    const text = `${head}${names.slice(0, shown).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}.`;
    if (text.length <= LONGEST) {
      return text;
    }
  }
  return `${head.replace(/: $/, '')}.`;
}

const MODULE = 'ownlab_guest.kernel.packages';

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
