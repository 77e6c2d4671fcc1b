/**
 * Lets a notebook wait while the default environment is built for the first time: in ownlab's own Python, which stands in until
 * then, its imports would fail.
 */
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import { fetchEnvironments } from '../api';
import type { EnvironmentState } from '../records';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { sentences, text } from '../text';
import { createNotice, setNoticeMessage } from './notice';

const POLL_MS = 1_000;
const DEFAULT = 'default';

type Decision = 'wait' | 'start' | 'cancel';

export class EnvironmentWait {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _live: LiveSnapshot,
    private readonly _notebooks: INotebookTracker
  ) {}

  /** Find out whether there is anything to wait for, so that a first cell need not ask. */
  async look(): Promise<EnvironmentState | null> {
    if (this._isSettled) {
      return null;
    }
    let found: EnvironmentState | undefined;
    try {
      const environments = await fetchEnvironments(this._settings);
      found = environments?.environments.find(({ name }) => name === DEFAULT);
      this._isSettled = environments === null || found?.status === 'ready';
    } catch {
      return null; // starting a runtime says what is wrong
    }
    return found ?? null;
  }

  /** Wait until a type can start in its environment. Return false if a person does not want to wait, nor to start without it. */
  readonly wait = async (type: string, sessionContext: ISessionContext): Promise<boolean> => {
    if ((this._live.type(type)?.environment ?? DEFAULT) !== DEFAULT) {
      return true;
    }
    let state = await this.look();
    if (state?.status !== 'building') {
      return true;
    }
    let decision = 'wait' as Decision;
    const notice = this._show(sessionContext, choice => (decision = choice));
    try {
      while (decision === 'wait' && !sessionContext.isDisposed && (state === null || isRunning(state))) {
        setNoticeMessage(notice, describe(state));
        await new Promise(done => window.setTimeout(done, POLL_MS));
        state = await this.look();
        if (this._isSettled) {
          break;
        }
      }
    } finally {
      notice.dispose();
    }
    if (decision === 'wait' && state && !isRunning(state) && state.status !== 'ready') {
      Notification.warning(sentences(text('The default environment was not built: the notebook is started in ownlab’s own Python.'), state.error), {
        autoClose: false
      });
    }
    return decision !== 'cancel' && !sessionContext.isDisposed;
  };

  private _show(sessionContext: ISessionContext, decide: (choice: Decision) => void): Widget {
    const notice = createNotice(
      '',
      [{ label: text('Start without it'), run: () => decide('start') }],
      () => decide('cancel')
    );
    this._notebooks.filter(panel => panel.sessionContext === sessionContext).at(0)?.contentHeader.addWidget(notice);
    return notice;
  }

  /** There is nothing to wait for any more. */
  private _isSettled = false;
}

function isRunning({ status }: EnvironmentState): boolean {
  return status === 'building' || status === 'updating';
}

function describe(state: EnvironmentState | null): string {
  const progress = state?.progress;
  if (progress?.phase === 'downloading' && progress.fraction !== null) {
    return text('The default environment is being built: {percent} %. Cells run when it is ready.', { percent: Math.floor(100 * progress.fraction) });
  }
  return text('The default environment is being built. Cells run when it is ready.');
}
