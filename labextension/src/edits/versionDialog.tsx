/** A dialog that compares the text of a cell with another version of it. */
import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { text } from '../text';
import { diffLines, type IDiffLine } from './lineDiff';

export interface IVersions {
  readonly title: string;
  readonly explanation: string;
  readonly now: string;
  readonly other: string;
  readonly keep: string;
  readonly use: string;
}

/** Show both versions. Return whether to use the other one; null: neither button was pressed. */
export async function chooseVersion({ title, explanation, now, other, keep, use }: IVersions): Promise<boolean | null> {
  const body = ReactWidget.create(
    <>
      <p>{explanation}</p>
      <VersionDiff now={now} other={other} />
    </>
  );
  body.addClass('ownlab-Versions');
  const buttons = [Dialog.cancelButton({ label: keep, actions: ['keep'] }), Dialog.okButton({ label: use, actions: ['use'] })];
  const { button } = await showDialog({ title, body, buttons, defaultButton: 0, hasClose: true });
  return button.actions.includes('use') ? true : button.actions.includes('keep') ? false : null;
}

const SIGNS: Record<IDiffLine['kind'], string> = { same: ' ', removed: '−', added: '+' };

function VersionDiff({ now, other }: { now: string; other: string }): React.JSX.Element {
  return (
    <>
      <p className="ownlab-Versions-legend">
        <span className="ownlab-Versions-removed">{text('− only in the cell')}</span>
        <span className="ownlab-Versions-added">{text('+ only in the other version')}</span>
      </p>
      <pre className="ownlab-Versions-diff" tabIndex={0} aria-label={text('Differences between the two versions')}>
        {diffLines(now, other).map((line, index) => (
          <div key={index} className={`ownlab-Versions-${line.kind}`}>
            {`${SIGNS[line.kind]} ${line.text}`}
          </div>
        ))}
      </pre>
    </>
  );
}
