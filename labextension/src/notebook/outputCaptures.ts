/**
 * Output that an Output widget captures (`with out:`), after a page reload.
 *
 * The OutputModel of ipywidgets captures an execution's messages when its `msg_id` changes, but not when it is restored with
 * one. Until it does, this class keeps the messages out of the cell and asks the server to send the widget its state.
 */
import type { KernelMessage } from '@jupyterlab/services';

const OUTPUTS = ['stream', 'display_data', 'update_display_data', 'execute_result', 'error', 'clear_output'];
/** Widgets take a moment to appear after a page is loaded. */
const REQUEST_AFTER_MS = [300, 1_500, 5_000];

export class OutputCaptures {
  constructor(private readonly _requestWidgetState: () => void) {}

  /** Set what is captured when a notebook attaches. */
  reset(capturing: Record<string, string>): void {
    this._captured = new Map(Object.entries(capturing));
  }

  /** Called with each comm_msg after it was handled. */
  onCommMessage({ comm_id, data }: KernelMessage.ICommMsgMsg['content']): void {
    const { state } = data as { state?: { msg_id?: unknown } };
    if (typeof state?.msg_id === 'string') {
      this._captured.set(comm_id, state.msg_id);
    }
  }

  /** A hook for a cell's future: return false for output that an Output widget should have captured. */
  acceptsOutput(message: KernelMessage.IIOPubMessage): boolean {
    const { msg_id } = message.parent_header as KernelMessage.IHeader;
    if (!OUTPUTS.includes(message.header.msg_type) || ![...this._captured.values()].includes(msg_id)) {
      return true;
    }
    this._timers.forEach(timer => window.clearTimeout(timer));
    this._timers = REQUEST_AFTER_MS.map(after => window.setTimeout(this._requestWidgetState, after));
    return false;
  }

  clear(): void {
    this._captured.clear();
    this._timers.forEach(timer => window.clearTimeout(timer));
  }

  private _captured = new Map<string, string>();
  private _timers: number[] = [];
}
