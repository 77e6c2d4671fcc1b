/** The notebooks that were used last, and what happened to them. */
import { PathExt } from '@jupyterlab/coreutils';
import * as React from 'react';
import type { RecentNotebook } from '../records';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { describeRecent } from './sentences';
import type { StartModel } from './startModel';

export interface IRecentListProps {
  model: StartModel;
  live: LiveSnapshot;
  open: (path: string) => void;
}

export function RecentList({ model, live, open }: IRecentListProps): React.JSX.Element {
  const notebooks = model.page?.recent;
  return (
    <section aria-labelledby="ownlab-start-recent">
      <h2 id="ownlab-start-recent">{text('Recent')}</h2>
      {notebooks?.length === 0 && (
        <p className="ownlab-Start-soft">{text('There are no notebooks in this folder yet. Create one above, or open an example.')}</p>
      )}
      <ul className="ownlab-Start-list">
        {notebooks?.map(notebook => (
          <Row key={notebook.path} notebook={notebook} live={live} open={open} />
        ))}
      </ul>
    </section>
  );
}

function Row({ notebook, live, open }: { notebook: RecentNotebook; live: LiveSnapshot; open: (path: string) => void }): React.JSX.Element {
  const { path, file } = notebook;
  const runtime = live.current?.runtimes.find(each => each.notebook === file);
  const folder = PathExt.dirname(path);
  const died = notebook.died_at !== null && !runtime?.busy;
  return (
    <li>
      <button className="ownlab-Start-row" title={path} onClick={() => open(path)}>
        <span className="ownlab-Start-name">
          <strong>{PathExt.basename(path)}</strong>
          {folder && <span className="ownlab-Start-soft"> {text('in {folder}', { folder })}</span>}
        </span>
        <span className={`ownlab-Start-soft${died ? ' ownlab-mod-warned' : ''}`}>{describeRecent(notebook, runtime, live.now())}</span>
      </button>
    </li>
  );
}
