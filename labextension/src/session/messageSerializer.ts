/** Serializes kernel messages for JupyterLab (settings.serializer), and keeps the position of each message in the journal. */
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';

type Serializer = ServerConnection.ISettings['serializer'];

/** A message as it was received: its position in the journal (0: none), and a callback that runs before JupyterLab handles it. */
export class NumberedMessage {
  constructor(
    readonly position: number,
    readonly bytes: ArrayBuffer,
    readonly onMessage: (message: KernelMessage.IMessage, position: number) => void
  ) {}
}

/** A message that was not received on the socket: replayed from the journal, or created in this page. */
export class LocalMessage {
  constructor(
    readonly message: KernelMessage.IMessage,
    readonly position = 0
  ) {}
}

export class MessageSerializer implements Serializer {
  /** Return the name of the user, for the headers of requests; empty: not known yet. JupyterLab leaves it empty. */
  username: () => string = () => '';

  /** Return the position that its page had read when a cell was run; null: not known. */
  runPosition: (cell: string, client: string) => number | null = () => null;

  serialize(message: KernelMessage.IMessage, protocol?: string): string | ArrayBuffer {
    message.header.username ||= this.username();
    const cell = message.header.msg_type === 'execute_request' ? message.metadata['cellId'] : null;
    const position = typeof cell === 'string' ? this.runPosition(cell, message.header.session) : null;
    if (position !== null) {
      // If the kernel has died since, the next one must not run the cell (lab/supervisor/journal_recorder.py).
      message.metadata['ownlab_position'] = position;
    }
    const data = this._base.serialize(message, protocol);
    if (typeof data !== 'string') {
      this._sentMessages.set(data, message);
    }
    return data;
  }

  deserialize(data: ArrayBuffer | NumberedMessage | LocalMessage, protocol?: string): KernelMessage.IMessage {
    if (data instanceof LocalMessage) {
      this._positions.set(data.message, data.position);
      return data.message;
    }
    if (data instanceof NumberedMessage) {
      const message = this._base.deserialize(data.bytes, protocol);
      this._positions.set(message, data.position);
      data.onMessage(message, data.position);
      return message;
    }
    return this._base.deserialize(data, protocol);
  }

  /** Return a message's position in the journal; 0 if it has none. */
  positionOf(message: KernelMessage.IMessage): number {
    return this._positions.get(message) ?? 0;
  }

  /** Return the message that was serialized to these bytes. */
  messageOf(data: object): KernelMessage.IMessage | undefined {
    return this._sentMessages.get(data);
  }

  private readonly _base: Serializer = ServerConnection.makeSettings().serializer;
  private readonly _positions = new WeakMap<KernelMessage.IMessage, number>();
  private readonly _sentMessages = new WeakMap<object, KernelMessage.IMessage>();
}

/** Create a message that goes through JupyterLab's own queue, so that iopubMessage emits it after all earlier messages are handled. */
export function makeMessage(type: string, session: string, parent: string, content: object): KernelMessage.IMessage {
  const header = { msg_id: `ownlab-${type}-${parent}`, msg_type: type, session, username: '', version: '5.3', date: new Date().toISOString() };
  const message = { channel: 'iopub', header, parent_header: { ...header, msg_id: parent }, metadata: {}, content, buffers: [] };
  return message as unknown as KernelMessage.IMessage;
}
