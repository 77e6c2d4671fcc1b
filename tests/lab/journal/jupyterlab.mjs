// Plays scenarios through JupyterLab's own KernelConnection, OutputArea and OutputAreaModel, and prints what the cells
// show at the end. Scenarios come as JSON on stdin; the first argument is the folder node_modules.
import { readFileSync } from 'node:fs';
import { register } from 'node:module';
import { pathToFileURL } from 'node:url';

class Socket {
  constructor() {
    this.protocol = '';
    setTimeout(() => this.onopen({}), 0);
  }
  send() {}
  close() {}
}

const modules = process.argv[2] + '/';
register('./hooks.mjs', import.meta.url, { data: { modules } });
globalThis.window = globalThis;
globalThis.WebSocket = Socket;
// A browser only logs it when a future is cancelled that nobody waits for.
process.on('unhandledRejection', () => undefined);
process.on('uncaughtException', () => undefined);
console.debug = console.warn = console.error = () => undefined;

const load = path => import(pathToFileURL(modules + path).href);
const { OutputAreaModel } = await load('@jupyterlab/outputarea/lib/model.js');
const { OutputArea } = await load('@jupyterlab/outputarea/lib/widget.js');
const { Widget } = await import('./browser.mjs');
const services = (await load('@jupyterlab/services/lib/kernel/default.js')).default;
const { ServerConnection } = (await load('@jupyterlab/services/lib/serverconnection.js')).default;

const settings = ServerConnection.makeSettings({
  WebSocket: Socket,
  fetch: async () => new Response('{}'),
  baseUrl: 'http://127.0.0.1/',
  wsUrl: 'ws://127.0.0.1/'
});

/** OutputModel of @jupyter-widgets/jupyterlab-manager, which is there only minified. */
class OutputWidget {
  constructor(kernel, state) {
    this.kernel = kernel;
    this.msgId = state.msg_id ?? '';
    this.outputs = new OutputAreaModel({ trusted: true });
    this.outputs.fromJSON(state.outputs ?? []);
    this.hook = msg => (this.add(msg), false);
  }
  update(state) {
    if (state.outputs !== undefined) {
      this.outputs.clear();
      this.outputs.fromJSON(state.outputs);
    }
    if (state.msg_id !== undefined && state.msg_id !== this.msgId) {
      if (this.msgId) {
        this.kernel.removeMessageHook(this.msgId, this.hook);
      }
      this.msgId = state.msg_id;
      if (this.msgId) {
        this.kernel.registerMessageHook(this.msgId, this.hook);
      }
    }
  }
  add(msg) {
    const type = msg.header.msg_type;
    if (['execute_result', 'display_data', 'stream', 'error'].includes(type)) {
      this.outputs.add({ ...msg.content, output_type: type });
    } else if (type === 'clear_output') {
      this.outputs.clear(msg.content.wait);
    }
  }
}

/** What CodeCell.execute does beside its OutputArea. */
class Cell {
  constructor() {
    this.questions = [];
    const factory = {
      createOutputPrompt: () => new Widget(),
      createStdin: options => {
        const box = new Widget();
        box.value = new Promise(resolve => {
          this.questions.push(text => resolve(`${options.prompt} ${options.password ? '········' : text}`));
        });
        return box;
      }
    };
    const rendermime = { preferredMimeType: () => undefined };
    this.model = new OutputAreaModel({ trusted: true });
    this.area = new OutputArea({ model: this.model, rendermime, contentFactory: factory });
  }
  execute(kernel, request) {
    this.model.clear();
    this.count = null;
    this.timing = {};
    const future = kernel.sendShellMessage({ ...request, channel: 'shell', parent_header: {}, buffers: [] }, true, false);
    this.area.future = future;
    if (request.metadata.recordTiming) {
      future.registerMessageHook(msg => {
        const type = msg.header.msg_type;
        const label = type === 'status' ? `status.${msg.content.execution_state}` : type;
        if (type === 'status' || type === 'execute_input') {
          this.timing[`iopub.${label}`] = msg.header.date;
        }
        return true;
      });
    }
    future.done.then(
      msg => {
        this.count = msg.content.execution_count ?? null;
        if (request.metadata.recordTiming) {
          if (msg.metadata.started) {
            this.timing['shell.execute_reply.started'] = msg.metadata.started;
          }
          this.timing['shell.execute_reply'] = msg.header.date;
        }
      },
      () => {
        if (request.metadata.recordTiming && this.area.future === future) {
          this.timing['execution_failed'] = 'now';
        }
      }
    );
  }
}

const turn = () => new Promise(resolve => setImmediate(resolve));

async function play(steps) {
  const cells = {};
  const widgets = {};
  const model = { id: 'kernel', name: 'python3' };
  const kernel = new services.KernelConnection({ model, serverSettings: settings, handleComms: true });
  kernel.registerCommTarget('jupyter.widget', (comm, msg) => {
    const widget = (widgets[comm.commId] = new OutputWidget(kernel, msg.content.data.state));
    comm.onMsg = update => update.content.data.method === 'update' && widget.update(update.content.data.state);
  });
  await turn();
  for (const [what, value] of steps) {
    if (what === 'execute') {
      (cells[value.metadata.cellId] ??= new Cell()).execute(kernel, value);
    } else if (what === 'comm') {
      kernel.sendShellMessage({ ...value, channel: 'shell', parent_header: {}, buffers: [] }, false, true);
    } else if (what === 'message') {
      kernel._ws.onmessage({ data: JSON.stringify({ ...value, buffers: [] }) });
      await kernel._msgChain;
    } else if (what === 'answer') {
      cells[value.cell].questions.pop()?.(value.value);
    } else if (what === 'restart') {
      kernel._clearKernelState();
    }
    await turn();
  }
  const shown = {};
  for (const [id, cell] of Object.entries(cells)) {
    shown[id] = { outputs: cell.model.toJSON(), count: cell.count, timing: cell.timing };
  }
  const outputs = Object.fromEntries(Object.entries(widgets).map(([id, widget]) => [id, widget.outputs.toJSON()]));
  return { cells: shown, widgets: outputs };
}

const scenarios = JSON.parse(readFileSync(0, 'utf-8'));
const results = [];
for (const steps of scenarios) {
  results.push(await play(steps));
}
// What no file in UTF-8 can hold, halves of surrogate pairs, is replaced on both sides.
const whole = (key, value) => (typeof value === 'string' ? value.toWellFormed() : value);
process.stdout.write(JSON.stringify(results, whole), () => process.exit(0));
