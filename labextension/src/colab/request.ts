/** A request of google.colab (`colab_request`). It is answered on stdin, after an acknowledgement that a page is present. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';

type Answer = { ack: true } | { data: unknown } | { error: { name: string; message: string } };

export class Request {
  constructor(
    readonly kernel: Kernel.IKernelConnection,
    private readonly _message: KernelMessage.IIOPubMessage
  ) {
    const { metadata, content, parent_header: parent } = _message;
    const { request } = content as { request?: unknown };
    this.type = String(metadata['colab_request_type'] ?? '');
    this.id = typeof metadata['colab_msg_id'] === 'string' ? metadata['colab_msg_id'] : '';
    this.body = typeof request === 'object' && request !== null ? (request as Record<string, unknown>) : {};
    this.execution = 'msg_id' in parent ? parent.msg_id : '';
    this.own = 'session' in parent && parent.session === kernel.clientId;
  }

  readonly type: string;
  /** '': the kernel expects no answer. */
  readonly id: string;
  readonly body: Record<string, unknown>;
  /** The message, usually a cell's execute request, during which it was sent. */
  readonly execution: string;
  /** Whether this page sent that message: of several pages with the notebook, this one answers. */
  readonly own: boolean;

  /** Return a string of the request; '' if it is not there. */
  stringField(name: string): string {
    const value = this.body[name];
    return typeof value === 'string' ? value : '';
  }

  acknowledge(): void {
    this._reply({ ack: true });
  }

  answer(data: unknown): void {
    this._reply({ data: data ?? null });
  }

  refuse(reason: unknown): void {
    const isError = reason instanceof Error;
    const name = isError && reason.name !== 'Error' ? reason.name : '';
    this._reply({ error: { name, message: isError ? reason.message : String(reason) } });
  }

  private _reply(answer: Answer): void {
    if (!this.id || this.kernel.isDisposed) {
      return;
    }
    const content = { status: 'ok', value: { type: 'colab_reply', colab_msg_id: this.id, ...answer } };
    const { hasPendingInput } = this.kernel;
    this.kernel.sendInputReply(
      content as unknown as KernelMessage.IInputReplyMsg['content'],
      this._message.header as unknown as KernelMessage.IInputReplyMsg['parent_header']
    );
    this.kernel.hasPendingInput = hasPendingInput; // this does not answer an input box that may be open as well
  }
}
