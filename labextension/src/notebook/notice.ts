/** A notice above a notebook, with actions and a button that closes it. */
import { closeIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { text } from '../text';

interface IAction {
  label: string;
  accept?: boolean;
  run: () => unknown;
}

export function createNotice(message: string, actions: IAction[], dismiss: () => void): Widget {
  const node = document.createElement('div');
  const paragraph = node.appendChild(document.createElement('p'));
  paragraph.textContent = message;
  // Together: in a narrow window they stand below the text.
  const buttons = node.appendChild(document.createElement('div'));
  buttons.className = 'ownlab-NotebookNotice-actions';
  for (const { label, accept, run } of actions) {
    const button = buttons.appendChild(document.createElement('button'));
    button.className = accept ? 'jp-mod-styled jp-mod-accept' : 'jp-mod-styled jp-mod-reject';
    button.textContent = label;
    button.onclick = () => void run();
  }
  const close = buttons.appendChild(document.createElement('button'));
  close.className = 'jp-Button jp-mod-minimal ownlab-NotebookNotice-close';
  close.title = text('Dismiss');
  close.setAttribute('aria-label', text('Dismiss'));
  closeIcon.element({ container: close, width: '16px', height: '16px' });
  close.onclick = dismiss;
  return new Notice(node);
}

/** JupyterLab's layout does not ask how high its content is: in a narrow window, the row wraps and would be cut off. */
class Notice extends Widget {
  constructor(private readonly _row: HTMLElement) {
    super();
    this.addClass('ownlab-NotebookNotice');
    this.node.setAttribute('role', 'alert');
    _row.className = 'ownlab-NotebookNotice-row';
    this.node.append(_row);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._observer.observe(this._row);
  }

  protected override onBeforeDetach(message: Message): void {
    this._observer.disconnect();
    super.onBeforeDetach(message);
  }

  private _fit(): void {
    const height = `${this._row.offsetHeight}px`;
    if (this._row.offsetHeight > 0 && this.node.style.minHeight !== height) {
      this.node.style.minHeight = height;
      this.parent?.fit();
    }
  }

  private readonly _observer = new ResizeObserver(() => this._fit());
}

/** Replace the message of a notice that changes while it is read: not announced again, and its buttons stay. */
export function setNoticeMessage({ node }: Widget, message: string): void {
  node.setAttribute('role', 'status');
  const paragraph = node.querySelector('p');
  if (paragraph && paragraph.textContent !== message) {
    paragraph.textContent = message;
  }
}
