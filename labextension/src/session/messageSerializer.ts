/** Kernel messages with their numbers in the line. Given to JupyterLab as settings.serializer. */
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';

type Serializer = ServerConnection.ISettings['serializer'];

/** A message as it came: its number in the line (0: none), and who is to know of it before JupyterLab does. */
export class Numbered {
  constructor(
    readonly number: number,
    readonly bytes: ArrayBuffer,
    readonly met: (message: KernelMessage.IMessage, number: number) => void
  ) {}
}

/** A message that did not come over the wire: retold from the journal, or made here. */
export class Told {
  constructor(
    readonly message: KernelMessage.IMessage,
    readonly number = 0
  ) {}
}

export class Wire implements Serializer {
  serialize(message: KernelMessage.IMessage, protocol?: string): string | ArrayBuffer {
    const data = this._plain.serialize(message, protocol);
    if (typeof data !== 'string') {
      this._sent.set(data, message);
    }
    return data;
  }

  deserialize(data: ArrayBuffer | Numbered | Told, protocol?: string): KernelMessage.IMessage {
    if (data instanceof Told) {
      this._numbers.set(data.message, data.number);
      return data.message;
    }
    if (data instanceof Numbered) {
      const message = this._plain.deserialize(data.bytes, protocol);
      this._numbers.set(message, data.number);
      data.met(message, data.number);
      return message;
    }
    return this._plain.deserialize(data, protocol);
  }

  /** 0: it has none. */
  numberOf(message: KernelMessage.IMessage): number {
    return this._numbers.get(message) ?? 0;
  }

  /** The message that became these bytes. */
  messageOf(data: object): KernelMessage.IMessage | undefined {
    return this._sent.get(data);
  }

  private readonly _plain: Serializer = ServerConnection.makeSettings().serializer;
  private readonly _numbers = new WeakMap<KernelMessage.IMessage, number>();
  private readonly _sent = new WeakMap<object, KernelMessage.IMessage>();
}

/** A message for JupyterLab's own chain, so that it is met after everything before it was handled: see iopubMessage. */
export function mark(type: string, session: string, parent: string, content: object): KernelMessage.IMessage {
  const header = { msg_id: `ownlab-${type}-${parent}`, msg_type: type, session, username: '', version: '5.3', date: new Date().toISOString() };
  const made = { channel: 'iopub', header, parent_header: { ...header, msg_id: parent }, metadata: {}, content, buffers: [] };
  return made as unknown as KernelMessage.IMessage;
}
