/** `window.google.colab`, for the scripts of outputs. What makes no sense here does nothing, and does no harm. */
import type { CodeCell } from '@jupyterlab/cells';
import { URLExt } from '@jupyterlab/coreutils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, ServerConnection } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { addCell, type Deeds } from './actions';
import { type IChannel, invoke, openChannel, registerTarget } from './kernelCalls';
import type { ColabDesk } from './requestBroker';
import { speaker } from './scripts';

/** Functions that Colab's own page has behind buttons of saved tables; kernels elsewhere have none of them. */
const COLABS_OWN = ['convertToInteractive', 'suggestCharts', 'generateWithVariable', 'getSuggestions'];

/** Who speaks: the notebook and the cell of the script that runs, or of the element that was clicked. */
interface ICaller {
  panel: NotebookPanel;
  desk: ColabDesk;
  cell: CodeCell | undefined;
}

/** Put the object where scripts look for it. */
export function install(
  notebooks: INotebookTracker,
  desks: ReadonlyMap<NotebookPanel, ColabDesk>,
  deeds: Deeds,
  settings: ServerConnection.ISettings
): void {
  const caller = (): ICaller | undefined => findCaller(notebooks, desks);
  const page = window as unknown as { google?: Record<string, unknown> };
  page.google = {
    ...page.google,
    colab: {
      kernel: kernelPart(caller, settings),
      output: outputPart(caller),
      files: {
        view: async (path: string) => {
          await deeds.view(speaking(caller).kernel.id, path);
        }
      },
      _files: { _uploadFiles: async () => ({ response: { complete: true } }), _uploadFilesContinue: async () => ({ response: { complete: true } }) },
      notebook: {
        addCell: (source: unknown) => {
          const panel = caller()?.panel;
          return panel ? addCell(panel.content, String(source ?? '')) : null;
        },
        generateWithVariable: nothing
      },
      widgets: { installCustomManager: nothing }
    }
  };
}

/** Who speaks, and its kernel. */
function speaking(caller: () => ICaller | undefined): ICaller & { kernel: Kernel.IKernelConnection } {
  const found = caller();
  const kernel = found?.panel.sessionContext.session?.kernel;
  if (!found || !kernel) {
    throw new Error('this output’s notebook has no kernel');
  }
  return { ...found, kernel };
}

function kernelPart(caller: () => ICaller | undefined, settings: ServerConnection.ISettings): object {
  return {
    /** A saved table of Colab's shows its buttons where this is true; they would do nothing. */
    get accessAllowed(): boolean {
      const script = document.currentScript?.textContent ?? '';
      return Boolean(caller()?.panel.sessionContext.session?.kernel) && !COLABS_OWN.some(name => script.includes(name));
    },
    invokeFunction: async (name: string, args: unknown[] = [], kwargs: object = {}) => {
      if (COLABS_OWN.includes(name)) {
        return null;
      }
      const { desk, cell, kernel } = speaking(caller);
      return invoke(kernel, { name, args, kwargs } as unknown as JSONObject, cell, desk.callers);
    },
    proxyPort: async (port: number) => `${URLExt.join(settings.baseUrl, 'proxy', String(Number(port)))}/`,
    comms: {
      open: async (target: string, data?: JSONObject, buffers?: ArrayBuffer[]): Promise<IChannel> => openChannel(speaking(caller).kernel, target, data, buffers),
      registerTarget: (target: string, callback: (comm: IChannel, message: object) => void) => registerTarget(speaking(caller).kernel, target, callback)
    },
    disconnect: nothing
  };
}

function outputPart(caller: () => ICaller | undefined): object {
  const area = (): HTMLElement => {
    const found = caller();
    return found?.cell ? found.desk.placeIn(found.cell) : document.createElement('div');
  };
  return {
    getActiveOutputArea: area,
    getDefaultOutputArea: area,
    /** The kernel says of each output where it stands: see areas.ts. */
    setActiveOutputArea: nothing,
    /** Outputs are as high as they are, whatever height is asked for. */
    setIframeHeight: () => {
      const cell = caller()?.cell;
      if (cell) {
        cell.outputsScrolled = false;
      }
      return null;
    },
    resizeIframeToContent: nothing,
    pauseOutputUntil: nothing,
    renderOutput: async (output: { data?: JSONObject; metadata?: JSONObject } | null, into?: HTMLElement) => {
      const rendermime = caller()?.panel.content.rendermime;
      const model = rendermime?.createModel({ data: output?.data ?? {}, metadata: output?.metadata ?? {}, trusted: true });
      const type = model && rendermime?.preferredMimeType(model.data, 'any');
      if (rendermime && model && type) {
        const shown = rendermime.createRenderer(type);
        (into ?? area()).append(shown.node);
        await shown.renderModel(model);
      }
    }
  };
}

function findCaller(notebooks: INotebookTracker, desks: ReadonlyMap<NotebookPanel, ColabDesk>): ICaller | undefined {
  const by = speaker();
  const own = by && deskOf(by.panel, desks);
  if (by && own) {
    return { panel: by.panel, desk: own, cell: by.cell };
  }
  const target = window.event?.target;
  for (const node of [document.currentScript, target instanceof Node ? target : null]) {
    const panel = node ? notebooks.find(one => one.content.node.contains(node)) : undefined;
    const desk = panel && deskOf(panel, desks);
    if (panel && desk) {
      const cell = panel.content.widgets.find(one => one.node.contains(node));
      return { panel, desk, cell: cell?.model.type === 'code' ? (cell as CodeCell) : undefined };
    }
  }
  const panel = notebooks.currentWidget;
  const desk = panel && deskOf(panel, desks);
  return panel && desk ? { panel, desk, cell: desk.cellOf('') } : undefined;
}

/** That of the view which answers for all views of a notebook. */
function deskOf({ context }: NotebookPanel, desks: ReadonlyMap<NotebookPanel, ColabDesk>): ColabDesk | undefined {
  return [...desks.values()].find(desk => desk.panel.context === context);
}

function nothing(): null {
  return null;
}
