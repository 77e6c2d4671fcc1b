/** The page while the server is away: a quiet notice instead of a box, and everything connected again when it is back. */
import { IConnectionLost, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IConnectionStatus, IServerSettings, ServerConnection, type ServiceManagerPlugin } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import type { ILine as Line } from '../notebook/attachment';
import { ILine, IOwnEnds, IReachability } from '../tokens';
import { Followers } from './connectionState';
import { FollowingSocket } from './journalSocket';
import { Wire } from './messageSerializer';
import { OwnEnds } from './ownShutdowns';
import { type Reach, Reachability } from './reachability';
import { PatientSocket } from './reconnectingSocket';
import { Seen } from './savedPosition';
import { SocketFront } from './socketBase';

/** A server that is back within this time was hardly away: nothing is shown. */
const SHORT_ABSENCE = 2_000;

const WORDS: Record<Exclude<Reach, 'reachable'>, string> = {
  away: 'The lab’s server does not answer. Kernels go on working; this page connects again by itself.',
  refused: 'The lab’s server was started anew and asks for its token. Open the address that `ownlab status` prints.'
};

export const reachability: ServiceManagerPlugin<Reachability> = {
  id: 'ownlab:reachability',
  description: 'Knows whether the server answers.',
  autoStart: true,
  provides: IReachability,
  activate: () => new Reachability(ServerConnection.makeSettings())
};

export const ownEnds: ServiceManagerPlugin<OwnEnds> = {
  id: 'ownlab:own-ends',
  description: 'Knows which runtimes this page itself ended.',
  autoStart: true,
  provides: IOwnEnds,
  activate: () => new OwnEnds()
};

export const line: ServiceManagerPlugin<Line> = {
  id: 'ownlab:line',
  description: 'Knows how far this page has come in what each kernel says.',
  autoStart: true,
  requires: [IOwnEnds],
  provides: ILine,
  activate: (_: null, ends: OwnEnds) => {
    trackLess();
    const followers = new Followers();
    return { followers, wire: new Wire(), seen: new Seen(followers, ends.fetch) };
  }
};

/** In place of JupyterLab's own, which package.json disables. */
export const serverSettings: ServiceManagerPlugin<ServerConnection.ISettings> = {
  id: 'ownlab:server-settings',
  description: 'Server settings with sockets that wait for the server, and lose nothing.',
  autoStart: true,
  requires: [IReachability, ILine],
  provides: IServerSettings,
  activate: (_: null, reachability: Reachability, { followers, wire, seen }: Line) =>
    ServerConnection.makeSettings({ WebSocket: socketClass(reachability, followers, wire), fetch: seen.fetch, serializer: wire })
};

/** In place of JupyterLab's own, which puts a box over the page and leaves it there. */
export const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'ownlab:connection-lost',
  description: 'Told by JupyterLab when a request got no answer.',
  autoStart: true,
  requires: [IReachability],
  provides: IConnectionLost,
  activate: (_: JupyterFrontEnd, reachability: Reachability) => async () => {
    await reachability.check();
  }
};

export const connectionNotice: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:connection-notice',
  description: 'Says that the server is away, and brings the page up to date when it is back.',
  autoStart: true,
  requires: [IReachability],
  optional: [IConnectionStatus],
  activate: (app: JupyterFrontEnd, reachability: Reachability, status: IConnectionStatus | null) => {
    const notice = new Absence();
    let timer = 0;
    reachability.changed.connect((_, reach) => {
      if (status) {
        status.isConnected = reach === 'reachable'; // JupyterLab's own polls pause meanwhile
      }
      window.clearTimeout(timer);
      if (reach === 'reachable') {
        notice.end();
        void refresh(app);
      } else {
        timer = window.setTimeout(() => notice.say(WORDS[reach]), SHORT_ABSENCE);
      }
    });
  }
};

/** Subshells are made and ended, for widgets, beside the cell that runs: after that JupyterLab would show the kernel as idle. */
function trackLess(): void {
  const types: unknown = JSON.parse(PageConfig.getOption('untracked_message_types') || '[]');
  const more = ['create_subshell_request', 'delete_subshell_request', 'list_subshell_request'];
  PageConfig.setOption('untracked_message_types', JSON.stringify([...(Array.isArray(types) ? types : []), ...more]));
}

/** Polls that met failures would wait for up to five minutes. */
async function refresh({ serviceManager }: JupyterFrontEnd): Promise<void> {
  const { kernels, kernelspecs, sessions } = serviceManager;
  await Promise.allSettled([kernels.refreshRunning(), sessions.refreshRunning(), kernelspecs.refreshSpecs()]);
}

const KERNEL = /\/api\/kernels\/([^/?]+)\/channels\?(?:.*&)?session_id=([^&]+)/;

export function socketClass(reachability: Reachability, followers: Followers, wire: Wire): typeof WebSocket {
  // A constructor that gives back an object of its own choice.
  function KindOfSocket(url: string | URL, protocols: string | string[] = []): WebSocket {
    const [, kernel, client] = KERNEL.exec(String(url)) ?? [];
    if (!kernel || !client) {
      return new PatientSocket(url, protocols, reachability);
    }
    const follower = followers.of(decodeURIComponent(kernel), decodeURIComponent(client));
    return new FollowingSocket(String(url), protocols, follower, wire, reachability);
  }
  const { CONNECTING, OPEN, CLOSING, CLOSED } = SocketFront;
  return Object.assign(KindOfSocket, { CONNECTING, OPEN, CLOSING, CLOSED }) as unknown as typeof WebSocket;
}

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
