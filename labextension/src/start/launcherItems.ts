/** What JupyterLab and other extensions add to the launcher. */
import type { ILauncher } from '@jupyterlab/launcher';
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

/** Of the names of our runtime types; the CPU's is also "python3". */
const TYPE_PREFIX = 'ownlab-';

export class LauncherItems implements ILauncher {
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Called by other plugins. */
  add(options: ILauncher.IItemOptions): IDisposable {
    const item = Object.freeze({ ...options });
    this._items.push(item);
    this._changed.emit();
    return new DisposableDelegate(() => {
      this._items = this._items.filter(each => each !== item);
      this._changed.emit();
    });
  }

  /**
   * Return the items that the start page shows under "Other": terminals and consoles first, others by rank.
   *
   * Our runtime types have tiles, so notebooks of them are left out, and of their consoles only that of one type is kept.
   */
  others(types: ReadonlySet<string>, consoleType: string | undefined): ILauncher.IItemOptions[] {
    return this._items
      .filter(({ args }) => {
        const kernel = kernelName(args);
        // JupyterLab may know a new type before the snapshot has it.
        const ours = kernel !== null && (types.has(kernel) || kernel.startsWith(TYPE_PREFIX));
        return !ours || (isConsole(args) && kernel === consoleType);
      })
      .sort((a, b) => place(a) - place(b) || compareRanks(a.rank, b.rank));
  }

  private _items: ILauncher.IItemOptions[] = [];
  private _changed = new Signal<this, void>(this);
}

function place(item: ILauncher.IItemOptions): number {
  return item.command === 'terminal:create-new' ? 0 : isConsole(item.args) ? 1 : 2;
}

function compareRanks(a = Number.MAX_VALUE, b = Number.MAX_VALUE): number {
  return a - b;
}

/** JupyterLab's notebooks name their kernel in one way, its consoles in another. */
function kernelName(args: ILauncher.IItemOptions['args']): string | null {
  const name = isConsole(args) ? (args?.kernelPreference as { name?: unknown }).name : args?.kernelName;
  return typeof name === 'string' ? name : null;
}

/** Whether an item starts a console. */
export function isConsole(args: ILauncher.IItemOptions['args']): boolean {
  return typeof args?.kernelPreference === 'object' && args.kernelPreference !== null;
}
