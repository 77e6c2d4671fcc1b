/** Tokens and command ids that several plugins use. */
import { Token } from '@lumino/coreutils';
import type { ColabModes } from './colab/colabMode';
import type { LiveSnapshot } from './runtimes/liveSnapshot';
import type { ConnectionStates } from './session/connectionState';
import type { MessageSerializer } from './session/messageSerializer';
import type { OwnShutdowns } from './session/ownShutdowns';
import type { Reachability } from './session/reachability';
import type { SavedPositions } from './session/savedPositions';

export const IReachability = new Token<Reachability>('ownlab:IReachability', 'Tracks whether the server is reachable.');

export const IOwnShutdowns = new Token<OwnShutdowns>('ownlab:IOwnShutdowns', 'Records what this page shut down.');

/** The page's side of the runtimes' journals. */
export interface IJournal {
  connections: ConnectionStates;
  serializer: MessageSerializer;
  savedPositions: SavedPositions;
}

export const IJournal = new Token<IJournal>('ownlab:IJournal', 'The position of this page in the journal of each runtime.');

export const ILiveSnapshot = new Token<LiveSnapshot>('ownlab:ILiveSnapshot', 'The current runtimes, cards and runtime types of this machine.');

export const IColabModes = new Token<ColabModes>('ownlab:IColabModes', 'Which notebooks have kernels in Colab mode.');

export const commandIds = {
  changeType: 'ownlab:change-type',
  colabMode: 'ownlab:colab-mode',
  extendRuntime: 'ownlab:extend-runtime',
  showDrive: 'ownlab:show-drive',
  showRuntimes: 'ownlab:show-runtimes',
  showSecrets: 'ownlab:show-secrets',
  stopRuntime: 'ownlab:stop-runtime'
} as const;
