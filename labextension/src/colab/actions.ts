/** What the page does for google.colab: one function for each type of request. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ServerConnection } from '@jupyterlab/services';
import { downloadUrl, fetchFileInfo, stopRuntime } from '../api';
import { reportFailure } from '../failures';
import type { Reachability } from '../session/reachability';
import { text } from '../text';
import { type Prompt, SecretPrompt, UploadPrompt } from './prompts';
import type { Request } from './request';
import type { RequestBroker } from './requestBroker';
import { evaluate } from './scripts';

/** The answer is sent before the kernel is shut down. */
const ANSWER_DELAY_MS = 200;

type Action = (request: Request, broker: RequestBroker) => unknown;

export class ColabActions {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _reachability: Reachability
  ) {
    this._settings = _app.serviceManager.serverSettings;
  }

  /** Return a prompt for what only a person can answer; null: the page answers itself. */
  promptFor(request: Request): Prompt | null {
    switch (request.type) {
      case 'ownlab_upload':
        return new UploadPrompt(request, this._settings, this._reachability);
      case 'ownlab_grant':
        return new SecretPrompt(request, this._settings);
      default:
        return null;
    }
  }

  /** Perform a request, and return the data of the answer. */
  async perform(request: Request, broker: RequestBroker): Promise<unknown> {
    const action = this._actions[request.type];
    if (!action) {
      throw new Error(text('This page does not support the request {type}.', { type: request.type }));
    }
    return action(request, broker);
  }

  /** Open a file of a runtime if it is in the lab's folder; otherwise download it. */
  async view(runtime: string, path: string): Promise<object> {
    const { contents } = await fetchFileInfo(this._settings, runtime, path);
    if (contents === null) {
      return this._download(runtime, path);
    }
    await this._app.commands.execute('docmanager:open', { path: contents });
    return {};
  }

  private readonly _actions: Record<string, Action> = {
    ownlab_download: async request => this._download(request.kernel.id, request.stringField('path')),
    ownlab_view: async request => this.view(request.kernel.id, request.stringField('path')),
    ownlab_unassign: ({ kernel }) => {
      window.setTimeout(() => void this._stop(kernel.id), ANSWER_DELAY_MS);
      return {};
    },
    cell_javascript_eval: (request, broker) => {
      const cell = broker.cellOf(request.execution);
      const output = (): HTMLElement => (cell ? broker.scriptOutput(cell) : document.createElement('div'));
      return evaluate(request.stringField('script'), { panel: broker.panel, cell }, output).then(asJSON);
    },
    add_scratch_cell: (request, { panel }) => addCell(panel.content, request.stringField('content')),
    register_snippets: () => ({}),
    // The kernel uses Jupyter's own input request if a command waits for input.
    cell_display_stdin: () => ({}),
    cell_update_stdin: () => ({}),
    cell_remove_stdin: () => ({}),
    GetSecret: () => refuse(text('Secrets are not sent through the page. google.colab.userdata.get reads them from ownlab.')),
    request_auth: () => refuse(text('The page cannot sign in to Google. Use google.colab.auth.'))
  };

  private async _download(runtime: string, path: string): Promise<object> {
    const { name } = await fetchFileInfo(this._settings, runtime, path);
    const link = document.createElement('a');
    link.href = downloadUrl(this._settings, runtime, path);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    return {};
  }

  private async _stop(id: string): Promise<void> {
    const { sessions, kernels } = this._app.serviceManager;
    if (await reportFailure(stopRuntime(this._settings, id))) {
      await Promise.allSettled([sessions.refreshRunning(), kernels.refreshRunning()]);
    }
  }

  private readonly _settings: ServerConnection.ISettings;
}

/** Add a code cell below the active one. */
export function addCell({ model, activeCellIndex }: RequestBroker['panel']['content'], source: string): object {
  model?.sharedModel.insertCell(activeCellIndex + 1, { cell_type: 'code', source, metadata: {} });
  return {};
}

function refuse(message: string): never {
  throw new Error(message);
}

/** Like Colab, return null for values that JSON cannot express. */
function asJSON(value: unknown): unknown {
  const json = JSON.stringify(value) as string | undefined;
  return json === undefined ? null : (JSON.parse(json) as unknown);
}
