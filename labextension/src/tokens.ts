/** What plugins of ours provide for each other. */
import { Token } from '@lumino/coreutils';
import type { ColabModes } from './colab/colabMode';
import type { ILine as Line } from './notebook/attachment';
import type { LiveSnapshot } from './runtimes/liveSnapshot';
import type { OwnEnds } from './session/ownShutdowns';
import type { Reachability } from './session/reachability';

export const IReachability = new Token<Reachability>('ownlab:IReachability', 'Whether the server answers.');

export const IOwnEnds = new Token<OwnEnds>('ownlab:IOwnEnds', 'What this page itself ended.');

export const ILine = new Token<Line>('ownlab:ILine', 'How far this page has come in what each kernel says.');

export const ILiveSnapshot = new Token<LiveSnapshot>(
  'ownlab:ILiveSnapshot',
  'All runtimes, cards and types of this machine, as they are now.'
);

export const IColabModes = new Token<ColabModes>('ownlab:IColabModes', 'Which notebooks have kernels like Colab’s.');

/** Commands that more than one plugin names. */
export const commandIds = {
  changeType: 'ownlab:change-type',
  colabMode: 'ownlab:colab-mode',
  extendRuntime: 'ownlab:extend-runtime',
  showDrive: 'ownlab:show-drive',
  showRuntimes: 'ownlab:show-runtimes',
  showSecrets: 'ownlab:show-secrets',
  stopRuntime: 'ownlab:stop-runtime'
} as const;
