/** The dialog that lists deleted notebooks and restores them. */
import { Dialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { ServerConnection } from '@jupyterlab/services';
import * as React from 'react';
import { fetchDeleted, restoreDeleted } from '../api';
import { errorMessage } from '../failures';
import type { DeletedNotebook } from '../records';
import { text } from '../text';
import { describeMoment } from './versionTimes';

/** Show the dialog. Return the path of the notebook that was restored; null if none was. */
export async function showDeletedDialog(settings: ServerConnection.ISettings): Promise<string | null> {
  const notebooks = await fetchDeleted(settings);
  let restored: string | null = null;
  const dialog = new Dialog({
    title: text('Deleted notebooks'),
    body: ReactWidget.create(
      <DeletedList
        notebooks={notebooks}
        restore={async id => {
          restored = await restoreDeleted(settings, id);
          dialog.resolve();
        }}
      />
    ),
    buttons: [Dialog.cancelButton({ label: text('Close') })]
  });
  await dialog.launch();
  return restored;
}

interface IDeletedListProps {
  notebooks: readonly DeletedNotebook[];
  restore: (id: string) => Promise<void>;
}

function DeletedList({ notebooks, restore }: IDeletedListProps): React.JSX.Element {
  const [busy, setBusy] = React.useState(false);
  const [failure, setFailure] = React.useState('');
  const now = Date.now() / 1000;
  const onRestore = async (id: string): Promise<void> => {
    setBusy(true);
    try {
      await restore(id);
    } catch (reason) {
      setFailure(errorMessage(reason));
      setBusy(false);
    }
  };
  return (
    <div className="ownlab-Deleted">
      {failure && (
        <p className="ownlab-Notice ownlab-mod-failure" role="alert">
          {failure}
        </p>
      )}
      {notebooks.length === 0 && <p>{text('No deleted notebook of this lab can be restored.')}</p>}
      <ul>
        {notebooks.map(({ id, path, deleted_at }) => (
          <li key={id}>
            <span className="ownlab-Deleted-path" title={path}>
              {path}
            </span>
            <span className="ownlab-Deleted-time">{describeMoment(deleted_at, now)}</span>
            <button
              className="ownlab-Button"
              disabled={busy}
              aria-label={text('Restore {notebook}', { notebook: path })}
              onClick={() => void onRestore(id)}
            >
              {text('Restore')}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
