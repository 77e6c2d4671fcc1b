/** Plugins for the connection to the server: they reconnect everything, and show a notice while the server is unreachable. */
import { IConnectionLost, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IConnectionStatus, IServerSettings, ServerConnection, type ServiceManagerPlugin } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { text } from '../text';
import { IJournal, IOwnShutdowns, IReachability } from '../tokens';
import { ConnectionStates } from './connectionState';
import { JournalSocket } from './journalSocket';
import { MessageSerializer } from './messageSerializer';
import { OwnShutdowns } from './ownShutdowns';
import { inPageLanguage } from './pageLanguage';
import { patientFetch } from './patientFetch';
import { type Reach, Reachability } from './reachability';
import { ReconnectingSocket } from './reconnectingSocket';
import { SavedPositions } from './savedPositions';
import { SocketBase } from './socketBase';

/** Shorter interruptions are not reported. */
const NOTICE_DELAY_MS = 2_000;

export const reachability: ServiceManagerPlugin<Reachability> = {
  id: 'ownlab:reachability',
  description: 'Tracks whether the server is reachable.',
  autoStart: true,
  provides: IReachability,
  activate: () => new Reachability(ServerConnection.makeSettings())
};

export const ownShutdowns: ServiceManagerPlugin<OwnShutdowns> = {
  id: 'ownlab:own-ends',
  description: 'Records which runtimes this page shut down.',
  autoStart: true,
  provides: IOwnShutdowns,
  activate: () => new OwnShutdowns()
};

export const journal: ServiceManagerPlugin<IJournal> = {
  id: 'ownlab:line',
  description: 'Tracks the position of this page in the journal of each runtime.',
  autoStart: true,
  requires: [IOwnShutdowns, IReachability],
  provides: IJournal,
  activate: (_: null, ownShutdowns: OwnShutdowns, reachability: Reachability) => {
    ignoreSubshellMessages();
    const connections = new ConnectionStates();
    const fetch = patientFetch(ownShutdowns.fetch, reachability);
    const serializer = new MessageSerializer();
    serializer.runPosition = (cell, client) => connections.runPosition(cell, client);
    return { connections, serializer, savedPositions: new SavedPositions(connections, fetch) };
  }
};

/** Replaces JupyterLab's own, which package.json disables. */
export const serverSettings: ServiceManagerPlugin<ServerConnection.ISettings> = {
  id: 'ownlab:server-settings',
  description: 'Server settings with WebSockets that reconnect and lose no message.',
  autoStart: true,
  requires: [IReachability, IJournal],
  provides: IServerSettings,
  activate: (_: null, reachability: Reachability, { connections, serializer, savedPositions }: IJournal) =>
    ServerConnection.makeSettings({ WebSocket: socketClass(reachability, connections, serializer), fetch: inPageLanguage(savedPositions.fetch), serializer: serializer })
};

/** Replaces JupyterLab's own, which covers the page with a dialog. */
export const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'ownlab:connection-lost',
  description: 'Checks the server after a failed request.',
  autoStart: true,
  requires: [IReachability],
  provides: IConnectionLost,
  activate: (_: JupyterFrontEnd, reachability: Reachability) => async () => {
    await reachability.check();
  }
};

export const connectionNotice: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:connection-notice',
  description: 'Shows a notice while the server is unreachable, and refreshes the page afterwards.',
  autoStart: true,
  requires: [IReachability],
  optional: [IConnectionStatus],
  activate: (app: JupyterFrontEnd, reachability: Reachability, status: IConnectionStatus | null) => {
    const notice = new ServerNotice();
    let timer = 0;
    reachability.changed.connect((_, reach) => {
      if (status) {
        status.isConnected = reach === 'reachable'; // pauses JupyterLab's own polls
      }
      window.clearTimeout(timer);
      if (reach === 'reachable') {
        notice.setMessage(null);
        void refresh(app);
      } else {
        timer = window.setTimeout(() => notice.setMessage(messageOf(reach)), NOTICE_DELAY_MS);
      }
    });
  }
};

function messageOf(reach: Exclude<Reach, 'reachable'>): string {
  return reach === 'unreachable'
    ? text('The lab’s server does not answer. Kernels keep running. This page reconnects automatically.')
    : text('The lab’s server was restarted and requires its token. Open the address that `ownlab status` prints.');
}

/** Widgets use subshells beside a running cell; JupyterLab would take their replies as the kernel being idle. */
function ignoreSubshellMessages(): void {
  const types: unknown = JSON.parse(PageConfig.getOption('untracked_message_types') || '[]');
  const more = ['create_subshell_request', 'delete_subshell_request', 'list_subshell_request'];
  PageConfig.setOption('untracked_message_types', JSON.stringify([...(Array.isArray(types) ? (types as unknown[]) : []), ...more]));
}

/** Poll at once: JupyterLab's polls back off for up to five minutes after failures. */
async function refresh({ serviceManager }: JupyterFrontEnd): Promise<void> {
  const { kernels, kernelspecs, sessions } = serviceManager;
  await Promise.allSettled([kernels.refreshRunning(), sessions.refreshRunning(), kernelspecs.refreshSpecs()]);
}

const KERNEL = /\/api\/kernels\/([^/?]+)\/channels\?(?:.*&)?session_id=([^&]+)/;

/** Return the WebSocket class for JupyterLab: kernels get a JournalSocket, everything else a ReconnectingSocket. */
function socketClass(reachability: Reachability, connections: ConnectionStates, serializer: MessageSerializer): typeof WebSocket {
  // A constructor may return another object.
  function SocketConstructor(url: string | URL, protocols: string | string[] = []): WebSocket {
    const [, kernel, client] = KERNEL.exec(String(url)) ?? [];
    if (!kernel || !client) {
      return new ReconnectingSocket(url, protocols, reachability);
    }
    const state = connections.get(decodeURIComponent(kernel), decodeURIComponent(client));
    return new JournalSocket(String(url), protocols, state, serializer, reachability);
  }
  const { CONNECTING, OPEN, CLOSING, CLOSED } = SocketBase;
  return Object.assign(SocketConstructor, { CONNECTING, OPEN, CLOSING, CLOSED }) as unknown as typeof WebSocket;
}

/** The notice that the server is unreachable. JupyterLab loads the code of its own notifications from the server on first use. */
class ServerNotice extends Widget {
  constructor() {
    super();
    this.addClass('ownlab-ServerNotice');
    this.node.setAttribute('role', 'status');
  }

  /** Show a message; null hides the notice. */
  setMessage(message: string | null): void {
    this.node.textContent = message ?? '';
    if (message !== null && !this.isAttached) {
      Widget.attach(this, document.body);
    } else if (message === null && this.isAttached) {
      Widget.detach(this);
    }
  }
}
