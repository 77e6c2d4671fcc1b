/** The WebSocket that JupyterLab is given: which kind of ours it is depends on what it is for. */
import type { Followers } from './follower';
import { FollowingSocket } from './following';
import { SocketFront } from './front';
import { PatientSocket } from './patient';
import type { Reachability } from './reachability';
import type { Wire } from './wire';

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
