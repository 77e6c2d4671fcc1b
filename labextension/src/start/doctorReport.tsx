/** The doctor's report in a tab of its own: the verdict, and each finding with its evidence and its fix. */
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';
import { doctorIcon } from '../icons';
import type { DoctorReport, ReportedFinding } from '../records';
import { text } from '../text';
import { describeAgo } from './sentences';
import type { StartModel } from './startModel';

export class DoctorPanel extends ReactWidget {
  constructor(private readonly _model: StartModel) {
    super();
    this.addClass('ownlab-Doctor');
    this.title.icon = doctorIcon;
    this.title.label = text('This machine');
    if (!_model.report) {
      void _model.examine(false);
    }
  }

  protected override render(): React.JSX.Element {
    return <UseSignal signal={this._model.changed}>{() => <Report model={this._model} />}</UseSignal>;
  }
}

function Report({ model }: { model: StartModel }): React.JSX.Element {
  const { report, examining, doctorFailure } = model;
  return (
    <div className="ownlab-Doctor-page">
      <div className="ownlab-Doctor-head">
        <h1>{text('This machine')}</h1>
        <button className="ownlab-Start-button" disabled={examining} onClick={() => void model.examine(true)}>
          {examining ? text('Examining…') : text('Examine again')}
        </button>
      </div>
      {doctorFailure && (
        <p className="ownlab-Notice ownlab-mod-failure" role="alert">
          {doctorFailure}
        </p>
      )}
      {report ? <Findings report={report} /> : !doctorFailure && <p className="ownlab-Start-soft">{text('This machine is being examined.')}</p>}
    </div>
  );
}

function Findings({ report }: { report: DoctorReport }): React.JSX.Element {
  const { environment, python } = report;
  const when = describeAgo(report.checked_at, Date.now() / 1000);
  // A machine without a card is not a broken one.
  const dot = report.findings.some(({ code }) => code === 'no-accelerator') ? 'cpu' : report.gpu_work;
  return (
    <>
      <p className="ownlab-Doctor-verdict">
        <span className={`ownlab-Start-dot ownlab-mod-${dot}`} aria-hidden="true" />
        {report.sentence}
      </p>
      <p className="ownlab-Start-soft">
        {text('Examined {when} with the environment {environment}: {python}', { when, environment, python })}
      </p>
      {report.findings.length === 0 && <p>{text('The doctor found nothing to fix.')}</p>}
      {report.findings.map((finding, number) => (
        <Finding key={number} finding={finding} />
      ))}
    </>
  );
}

function severityName(severity: ReportedFinding['severity']): string {
  switch (severity) {
    case 'error':
      return text('Error');
    case 'warning':
      return text('Warning');
    case 'note':
      return text('Note');
  }
}

function Finding({ finding }: { finding: ReportedFinding }): React.JSX.Element {
  const { code, severity, title, evidence, meaning, fix } = finding;
  return (
    <section className={`ownlab-Doctor-finding ownlab-mod-${severity}`} aria-label={title}>
      <h2>
        <span className="ownlab-Doctor-severity">{severityName(severity)}</span>
        {title}
      </h2>
      <p>{meaning}</p>
      <ul className="ownlab-Start-soft" aria-label={text('Evidence')}>
        {evidence.map((fact, number) => (
          <li key={number}>{fact}</li>
        ))}
      </ul>
      {fix.length > 0 && <pre aria-label={text('How to fix it')}>{fix.join('\n')}</pre>}
      <p className="ownlab-Start-soft">{text('More about it: ownlab doctor --explain {code}', { code })}</p>
    </section>
  );
}
