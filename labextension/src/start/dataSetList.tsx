/** The data sets that were used last: where they are, how large, and when they were used. */
import { PathExt } from '@jupyterlab/coreutils';
import * as React from 'react';
import type { ListedDataSet } from '../records';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { describeDataSet } from './sentences';

export interface IDataSetListProps {
  dataSets: readonly ListedDataSet[];
  live: LiveSnapshot;
  show: (dataSet: ListedDataSet) => void;
}

/** Nothing for people without data sets: most notebooks need none. */
export function DataSetList({ dataSets, live, show }: IDataSetListProps): React.JSX.Element | null {
  if (dataSets.length === 0) {
    return null;
  }
  return (
    <section aria-labelledby="ownlab-start-data">
      <h2 id="ownlab-start-data">{text('Data sets')}</h2>
      <ul className="ownlab-Start-list">
        {dataSets.map(dataSet => (
          <li key={dataSet.path}>
            <button className="ownlab-Start-row" title={dataSetTitle(dataSet)} disabled={dataSet.state === 'missing'} onClick={() => show(dataSet)}>
              <span className="ownlab-Start-name">
                <strong>{PathExt.basename(dataSet.path)}</strong>
                {dataSet.kind !== 'staged' && <span className="ownlab-Start-soft"> {text('in {folder}', { folder: folderOf(dataSet) })}</span>}
              </span>
              <span className={`ownlab-Start-soft${dataSet.state === 'complete' ? '' : ' ownlab-mod-warned'}`}>{describeDataSet(dataSet, live.now())}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Below the lab's folder as the file browser shows it, elsewhere from the root on. */
function folderOf({ path, place }: ListedDataSet): string {
  return place === null ? `/${PathExt.dirname(path)}` : PathExt.dirname(place) || text('the lab’s folder');
}

function dataSetTitle({ path, place, source, state }: ListedDataSet): string {
  const from = source ? text('From {source}', { source }) : '';
  const action =
    state === 'missing' ? text('The folder is not there any more.') : place === null ? text('Click to copy the path.') : text('Click to show the folder.');
  return [path, from, action].filter(Boolean).join('\n');
}
