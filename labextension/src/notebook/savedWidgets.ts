/**
 * Lets ipywidgets draw the saved widgets of a notebook that is not connected.
 *
 * Its manager is created for a kernel, although it draws saved widgets without one. For a notebook that has never had a kernel,
 * it alone (the caller is recognised by its stack) sees a session with a kernel that has no comms. When the notebook
 * connects, the manager hears of the kernel as of any other.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import { UUID } from '@lumino/coreutils';

const WIDGET_MANAGER = '/@jupyter-widgets/jupyterlab-manager/';
/** The frames of the stack that are looked at: this file's, and the caller's. */
const FRAMES = 4;

export function drawSavedWidgets(sessionContext: ISessionContext, initialized: Promise<void>): void {
  const session = getterOf(sessionContext, 'session');
  const ready = getterOf(sessionContext, 'ready');
  if (!session || !ready) {
    return;
  }
  const offline = { kernel: new OfflineKernel() };
  Object.defineProperty(sessionContext, 'session', {
    configurable: true,
    get: () => session.call(sessionContext) ?? (isWidgetManager() ? offline : null)
  });
  Object.defineProperty(sessionContext, 'ready', {
    configurable: true,
    get: () => (isWidgetManager() ? initialized : ready.call(sessionContext))
  });
  // From its first kernel on, everybody sees the same.
  void (ready.call(sessionContext) as Promise<void>).then(() => {
    Reflect.deleteProperty(sessionContext, 'session');
    Reflect.deleteProperty(sessionContext, 'ready');
  });
}

/** The parts of a kernel that are used to draw saved widgets. */
class OfflineKernel {
  readonly id = `offline-${UUID.uuid4()}`;
  readonly handleComms = false;
  readonly status = 'unknown';

  requestCommInfo(): Promise<object> {
    return Promise.resolve({ content: { status: 'ok', comms: {} } });
  }

  registerCommTarget(): void {
    // no message arrives
  }

  removeCommTarget(): void {
    // there is none
  }

  registerMessageHook(): void {
    // no message arrives
  }

  removeMessageHook(): void {
    // there is none
  }
}

function isWidgetManager(): boolean {
  return new Error().stack?.split('\n', FRAMES).some(frame => frame.includes(WIDGET_MANAGER)) === true;
}

function getterOf(target: object, name: string): (() => unknown) | undefined {
  for (let owner: object | null = target; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    const found = Object.getOwnPropertyDescriptor(owner, name);
    if (found) {
      return found.get?.bind(target);
    }
  }
  return undefined;
}
