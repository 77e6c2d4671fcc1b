/** The tab with the history of a notebook: versions by time, and the differences of one to the notebook now. */
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { formatBytes, notebookName } from '../formatting';
import { notebookHistoryIcon } from '../icons';
import type { NotebookHistory, Version } from '../records';
import { plural, text } from '../text';
import { CellDiff } from './cellDiff';
import type { ICellDifference } from './comparison';
import type { HistoryModel } from './historyModel';
import { describeChanges, describeClock, describeMoment, describeReason, groupByDay } from './versionTimes';

/** How often a visible panel looks for new versions. */
const REFRESH_MS = 5000;
const MARKDOWN = 'text/x-markdown';

/** What the buttons do. */
export interface IHistoryActions {
  restore: (version: Version) => void;
  rename: (version: Version) => void;
  remove: (version: Version) => void;
  saveNow: () => void;
  showDeleted: () => void;
}

export class HistoryPanel extends ReactWidget {
  constructor(
    readonly model: HistoryModel,
    private readonly _actions: IHistoryActions,
    private readonly _languages: IEditorLanguageRegistry
  ) {
    super();
    this.addClass('ownlab-History');
    this.title.icon = notebookHistoryIcon;
    this.title.closable = true;
    this.node.setAttribute('role', 'region');
    this.node.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single-key shortcuts must not apply here
    this._setTitle();
    model.changed.connect(this._onChange, this);
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    this.model.changed.disconnect(this._onChange, this);
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this.model.refresh();
    window.clearInterval(this._timer);
    this._timer = window.setInterval(() => !document.hidden && void this.model.refresh(), REFRESH_MS);
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    window.clearInterval(this._timer);
  }

  protected render(): React.JSX.Element {
    const { history, selected, differences, failure } = this.model;
    const now = Date.now() / 1000;
    return (
      <div className="ownlab-History-columns">
        <main className="ownlab-History-main" aria-label={text('Selected version')}>
          {failure && (
            <p className="ownlab-Notice ownlab-mod-failure" role="alert">
              {failure}
            </p>
          )}
          {history && !selected && <p className="ownlab-Empty">{text('There are no versions yet. They are recorded while you edit this notebook.')}</p>}
          {selected && <VersionHeader version={selected} now={now} actions={this._actions} />}
          {selected && differences && (
            <Differences differences={differences} model={this.model} languages={this._languages} />
          )}
        </main>
        <aside className="ownlab-History-side" aria-label={text('Versions')}>
          <div className="ownlab-History-sideHead">
            <h2 className="ownlab-Panel-title" title={this.model.path}>
              {notebookName(this.model.path)}
            </h2>
            <button className="ownlab-Button" onClick={this._actions.saveNow}>
              {text('Save a named version now')}
            </button>
          </div>
          {history && <VersionList history={history} selected={selected} now={now} select={id => void this.model.select(id)} />}
          <div className="ownlab-History-sideFoot">
            <button className="ownlab-Button" onClick={this._actions.showDeleted}>
              {text('Deleted notebooks…')}
            </button>
          </div>
        </aside>
      </div>
    );
  }

  private _onChange(): void {
    this._setTitle();
    this.update();
  }

  private _setTitle(): void {
    const notebook = notebookName(this.model.path);
    this.title.label = text('History of {notebook}', { notebook });
    this.title.caption = text('Versions of {path}', { path: this.model.path });
    this.node.setAttribute('aria-label', this.title.label);
  }

  private _timer = 0;
}

function VersionHeader({ version, now, actions }: { version: Version; now: number; actions: IHistoryActions }): React.JSX.Element {
  return (
    <header className="ownlab-History-head">
      <div className="ownlab-History-headText">
        <h2 className="ownlab-Panel-title">{version.name ?? describeMoment(version.at, now)}</h2>
        <p className="ownlab-Empty">
          {version.name ? `${describeMoment(version.at, now)} · ` : ''}
          {describeReason(version)} · {describeChanges(version)}
        </p>
        <p className="ownlab-History-legend">
          <span className="ownlab-mod-before">{text('this version')}</span>
          <span className="ownlab-mod-after">{text('the notebook now')}</span>
        </p>
      </div>
      <div className="ownlab-History-buttons">
        <button className="ownlab-Button" onClick={() => actions.rename(version)}>
          {version.name ? text('Rename…') : text('Name this version…')}
        </button>
        <button className="ownlab-Button ownlab-mod-danger" onClick={() => actions.remove(version)}>
          {text('Delete this version…')}
        </button>
        <button className="ownlab-Button ownlab-mod-primary" onClick={() => actions.restore(version)}>
          {text('Restore')}
        </button>
      </div>
    </header>
  );
}

interface IVersionListProps {
  history: NotebookHistory;
  selected: Version | null;
  now: number;
  select: (id: string) => void;
}

function VersionList({ history, selected, now, select }: IVersionListProps): React.JSX.Element {
  return (
    <div className="ownlab-History-list">
      {groupByDay(history.versions, now).map(({ day, versions }) => (
        <section key={day} className="ownlab-Section" aria-label={day}>
          <h3>{day}</h3>
          <ul>
            {versions.map(version => (
              <li key={version.id}>
                <button
                  className="ownlab-History-version"
                  aria-current={version.id === selected?.id}
                  data-version={version.id}
                  onClick={() => select(version.id)}
                >
                  <span className="ownlab-History-time">{describeClock(version.at)}</span>
                  <span className="ownlab-History-what">
                    {version.name && <strong>{version.name}</strong>}
                    <span>{describeReason(version)}</span>
                    <small>{describeChanges(version)}</small>
                  </span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {history.versions.length > 0 && (
        <p className="ownlab-Panel-foot">
          {text('{versions}, {size} on disk', {
            versions: plural(history.versions.length, '1 version', '{n} versions'),
            size: formatBytes(history.bytes)
          })}
        </p>
      )}
    </div>
  );
}

interface IDifferencesProps {
  differences: readonly ICellDifference[];
  model: HistoryModel;
  languages: IEditorLanguageRegistry;
}

function Differences({ differences, model, languages }: IDifferencesProps): React.JSX.Element {
  const root = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    const cell = model.takeTargetCell();
    if (cell !== null) {
      root.current?.querySelector(`[data-cell="${CSS.escape(cell)}"]`)?.scrollIntoView({ block: 'center' });
    }
  });
  if (differences.every(({ change }) => change === 'same')) {
    return <p className="ownlab-Empty ownlab-History-same">{text('The notebook now has the same cells as this version.')}</p>;
  }
  return (
    <div className="ownlab-History-cells" ref={root}>
      {foldSame(differences).map(item =>
        Array.isArray(item) ? (
          <SameCells key={`same-${item[0]?.id}`} cells={item} />
        ) : (
          <ChangedCell key={item.id} cell={item} mimeType={item.type === 'code' ? model.mimeType : MARKDOWN} languages={languages} />
        )
      )}
    </div>
  );
}

/** Put neighbouring unchanged cells into lists. */
function foldSame(differences: readonly ICellDifference[]): (ICellDifference | ICellDifference[])[] {
  const items: (ICellDifference | ICellDifference[])[] = [];
  for (const difference of differences) {
    const last = items.at(-1);
    if (difference.change !== 'same') {
      items.push(difference);
    } else if (Array.isArray(last)) {
      last.push(difference);
    } else {
      items.push([difference]);
    }
  }
  return items;
}

function SameCells({ cells }: { cells: ICellDifference[] }): React.JSX.Element {
  const [open, setOpen] = React.useState(false);
  return (
    <details className="ownlab-History-sameCells" open={open} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{plural(cells.length, '1 unchanged cell', '{n} unchanged cells')}</summary>
      {open && cells.map(({ id, after }) => <pre key={id}>{after}</pre>)}
    </details>
  );
}

function ChangedCell({ cell, mimeType, languages }: { cell: ICellDifference; mimeType: string; languages: IEditorLanguageRegistry }): React.JSX.Element {
  const heading = describeCell(cell);
  const edited = cell.change === 'edited' && cell.before !== cell.after;
  return (
    <section className={`ownlab-History-cell ownlab-mod-${cell.change}`} aria-label={heading} data-cell={cell.id}>
      <h3>{heading}</h3>
      <CellDiff before={edited ? cell.before : null} after={cell.after ?? cell.before ?? ''} mimeType={mimeType} languages={languages} />
    </section>
  );
}

function describeCell({ number, change, type, typeBefore }: ICellDifference): string {
  switch (change) {
    case 'added':
      return text('Cell {number} was added later', { number });
    case 'removed':
      return text('Cell {number} of this version was deleted later', { number });
    case 'moved':
      return text('Cell {number} was moved', { number });
    case 'edited':
    case 'same':
      return typeBefore === null
        ? text('Cell {number} was edited', { number })
        : text('Cell {number} was {before} and is {type}', { number, before: typeBefore, type });
  }
}
