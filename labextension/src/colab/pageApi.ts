/** Provides `window.google.colab` to scripts in outputs. Functions without a meaning here do nothing. */
import type { CodeCell } from '@jupyterlab/cells';
import { URLExt } from '@jupyterlab/coreutils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, ServerConnection } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { text } from '../text';
import { addCell, type ColabActions } from './actions';
import { type IChannel, invoke, openChannel, registerTarget } from './kernelCalls';
import type { RequestBroker } from './requestBroker';
import { currentOrigin } from './scripts';

/** Functions of Colab's own page that saved tables call; no kernel provides them. */
const COLAB_PAGE_FUNCTIONS = ['convertToInteractive', 'suggestCharts', 'generateWithVariable', 'getSuggestions'];

/** The notebook and cell of the running script, or of the clicked element. */
interface ICaller {
  panel: NotebookPanel;
  broker: RequestBroker;
  cell: CodeCell | undefined;
}

/** Define `window.google.colab`. */
export function installPageApi(
  notebooks: INotebookTracker,
  brokers: ReadonlyMap<NotebookPanel, RequestBroker>,
  actions: ColabActions,
  settings: ServerConnection.ISettings
): void {
  const caller = (): ICaller | undefined => findCaller(notebooks, brokers);
  const page = window as unknown as { google?: Record<string, unknown> };
  page.google = {
    ...page.google,
    colab: {
      kernel: kernelApi(caller, settings),
      output: outputApi(caller),
      files: {
        view: async (path: string) => {
          await actions.view(requireKernel(caller).kernel.id, path);
        }
      },
      _files: { _uploadFiles: async () => ({ response: { complete: true } }), _uploadFilesContinue: async () => ({ response: { complete: true } }) },
      notebook: {
        addCell: (source: unknown) => {
          const panel = caller()?.panel;
          return panel ? addCell(panel.content, String(source ?? '')) : null;
        },
        generateWithVariable: noop
      },
      widgets: { installCustomManager: noop }
    }
  };
}

/** Return the caller and its kernel. */
function requireKernel(caller: () => ICaller | undefined): ICaller & { kernel: Kernel.IKernelConnection } {
  const found = caller();
  const kernel = found?.panel.sessionContext.session?.kernel;
  if (!found || !kernel) {
    throw new Error(text('The notebook of this output has no kernel.'));
  }
  return { ...found, kernel };
}

function kernelApi(caller: () => ICaller | undefined, settings: ServerConnection.ISettings): object {
  return {
    /** Tables that Colab saved show their buttons if this is true; the buttons would do nothing here. */
    get accessAllowed(): boolean {
      const script = document.currentScript?.textContent ?? '';
      return Boolean(caller()?.panel.sessionContext.session?.kernel) && !COLAB_PAGE_FUNCTIONS.some(name => script.includes(name));
    },
    invokeFunction: async (name: string, args: unknown[] = [], kwargs: object = {}) => {
      if (COLAB_PAGE_FUNCTIONS.includes(name)) {
        return null;
      }
      const { broker, cell, kernel } = requireKernel(caller);
      return invoke(kernel, { name, args, kwargs } as unknown as JSONObject, cell, broker.callers);
    },
    proxyPort: async (port: number) => `${URLExt.join(settings.baseUrl, 'proxy', String(Number(port)))}/`,
    comms: {
      open: async (target: string, data?: JSONObject, buffers?: ArrayBuffer[]): Promise<IChannel> => openChannel(requireKernel(caller).kernel, target, data, buffers),
      registerTarget: (target: string, callback: (comm: IChannel, message: object) => void) => registerTarget(requireKernel(caller).kernel, target, callback)
    },
    disconnect: noop
  };
}

function outputApi(caller: () => ICaller | undefined): object {
  const area = (): HTMLElement => {
    const found = caller();
    return found?.cell ? found.broker.scriptOutput(found.cell) : document.createElement('div');
  };
  return {
    getActiveOutputArea: area,
    getDefaultOutputArea: area,
    /** The kernel names the area of each output: see outputAreas.ts. */
    setActiveOutputArea: noop,
    /** Outputs have their natural height, whatever height is requested. */
    setIframeHeight: () => {
      const cell = caller()?.cell;
      if (cell) {
        cell.outputsScrolled = false;
      }
      return null;
    },
    resizeIframeToContent: noop,
    pauseOutputUntil: noop,
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

function findCaller(notebooks: INotebookTracker, brokers: ReadonlyMap<NotebookPanel, RequestBroker>): ICaller | undefined {
  const origin = currentOrigin();
  const own = origin && brokerOf(origin.panel, brokers);
  if (origin && own) {
    return { panel: origin.panel, broker: own, cell: origin.cell };
  }
  const target = window.event?.target;
  for (const node of [document.currentScript, target instanceof Node ? target : null]) {
    const panel = node ? notebooks.find(candidate => candidate.content.node.contains(node)) : undefined;
    const broker = panel && brokerOf(panel, brokers);
    if (panel && broker) {
      const cell = panel.content.widgets.find(widget => widget.node.contains(node));
      return { panel, broker, cell: cell?.model.type === 'code' ? (cell as CodeCell) : undefined };
    }
  }
  const panel = notebooks.currentWidget;
  const broker = panel && brokerOf(panel, brokers);
  return panel && broker ? { panel, broker, cell: broker.cellOf('') } : undefined;
}

/** Return the broker of the view that answers for all views of a notebook. */
function brokerOf({ context }: NotebookPanel, brokers: ReadonlyMap<NotebookPanel, RequestBroker>): RequestBroker | undefined {
  return [...brokers.values()].find(broker => broker.panel.context === context);
}

function noop(): null {
  return null;
}
