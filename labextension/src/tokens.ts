/** Tokens and command ids that several plugins use. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { RunStates } from './cells/runStates';
import type { ColabModes } from './colab/colabMode';
import type { EditSessions } from './edits/editSessions';
import type { NotebookAttachment } from './notebook/attachment';
import type { RunGates } from './notebook/cellExecutor';
import type { Connector } from './notebook/connector';
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

export const IRunGates = new Token<RunGates>('ownlab:IRunGates', 'What must happen before a cell runs.');

export const IRunStates = new Token<RunStates>('ownlab:IRunStates', 'Which cells run, since when, and how long they took.');

export const IConnector = new Token<Connector>('ownlab:IConnector', 'Starts the runtimes of notebooks when they are needed.');

/** Open notebooks -> their connection to the kernel. */
export type Attachments = WeakMap<NotebookPanel['context'], NotebookAttachment>;

export const IAttachments = new Token<Attachments>('ownlab:IAttachments', 'What each open notebook shows of its kernel.');

export const IEditSessions = new Token<EditSessions>('ownlab:IEditSessions', 'Sends the edits of open notebooks as they are typed.');

export const IColabModes = new Token<ColabModes>('ownlab:IColabModes', 'Which notebooks have kernels in Colab mode.');

export const commandIds = {
  changeType: 'ownlab:change-type',
  colabMode: 'ownlab:colab-mode',
  connect: 'ownlab:connect',
  copyFullPath: 'ownlab:copy-full-path',
  deletedNotebooks: 'ownlab:deleted-notebooks',
  deleteRuntime: 'ownlab:delete-runtime',
  extendRuntime: 'ownlab:extend-runtime',
  openNodeTerminal: 'ownlab:open-node-terminal',
  factoryReset: 'ownlab:factory-reset',
  history: 'ownlab:history',
  insertCode: 'ownlab:insert-code',
  insertText: 'ownlab:insert-text',
  inspectData: 'ownlab:inspect-data',
  keyboardShortcuts: 'ownlab:keyboard-shortcuts',
  mountDrive: 'ownlab:mount-drive',
  otherKernel: 'ownlab:other-kernel',
  runBelow: 'ownlab:run-below',
  launcher: 'launcher:create',
  restartRunAll: 'ownlab:restart-run-all',
  restartRuntime: 'ownlab:restart-runtime',
  showDoctor: 'ownlab:show-doctor',
  showDrive: 'ownlab:show-drive',
  showResources: 'ownlab:show-resources',
  showRuntimeFiles: 'ownlab:show-runtime-files',
  showRuntimes: 'ownlab:show-runtimes',
  showSecrets: 'ownlab:show-secrets',
  showVariables: 'ownlab:show-variables',
  stopRuntime: 'ownlab:stop-runtime',
  toggleOutput: 'ownlab:toggle-output',
  toggleOutputBox: 'ownlab:toggle-output-box'
} as const;
