/** The environments in which notebooks can run: what is in them, whether they work, and how far a build is. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { formatBytes, formatPercent } from '../formatting';
import type { EnvironmentState } from '../records';
import { sentences, text } from '../text';
import { askForEnvironment } from './environmentDialog';
import type { EnvironmentsModel, IOffer } from './environmentsModel';
import { describeEnvironment, namePackages } from './environmentSentences';

export function EnvironmentList({ model }: { model: EnvironmentsModel }): React.JSX.Element | null {
  const { current, deepLearning, failure, offer } = model;
  if (!current) {
    return null;
  }
  const add = async (): Promise<void> => {
    const request = await askForEnvironment(current.environments.map(each => each.name));
    if (request) {
      await model.propose(request);
    }
  };
  return (
    <section aria-labelledby="ownlab-start-environments">
      <h2 id="ownlab-start-environments">{text('Environments')}</h2>
      {failure && (
        <p className="ownlab-Notice ownlab-mod-failure" role="alert">
          {failure}
        </p>
      )}
      <ul className="ownlab-Start-list">
        {current.environments.map(environment => (
          <Row key={environment.name} environment={environment} model={model} />
        ))}
        {offer && <Offer offer={offer} model={model} />}
        {!offer && deepLearning && (
          <li>
            <button className="ownlab-Start-row" onClick={() => void model.proposeDeepLearning()}>
              <span className="ownlab-Start-name ownlab-mod-link">{text('Set up deep learning')}</span>
              <span className="ownlab-Start-soft">{namePackages(deepLearning)}</span>
            </button>
          </li>
        )}
        {!offer && (
          <li>
            <button className="ownlab-Start-row" onClick={() => void add()}>
              <span className="ownlab-Start-name ownlab-mod-link">{text('Add an environment')}</span>
            </button>
          </li>
        )}
      </ul>
    </section>
  );
}

/** What will be created and how large it is, before it is. */
function Offer({ offer, model }: { offer: IOffer; model: EnvironmentsModel }): React.JSX.Element {
  const { plan, failure } = offer;
  const name = offer.request.name ?? offer.request.preset ?? '';
  const size = plan?.download_bytes ?? null;
  return (
    <li className="ownlab-Environment" role="group" aria-label={text('New environment {name}', { name })}>
      <strong>{name}</strong>
      {!plan && !failure && <p role="status">{text('Finding out what it needs…')}</p>}
      {failure && (
        <p className="ownlab-Notice ownlab-mod-failure" role="alert">
          {failure}
        </p>
      )}
      {plan && (
        <>
          <p role="status">
            {size === null
              ? text('{n} packages for Python {python}; their size is not known.', { n: plan.packages.length, python: plan.python })
              : text('{n} packages for Python {python}; up to {size} to download.', { n: plan.packages.length, python: plan.python, size: formatBytes(size) })}
          </p>
          {plan.notes.map((note, number) => (
            <p key={number} className="ownlab-Start-soft">
              {note}
            </p>
          ))}
        </>
      )}
      <p className="ownlab-Environment-buttons">
        {plan && (
          <button className="ownlab-Button ownlab-mod-accept" onClick={() => void model.accept()}>
            {text('Create')}
          </button>
        )}
        <button className="ownlab-Button" onClick={() => model.withdraw()}>
          {text('Cancel')}
        </button>
      </p>
    </li>
  );
}

/** Words, and indented commands to copy. */
function Hint({ hint }: { hint: string }): React.JSX.Element {
  const lines = hint.split('\n');
  return <>{lines.map((line, number) => (/^ {4}/.test(line) ? <pre key={number}>{line.trim()}</pre> : <p key={number}>{line}</p>))}</>;
}

function Row({ environment, model }: { environment: EnvironmentState; model: EnvironmentsModel }): React.JSX.Element {
  const { name, status, progress, error, hint, notes, proven } = environment;
  const running = status === 'building' || status === 'updating';
  const stopped = status === 'failed' || status === 'cancelled' || status === 'interrupted';
  return (
    <li className="ownlab-Environment" aria-label={name} title={[environment.python, ...notes].filter(Boolean).join('\n')}>
      <div className="ownlab-Environment-head">
        <span className="ownlab-Start-name">{name}</span>
        {name !== 'default' && !running && (
          <button className="ownlab-Button" aria-label={text('Remove the environment {name}', { name })} onClick={() => void confirmRemoval(environment, model)}>
            {text('Remove')}
          </button>
        )}
        {stopped && (
          <button className="ownlab-Button ownlab-mod-accept" onClick={() => void model.resume(environment)}>
            {status === 'failed' ? text('Try again') : text('Continue')}
          </button>
        )}
        {status === 'building' && (
          <button className="ownlab-Button" aria-label={text('Cancel building {name}', { name })} onClick={() => void model.cancel(environment)}>
            {text('Cancel')}
          </button>
        )}
      </div>
      <span className={`ownlab-Start-soft${proven === false ? ' ownlab-mod-warned' : ''}`} role={running ? 'status' : undefined}>
        {describeEnvironment(environment)}
      </span>
      {running && progress && (
        <div className="ownlab-Environment-progress">
          <progress aria-label={progress.message} max={1} {...(progress.fraction === null ? {} : { value: progress.fraction })} />
          {progress.fraction !== null && (
            <span className="ownlab-Start-soft">{formatPercent(100 * progress.fraction)}</span>
          )}
        </div>
      )}
      {status === 'failed' && error && (
        <p className="ownlab-Notice ownlab-mod-failure" role="alert">
          {error}
        </p>
      )}
      {status === 'failed' && hint && <Hint hint={hint} />}
      {status !== 'ready' && notes.map((note, number) => (
        <p key={number} className="ownlab-Start-soft">
          {note}
        </p>
      ))}
    </li>
  );
}

async function confirmRemoval(environment: EnvironmentState, model: EnvironmentsModel): Promise<void> {
  const { name, created, size_bytes } = environment;
  const loss = !created
    ? text('It is taken from the list. Its files stay where they are.')
    : size_bytes === null
      ? text('Its files are deleted.')
      : text('Its files are deleted: {size}.', { size: formatBytes(size_bytes) });
  const { button } = await showDialog({
    title: text('Remove the environment {name}?', { name }),
    body: sentences(loss, text('Notebooks are kept.'), created ? text('What was downloaded stays in the cache of uv, until `uv cache clean`.') : ''),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Remove') })]
  });
  if (button.accept) {
    await model.remove(environment);
  }
}
