/** The notice that packages were changed after they had been imported, with one click that restarts the runtime. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import { reportFailure } from '../failures';
import { codeCells } from '../notebook/attachedCell';
import { createNotice } from '../notebook/notice';
import { facts, text } from '../text';

/** As on Colab; the id is that of the kernel's process. */
const MIME_TYPE = 'application/vnd.colab-display-data+json';

interface IPipWarning {
  packages: string[];
  kernel: string;
}

/** Follows one notebook. What was reported counts until its kernel process is replaced, also after a reload of the page. */
export class RestartNotice {
  constructor(private readonly _panel: NotebookPanel) {}

  /** Called with every message of the notebook's kernel. */
  onMessage(message: KernelMessage.IIOPubMessage): void {
    if (message.header.session !== this._kernel && !isFromServer(message)) {
      void this._onNewKernel(message.header.session);
    }
    const warning = message.header.msg_type === 'display_data' ? parseWarning((message as KernelMessage.IDisplayDataMsg).content.data) : null;
    if (warning?.kernel === this._kernel) {
      warning.packages.forEach(name => this._names.add(name));
      this._update();
    }
  }

  private async _onNewKernel(kernel: string): Promise<void> {
    this._kernel = kernel;
    this._names.clear();
    this._update();
    await this._panel.context.ready;
    if (this._kernel === kernel && !this._panel.isDisposed) {
      this._saved().forEach(name => this._names.add(name));
      this._update();
    }
  }

  /** What the outputs of the notebook say about the running kernel. */
  private _saved(): string[] {
    const warnings = codeCells(this._panel).flatMap(cell => {
      const { outputs } = cell.model;
      return Array.from({ length: outputs.length }, (_, index) => parseWarning(outputs.get(index).data));
    });
    return warnings.flatMap(warning => (warning?.kernel === this._kernel ? warning.packages : []));
  }

  private _update(): void {
    this._widget?.dispose();
    this._widget = null;
    if (this._names.size === 0 || this._panel.isDisposed) {
      return;
    }
    const names = facts([...this._names].sort());
    this._widget = createNotice(
      text('This runtime still uses the old version of: {names}. Restart it to use the installed version. Variables are lost.', { names }),
      [{ label: text('Restart runtime'), accept: true, run: () => this._restart() }],
      () => this._dismiss()
    );
    this._widget.addClass('ownlab-mod-warning');
    this._panel.contentHeader.addWidget(this._widget);
  }

  private async _restart(): Promise<void> {
    this._dismiss();
    await reportFailure(this._panel.sessionContext.restartKernel(), error => text('The runtime was not restarted: {error}', { error }));
  }

  private _dismiss(): void {
    this._names.clear();
    this._update();
  }

  private _kernel = '';
  private _names = new Set<string>();
  private _widget: Widget | null = null;
}

/** Whether the server sent a message in place of a kernel that it restarts. */
function isFromServer({ header, content }: KernelMessage.IIOPubMessage): boolean {
  const state = header.msg_type === 'status' ? (content as KernelMessage.IStatusMsg['content']).execution_state : '';
  return ['restarting', 'autorestarting', 'dead'].includes(state);
}

function parseWarning(data: object): IPipWarning | null {
  const { pip_warning: warning, id } = (data as Record<string, { pip_warning?: { packages?: unknown }; id?: unknown } | undefined>)[MIME_TYPE] ?? {};
  const packages = warning?.packages;
  if (!Array.isArray(packages) || typeof id !== 'string') {
    return null;
  }
  return { packages: packages.filter((name): name is string => typeof name === 'string'), kernel: id };
}
