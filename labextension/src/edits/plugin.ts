/** Plugins that send edits as they are typed. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { type INotebookModel, INotebookTracker, INotebookWidgetFactory, type NotebookPanel, type NotebookWidgetFactory } from '@jupyterlab/notebook';
import { type Contents, type IContentProvider, IContentsManager, type ServiceManagerPlugin } from '@jupyterlab/services';
import type { Signal } from '@lumino/signaling';
import type { RunGates } from '../notebook/cellExecutor';
import type { Reachability } from '../session/reachability';
import { type Attachments, IAttachments, IEditSessions, IReachability, IRunGates } from '../tokens';
import { EditsContentProvider, PROVIDER_ID } from './contentProvider';
import { showDamaged } from './damagedDialog';
import { EditedNotebook } from './editedNotebook';
import type { EditSession } from './editSession';
import { EditSessions } from './editSessions';

/** A cell runs even if its code cannot be saved before: the journal has the code that ran. */
const RUN_TIMEOUT_MS = 5_000;

/** A service, so that it knows every drive before any plugin opens a notebook there. */
export const editSessions: ServiceManagerPlugin<EditSessions> = {
  id: 'ownlab:edit-sessions',
  description: 'Loads and saves notebooks whose edits the server has.',
  autoStart: true,
  requires: [IContentsManager, IReachability],
  provides: IEditSessions,
  activate: (_: null, contents: Contents.IManager, reachability: Reachability) => {
    const sessions = new EditSessions(contents.serverSettings, reachability);
    const { defaultDrive } = contents as Contents.IManager & { defaultDrive: Contents.IDrive };
    const drives = new Map<string, Contents.IDrive>();
    const register = (drive: Contents.IDrive): void => {
      const globalPath = (path: string): string => (drive === defaultDrive ? path : `${drive.name}:${path}`);
      const endpoint = drive === defaultDrive ? 'api/contents' : (drive as { contentsEndpoint?: string }).contentsEndpoint;
      const provider = endpoint
        ? new EditsContentProvider(sessions, { settings: drive.serverSettings, endpoint, globalPath })
        : ownProvider(drive);
      drive.contentProviderRegistry?.register(PROVIDER_ID, provider);
      drives.set(drive === defaultDrive ? '' : drive.name, drive);
    };
    register(defaultDrive);
    const addDrive = contents.addDrive.bind(contents);
    contents.addDrive = drive => {
      register(drive);
      addDrive(drive);
    };
    sessions.renamedElsewhere.connect((_, { renamed, path }) => {
      const drive = drives.get(contents.driveName(path));
      if (drive) {
        void announceRename(contents, drive, renamed, path);
      }
    });
    return sessions;
  }
};

/** Let everything in this page that shows a notebook follow it, as if it had been renamed here. */
async function announceRename(contents: Contents.IManager, drive: Contents.IDrive, before: string, path: string): Promise<void> {
  try {
    const model = await contents.get(path, { content: false });
    const oldValue = { path: contents.localPath(before) };
    (drive.fileChanged as Signal<Contents.IDrive, Contents.IChangedArgs>).emit({
      type: 'rename',
      oldValue,
      newValue: { ...model, path: contents.localPath(path) }
    });
  } catch (reason) {
    console.warn(`ownlab: ${before} was renamed, but ${path} cannot be read`, reason);
  }
}

/** JupyterLab asks every drive for the provider of notebooks; a drive of another extension answers as without it. */
function ownProvider(drive: Contents.IDrive): IContentProvider {
  return {
    get: (path, options) => drive.get(path, { ...options, contentProviderId: undefined }),
    save: (path, options) => drive.save(path, { ...options, contentProviderId: undefined })
  };
}

export const edits: JupyterFrontEndPlugin<void> = {
  id: 'ownlab:edits',
  description: 'Sends the edits of notebooks as they are typed, and before their cells run.',
  autoStart: true,
  requires: [INotebookTracker, INotebookWidgetFactory, IEditSessions, IAttachments, IRunGates],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    factory: NotebookWidgetFactory.IFactory,
    sessions: EditSessions,
    attachments: Attachments,
    gates: RunGates
  ) => {
    if (factory.contentProviderId) {
      return; // another extension synchronises notebooks, such as jupyter-collaboration
    }
    (factory as NotebookWidgetFactory).contentProviderId = PROVIDER_ID;
    sessions.damaged.connect((_, damaged) => void showDamaged(app.commands, notebooks, damaged));
    const opened = new WeakMap<INotebookModel, EditedNotebook>();
    const open = async (panel: NotebookPanel): Promise<void> => {
      const { context } = panel;
      await context.ready;
      const loaded = sessions.loaded(context.path);
      if (!loaded || panel.isDisposed || context.model.collaborative) {
        return;
      }
      const notebook = opened.get(context.model) ?? new EditedNotebook(context, sessions, () => attachments.get(context), loaded);
      opened.set(context.model, notebook);
      notebook.addView(panel);
    };
    notebooks.forEach(panel => void open(panel));
    notebooks.widgetAdded.connect((_, panel) => void open(panel));
    gates.add(async ({ notebook, cell }) => {
      const session = opened.get(notebook)?.session;
      session?.onRun();
      if (session?.hasSource(cell.model.id)) {
        void session.flush(); // other cells need not be saved before this one runs
      } else if (session) {
        await saveBeforeRun(session, sessions.reachability);
      }
    });
  }
};

async function saveBeforeRun(session: EditSession, reachability: Reachability): Promise<void> {
  if (reachability.reach !== 'reachable' || !session.mayBeUnsaved) {
    return;
  }
  const save = async (): Promise<void> => {
    await session.flush();
    if (!session.isSaved) {
      await session.flush(); // what was typed meanwhile
    }
  };
  let giveUp = (): void => undefined;
  const unreachable = new Promise<void>(done => {
    giveUp = done;
  });
  const timer = window.setTimeout(giveUp, RUN_TIMEOUT_MS);
  reachability.changed.connect(giveUp);
  await Promise.race([save(), unreachable]);
  reachability.changed.disconnect(giveUp);
  window.clearTimeout(timer);
}
