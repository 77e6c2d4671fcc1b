/** The notice that the server is away. JupyterLab's own notifications are loaded from the server when first shown: too late. */
import { Widget } from '@lumino/widgets';

export class Absence extends Widget {
  constructor() {
    super();
    this.addClass('ownlab-Absence');
    this.node.setAttribute('role', 'status');
  }

  /** Show these words, or others than before. */
  say(words: string): void {
    this.node.textContent = words;
    if (!this.isAttached) {
      Widget.attach(this, document.body);
    }
  }

  /** All is well again. */
  end(): void {
    if (this.isAttached) {
      Widget.detach(this);
    }
  }
}
