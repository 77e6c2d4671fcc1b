/** What the page does where google.colab asks for it: one function for each type of request. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { ServerConnection } from '@jupyterlab/services';
import { downloadAddress, fetchPlace, stopRuntime } from '../api';
import type { Reachability } from '../session/reachability';
import { type Box, GrantBox, UploadBox } from './prompts';
import type { Request } from './request';
import type { ColabDesk } from './requestBroker';
import { evaluate } from './scripts';

/** An answer goes before the kernel is ended. */
const ANSWER_FIRST = 200;

type Deed = (request: Request, desk: ColabDesk) => unknown;

export class Deeds {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _reachability: Reachability
  ) {
    this._settings = _app.serviceManager.serverSettings;
  }

  /** For what a person has to answer; null: the page answers by itself. */
  boxFor(request: Request): Box | null {
    switch (request.type) {
      case 'ownlab_upload':
        return new UploadBox(request, this._settings, this._reachability);
      case 'ownlab_grant':
        return new GrantBox(request, this._settings);
      default:
        return null;
    }
  }

  /** Do it; the data of the answer. */
  async do(request: Request, desk: ColabDesk): Promise<unknown> {
    const deed = this._deeds[request.type];
    if (!deed) {
      throw new Error(`this page does not know the request ${request.type}`);
    }
    return deed(request, desk);
  }

  /** Open a file of a runtime, where it is in the lab's folder; else download it. */
  async view(runtime: string, path: string): Promise<object> {
    const { contents } = await fetchPlace(this._settings, runtime, path);
    if (contents === null) {
      return this._download(runtime, path);
    }
    await this._app.commands.execute('docmanager:open', { path: contents });
    return {};
  }

  private readonly _deeds: Record<string, Deed> = {
    ownlab_download: async request => this._download(request.kernel.id, request.text('path')),
    ownlab_view: async request => this.view(request.kernel.id, request.text('path')),
    ownlab_unassign: ({ kernel }) => {
      window.setTimeout(() => void this._stop(kernel.id), ANSWER_FIRST);
      return {};
    },
    cell_javascript_eval: (request, desk) => {
      const cell = desk.cellOf(request.execution);
      return evaluate(request.text('script'), { panel: desk.panel, cell }, () => (cell ? desk.placeIn(cell) : document.createElement('div'))).then(asJSON);
    },
    add_scratch_cell: (request, { panel }) => addCell(panel.content, request.text('content')),
    register_snippets: () => ({}),
    // The kernel asks with Jupyter's own question where a command waits for somebody to type.
    cell_display_stdin: () => ({}),
    cell_update_stdin: () => ({}),
    cell_remove_stdin: () => ({}),
    GetSecret: () => refuse('secrets pass no page: google.colab.userdata.get asks ownlab itself'),
    request_auth: () => refuse('ownlab signs in nowhere by itself: use google.colab.auth')
  };

  private async _download(runtime: string, path: string): Promise<object> {
    const { name } = await fetchPlace(this._settings, runtime, path);
    const link = document.createElement('a');
    link.href = downloadAddress(this._settings, runtime, path);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    return {};
  }

  private async _stop(id: string): Promise<void> {
    const { sessions, kernels } = this._app.serviceManager;
    try {
      await stopRuntime(this._settings, id);
      await Promise.allSettled([sessions.refreshRunning(), kernels.refreshRunning()]);
    } catch (reason) {
      Notification.error(reason instanceof Error ? reason.message : String(reason), { autoClose: false });
    }
  }

  private readonly _settings: ServerConnection.ISettings;
}

/** Add a code cell below the active one. */
export function addCell({ model, activeCellIndex }: ColabDesk['panel']['content'], source: string): object {
  model?.sharedModel.insertCell(activeCellIndex + 1, { cell_type: 'code', source, metadata: {} });
  return {};
}

function refuse(words: string): never {
  throw new Error(words);
}

/** As Colab does: what has no JSON is nothing. */
function asJSON(value: unknown): unknown {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? null : (JSON.parse(text) as unknown);
}
