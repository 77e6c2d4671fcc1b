/** A widget that shows the newest snapshot, and draws nothing while it is hidden. */
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { LiveSnapshot } from '../live';

export abstract class LiveWidget extends ReactWidget {
  constructor(readonly live: LiveSnapshot) {
    super();
    live.changed.connect(this._onChanged, this);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.update();
  }

  private _onChanged(): void {
    if (this.isVisible) {
      this.update();
    }
  }
}
