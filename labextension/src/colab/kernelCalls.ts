/** From scripts in outputs to the kernel: functions that were registered there, and comms. */
import type { CodeCell } from '@jupyterlab/cells';
import { CommsOverSubshells, type Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, UUID } from '@lumino/coreutils';

const TARGET = 'ownlab_invoke';

/** A comm, as Colab gives it to scripts. */
export interface IChannel {
  send(data: JSONObject, options?: { buffers?: ArrayBuffer[] }): Promise<void>;
  close(): void;
  readonly messages: AsyncIterable<{ data: unknown; buffers: (ArrayBuffer | ArrayBufferView)[] }>;
}

interface IResult {
  data?: JSONObject;
  metadata?: JSONObject;
  error?: { name: string; message: string };
}

/** Call a function; what it returns, by media types. What it prints goes to the cell of the script that called it. */
export function invoke(
  kernel: Kernel.IKernelConnection,
  call: JSONObject,
  cell: CodeCell | undefined,
  callers: Map<string, CodeCell>
): Promise<IResult> {
  const comm = plainComm(kernel, TARGET);
  return new Promise((done, fail) => {
    comm.onClose = ({ content }) => {
      const { error, ...result } = content.data as IResult;
      if (error) {
        fail(Object.assign(new Error(error.message || 'the call was not answered'), { name: error.name }));
      } else {
        done(result);
      }
    };
    const future = comm.open(call);
    const { msg_id } = future.msg.header;
    if (cell) {
      callers.set(msg_id, cell);
      future.onIOPub = message => show(message, cell);
    }
    future.done.then(
      () => {
        callers.delete(msg_id);
        // Where nothing is registered a kernel closes the comm without a word.
        window.setTimeout(() => fail(new Error(`the kernel has no function ${String(call['name'])}`)), 1_000);
      },
      () => fail(new Error('the kernel was restarted'))
    );
  });
}

/** Open a comm to what the kernel has registered under a name. */
export function openChannel(kernel: Kernel.IKernelConnection, target: string, data?: JSONObject, buffers?: ArrayBuffer[]): IChannel {
  const comm = plainComm(kernel, target);
  const channel = channelOf(comm);
  comm.open(data ?? {}, {}, buffers ?? []);
  return channel;
}

/** Let the kernel open comms to a script. */
export function registerTarget(kernel: Kernel.IKernelConnection, target: string, callback: (comm: IChannel, message: object) => void): void {
  kernel.registerCommTarget(target, (comm, { content, buffers }) => callback(channelOf(comm), { data: content.data, buffers: buffers ?? [] }));
}

/** As on Colab a call waits for the cell that runs: not beside it, in a thread of its own. */
function plainComm(kernel: Kernel.IKernelConnection, target: string): Kernel.IComm {
  const comm = kernel.createComm(target, UUID.uuid4());
  comm.commsOverSubshells = CommsOverSubshells.Disabled;
  return comm;
}

function channelOf(comm: Kernel.IComm): IChannel {
  const waiting: { data: unknown; buffers: (ArrayBuffer | ArrayBufferView)[] }[] = [];
  let closed = false;
  let wake = (): void => undefined;
  comm.onMsg = ({ content, buffers }) => {
    waiting.push({ data: content.data, buffers: buffers ?? [] });
    wake();
  };
  comm.onClose = () => {
    closed = true;
    wake();
  };
  return {
    send: async (data, options) => {
      await comm.send(data, {}, options?.buffers ?? []).done;
    },
    close: () => void comm.close(),
    messages: (async function* () {
      while (!closed || waiting.length > 0) {
        const next = waiting.shift();
        if (next) {
          yield next;
        } else {
          await new Promise<void>(done => (wake = done));
        }
      }
    })()
  };
}

function show(message: KernelMessage.IIOPubMessage, { outputArea }: CodeCell): void {
  if (outputArea.isDisposed) {
    return;
  }
  const { model } = outputArea;
  if (KernelMessage.isStreamMsg(message) || KernelMessage.isDisplayDataMsg(message) || KernelMessage.isErrorMsg(message)) {
    model.add({ ...message.content, output_type: message.header.msg_type } as unknown as Parameters<typeof model.add>[0]);
  } else if (KernelMessage.isClearOutputMsg(message)) {
    model.clear(message.content.wait);
  }
}
