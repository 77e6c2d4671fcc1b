/**
 * Cells whose outputs go to an Output widget (`with out:`), after a reload.
 *
 * ipywidgets' own OutputModel takes an execution's messages when its `msg_id` changes, not when it is restored with one. Until
 * it does, this keeps them out of the cell, and asks the server to tell the widget what it took, and whose it takes.
 */
import type { KernelMessage } from '@jupyterlab/services';

const OUTPUTS = ['stream', 'display_data', 'update_display_data', 'execute_result', 'error', 'clear_output'];
/** The widgets of a page that was just loaded take a moment to be there. */
const ASK_AFTER = [300, 1_500, 5_000];

export class Captures {
  constructor(private readonly _ask: () => void) {}

  /** How it is when a page attaches. */
  begin(capturing: Record<string, string>): void {
    this._taking = new Map(Object.entries(capturing));
  }

  /** Called with each comm_msg when it was handled. */
  note({ comm_id, data }: KernelMessage.ICommMsgMsg['content']): void {
    const { state } = data as { state?: { msg_id?: unknown } };
    if (typeof state?.msg_id === 'string') {
      this._taking.set(comm_id, state.msg_id);
    }
  }

  /** A hook for a cell's future: false for what an Output widget should have taken, and did not. */
  guard(message: KernelMessage.IIOPubMessage): boolean {
    const { msg_id } = message.parent_header as KernelMessage.IHeader;
    if (!OUTPUTS.includes(message.header.msg_type) || ![...this._taking.values()].includes(msg_id)) {
      return true;
    }
    this._timers.forEach(timer => window.clearTimeout(timer));
    this._timers = ASK_AFTER.map(after => window.setTimeout(this._ask, after));
    return false;
  }

  clear(): void {
    this._taking.clear();
    this._timers.forEach(timer => window.clearTimeout(timer));
  }

  private _taking = new Map<string, string>();
  private _timers: number[] = [];
}
