/** Offers to install the packages that a notebook needs and its runtime lacks. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { facts, plural, text } from '../text';
import { type Packages, readPackages } from './notebookPackages';

/** JupyterLab truncates notifications after 140 characters. */
const MAX_MESSAGE_LENGTH = 140;
const SUCCESS_CLOSE_MS = 8_000;

/** Ask the kernel which packages are missing, and offer to install them. */
export async function offerInstall(panel: NotebookPanel, kernel: Kernel.IKernelConnection): Promise<void> {
  await panel.context.ready;
  const wanted = readPackages(panel.context.model);
  const missing = count(wanted) > 0 && !kernel.isDisposed ? await findMissing(kernel, wanted) : null;
  if (missing === null || count(missing) === 0 || panel.isDisposed) {
    return;
  }
  const n = count(missing);
  const short = plural(
    n,
    'This notebook needs a package that is not installed in this runtime.',
    'This notebook needs {n} packages that are not installed in this runtime.'
  );
  const describe = (names: string): string =>
    n === 1
      ? text('This notebook needs a package that is not installed in this runtime: {names}.', { names })
      : text('This notebook needs {n} packages that are not installed in this runtime: {names}.', { n, names });
  const id = Notification.info(withNames(missing, describe, short), {
    autoClose: false,
    actions: [
      {
        label: text('Install'),
        displayType: 'accent',
        callback: event => {
          event.preventDefault(); // keep the notification, which shows the progress
          void install(id, kernel, missing);
        }
      }
    ]
  });
  kernel.disposed.connect(() => Notification.dismiss(id));
}

async function install(id: string, kernel: Kernel.IKernelConnection, missing: Packages): Promise<void> {
  if (!(await confirmSources(missing))) {
    return;
  }
  const lines: string[] = [];
  const notify = (message: string, type: 'in-progress' | 'success' | 'error', autoClose: number | false): void => {
    const short = message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH - 1)}…` : message;
    const showLines = (): Promise<unknown> =>
      showDialog({ title: text('Output of the installers'), body: preformatted(lines), buttons: [Dialog.okButton()] });
    const details = { label: text('Details'), callback: () => void showLines() };
    const options = { autoClose, actions: type === 'error' ? [details] : [] };
    if (!Notification.update({ id, message: short, type, ...options }) && type !== 'in-progress') {
      Notification.emit(short, type, options); // the user closed the first one
    }
  };
  notify(withNames(missing, names => text('Installing {names}.', { names }), text('Installing packages.')), 'in-progress', false);
  const done = await installPackages(kernel, missing, line => {
    lines.push(line);
    notify(text('Installing: {line}', { line }), 'in-progress', false);
  });
  if (done?.failed === '') {
    notify(withNames(missing, names => text('Installed: {names}.', { names }), text('All packages were installed.')), 'success', SUCCESS_CLOSE_MS);
  } else {
    const reason = done ? done.failed : text('The kernel was interrupted or has ended.');
    lines.push(reason);
    notify(text('Some packages were not installed: {reason}', { reason }), 'error', false);
  }
}

/** Packages from URLs are code chosen by the author of the notebook: show the URLs before running it. */
async function confirmSources({ pip }: Packages): Promise<boolean> {
  const fromUrls = pip.filter(requirement => requirement.includes(' @ '));
  if (fromUrls.length === 0) {
    return true;
  }
  const { button } = await showDialog({
    title: text('Install packages from these addresses?'),
    body: preformatted(fromUrls),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: text('Install') })]
  });
  return button.accept;
}

function preformatted(items: string[]): Widget {
  const node = document.createElement('pre');
  node.textContent = items.join('\n');
  return new Widget({ node });
}

function count({ pip, apt }: Packages): number {
  return pip.length + apt.length;
}

/** Return the sentence with as many names as fit into a notification; `short` if none fits. */
function withNames({ pip, apt }: Packages, describe: (names: string) => string, short: string): string {
  const names = [...pip.map(requirement => requirement.replace(/ @ .*/, '').replace('==', ' ')), ...apt];
  for (let shown = names.length; shown > 0; shown--) {
    const rest = names.length - shown;
    const listed = facts(names.slice(0, shown));
    const message = describe(rest > 0 ? text('{names} and {rest} more', { names: listed, rest }) : listed);
    if (message.length <= MAX_MESSAGE_LENGTH) {
      return message;
    }
  }
  return short;
}

const MODULE = 'ownlab_guest.shell.packages';

interface IInstallResult {
  installed: string[];
  /** Why some were not installed; '': all were. */
  failed: string;
}

/** Return the packages that are missing; null: the kernel has ended or is not a runtime of ownlab. */
function findMissing(kernel: Kernel.IKernelConnection, wanted: Packages): Promise<Packages | null> {
  return callKernel<Packages>(kernel, 'lacking', wanted);
}

/** Install packages; `onLine` is called with each line that the installers print. */
function installPackages(kernel: Kernel.IKernelConnection, wanted: Packages, onLine: (line: string) => void): Promise<IInstallResult | null> {
  return callKernel<IInstallResult>(kernel, 'restore', wanted, onLine);
}

/** Call a function in the kernel, without a trace in cells and history. */
async function callKernel<T>(kernel: Kernel.IKernelConnection, name: string, { pip, apt }: Packages, onLine?: (line: string) => void): Promise<T | null> {
  // JSON strings are valid Python strings.
  const call = `__import__('${MODULE}', fromlist=['${name}']).${name}(${JSON.stringify(pip)}, ${JSON.stringify(apt)})`;
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
        (message.content as KernelMessage.IStreamMsg['content']).text.split(/[\r\n]+/).forEach(line => line.trim() && onLine?.(line.trim()));
      }
    };
    const { content } = await future.done;
    const found = content.status === 'ok' ? content.user_expressions['found'] : undefined;
    const answer = found as { status?: string; data?: Record<string, unknown> } | undefined;
    return answer?.status === 'ok' ? ((answer.data?.['application/json'] ?? null) as T | null) : null;
  } catch {
    return null; // the kernel was restarted or has ended
  }
}
