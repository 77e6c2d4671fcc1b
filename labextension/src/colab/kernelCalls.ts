/** Lets scripts in outputs call functions that are registered in the kernel, and open comms. */
import type { CodeCell } from '@jupyterlab/cells';
import { CommsOverSubshells, type Kernel, KernelMessage } from '@jupyterlab/services';
import { type JSONObject, UUID } from '@lumino/coreutils';
import { text } from '../text';

const TARGET = 'ownlab_invoke';

/** A comm, with the interface that Colab gives to scripts. */
export interface IChannel {
  send(data: JSONObject, options?: { buffers?: ArrayBuffer[] }): Promise<void>;
  close(): void;
  readonly messages: AsyncIterable<IChannelMessage>;
}

/** A message, with the buffers as scripts for Colab expect them: JupyterLab's are views, of which `new Uint8Array(view)` is empty. */
interface IChannelMessage {
  data: unknown;
  buffers: ArrayBuffer[];
}

interface IResult {
  data?: JSONObject;
  metadata?: JSONObject;
  error?: { name: string; message: string };
}

/** Call a function, and return its result by MIME type. Its output is shown in the cell of the calling script. */
export function invoke(
  kernel: Kernel.IKernelConnection,
  call: JSONObject,
  cell: CodeCell | undefined,
  callers: Map<string, CodeCell>
): Promise<IResult> {
  const comm = plainComm(kernel, TARGET);
  return new Promise((resolve, reject) => {
    comm.onClose = ({ content }) => {
      const { error, ...result } = content.data as IResult;
      if (error) {
        reject(Object.assign(new Error(error.message || text('The kernel did not answer the call.')), { name: error.name }));
      } else {
        resolve(result);
      }
    };
    const future = comm.open(call);
    const { msg_id } = future.msg.header;
    if (cell) {
      callers.set(msg_id, cell);
      future.onIOPub = message => showOutput(message, cell);
    }
    future.done.then(
      () => {
        callers.delete(msg_id);
        // If the target is not registered, the kernel closes the comm without an error.
        window.setTimeout(() => reject(new Error(text('The kernel has no function {name}.', { name: String(call['name']) }))), 1_000);
      },
      () => reject(new Error(text('The kernel was restarted.')))
    );
  });
}

/** Open a comm to a target that the kernel has registered. */
export function openChannel(kernel: Kernel.IKernelConnection, target: string, data?: JSONObject, buffers?: ArrayBuffer[]): IChannel {
  const comm = plainComm(kernel, target);
  const channel = channelOf(comm);
  comm.open(data ?? {}, {}, buffers ?? []);
  return channel;
}

/** Let the kernel open comms to a script. */
export function registerTarget(kernel: Kernel.IKernelConnection, target: string, callback: (comm: IChannel, message: object) => void): void {
  kernel.registerCommTarget(target, (comm, { content, buffers }) => callback(channelOf(comm), { data: content.data, buffers: (buffers ?? []).map(asArrayBuffer) }));
}

/** Like on Colab, a call waits for the running cell instead of running in a subshell. */
function plainComm(kernel: Kernel.IKernelConnection, target: string): Kernel.IComm {
  const comm = kernel.createComm(target, UUID.uuid4());
  comm.commsOverSubshells = CommsOverSubshells.Disabled;
  return comm;
}

function channelOf(comm: Kernel.IComm): IChannel {
  const queue: IChannelMessage[] = [];
  let closed = false;
  let wake = (): void => undefined;
  comm.onMsg = ({ content, buffers }) => {
    queue.push({ data: content.data, buffers: (buffers ?? []).map(asArrayBuffer) });
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
      while (!closed || queue.length > 0) {
        const next = queue.shift();
        if (next) {
          yield next;
        } else {
          await new Promise<void>(resolve => (wake = resolve));
        }
      }
    })()
  };
}

/** Return the bytes of a buffer on their own: a view may be a part of a larger message. */
export function asArrayBuffer(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  if (buffer instanceof ArrayBuffer) {
    return buffer;
  }
  const { byteOffset, byteLength } = buffer;
  return new Uint8Array(new Uint8Array(buffer.buffer, byteOffset, byteLength)).buffer;
}

function showOutput(message: KernelMessage.IIOPubMessage, { outputArea }: CodeCell): void {
  if (outputArea.isDisposed) {
    return;
  }
  const { model } = outputArea;
  if (KernelMessage.isStreamMsg(message) || KernelMessage.isDisplayDataMsg(message) || KernelMessage.isErrorMsg(message)) {
    model.add({ ...message.content, output_type: message.header.msg_type });
  } else if (KernelMessage.isClearOutputMsg(message)) {
    model.clear(message.content.wait);
  }
}
