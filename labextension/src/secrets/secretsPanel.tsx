/** The side panel with the user's secrets and the notebooks that may read them. Values can be set but not shown. */
import { deleteIcon, editIcon, type LabIcon, ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { notebookName } from '../formatting';
import { secretsIcon } from '../icons';
import type { Secret, Secrets } from '../records';
import { sentences, text, textNodes } from '../text';
import type { SecretsModel } from './secretsModel';

/** How often a visible panel is refreshed: cells and terminals change secrets, too. */
const REFRESH_MS = 10_000;

export class SecretsPanel extends ReactWidget {
  constructor(
    private readonly _model: SecretsModel,
    private readonly _remove: (secret: Secret) => void
  ) {
    super();
    this.id = 'ownlab-secrets';
    this.addClass('ownlab-Panel');
    this.title.icon = secretsIcon;
    this.title.caption = text('Secrets');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', text('Secrets'));
    this.node.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single-key shortcuts must not apply here
    _model.changed.connect(() => this.isVisible && this.update());
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this._model.refresh();
    this._timer = window.setInterval(() => !document.hidden && void this._model.refresh(), REFRESH_MS);
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    window.clearInterval(this._timer);
  }

  protected render(): React.JSX.Element {
    const { current, failure } = this._model;
    return (
      <div className="ownlab-Panel-scroll">
        <h2 className="ownlab-Panel-title">{text('Secrets')}</h2>
        <p className="ownlab-Secrets-about">
          {textNodes('{first} {second}', {
            first: sentences(text('Tokens and passwords, stored outside of notebooks.'), text('Values are never shown here.')),
            second: textNodes('In a cell, read one with {call} from {module}.', {
              call: <code>userdata.get('NAME')</code>,
              module: <code>google.colab</code>
            })
          })}
        </p>
        {failure && (
          <p className="ownlab-Notice ownlab-mod-failure" role="alert">
            {failure}
          </p>
        )}
        <section className="ownlab-Section" aria-label={text('Your secrets')}>
          {current && <p className="ownlab-Empty">{heading(current)}</p>}
          {current?.secrets.map(secret => (
            <SecretRow key={secret.name} secret={secret} notebook={current.notebook} model={this._model} remove={() => this._remove(secret)} />
          ))}
        </section>
        <AddSecretForm model={this._model} />
      </div>
    );
  }

  private _timer = 0;
}

interface ISecretRowProps {
  secret: Secret;
  /** The current notebook, as it is named in grants. */
  notebook: string | null;
  model: SecretsModel;
  remove: () => void;
}

function SecretRow({ secret, notebook, model, remove }: ISecretRowProps): React.JSX.Element {
  const [replacing, setReplacing] = React.useState(false);
  const granted = notebook !== null && secret.notebooks.includes(notebook);
  return (
    <article className="ownlab-Secret" aria-label={secret.name}>
      <div className="ownlab-Secret-head">
        <label className="ownlab-Secret-access" title={notebook ? access(granted, notebook) : text('Open a notebook to grant it access')}>
          <input
            type="checkbox"
            role="switch"
            aria-label={text('Access of this notebook to {name}', { name: secret.name })}
            checked={granted}
            disabled={notebook === null}
            onChange={() => notebook && void model.grant(secret, notebook, !granted)}
          />
          <code>{secret.name}</code>
        </label>
        <span className="ownlab-Runtime-buttons">
          <IconButton icon={editIcon} label={text('Replace the value of {name}', { name: secret.name })} onClick={() => setReplacing(!replacing)} />
          <IconButton icon={deleteIcon} label={text('Remove {name}', { name: secret.name })} onClick={remove} />
        </span>
      </div>
      {replacing && <ReplaceValueForm secret={secret} model={model} close={() => setReplacing(false)} />}
      <OtherNotebooks secret={secret} notebook={notebook} model={model} />
    </article>
  );
}

function heading({ secrets, notebook }: Secrets): string {
  if (secrets.length === 0) {
    return text('No secrets yet.');
  }
  return notebook ? text('Secrets that {notebook} may read:', { notebook: notebookName(notebook) }) : text('Open a notebook to grant it access.');
}

function IconButton({ icon, label, onClick }: { icon: LabIcon; label: string; onClick: () => void }): React.JSX.Element {
  return (
    <button className="ownlab-Button ownlab-mod-icon" aria-label={label} title={label} onClick={onClick}>
      <icon.react tag="span" />
    </button>
  );
}

function access(granted: boolean, notebook: string): string {
  const name = notebookName(notebook);
  return granted ? text('{notebook} may read this secret', { notebook: name }) : text('{notebook} may not read this secret', { notebook: name });
}

/** The other notebooks that may read a secret. */
function OtherNotebooks({ secret, notebook, model }: Omit<ISecretRowProps, 'remove'>): React.JSX.Element | null {
  const others = secret.notebooks.filter(other => other !== notebook);
  if (others.length === 0) {
    return null;
  }
  return (
    <ul className="ownlab-Secret-others" aria-label={text('Notebooks that may read {name}', { name: secret.name })}>
      {others.map(other => (
        <li key={other} title={other}>
          <span>{notebookName(other)}</span>
          <button
            className="ownlab-Button ownlab-mod-danger"
            aria-label={text('Revoke the access of {notebook} to {name}', { name: secret.name, notebook: notebookName(other) })}
            onClick={() => void model.grant(secret, other, false)}
          >
            {text('Revoke')}
          </button>
        </li>
      ))}
    </ul>
  );
}

function ReplaceValueForm({ secret, model, close }: { secret: Secret; model: SecretsModel; close: () => void }): React.JSX.Element {
  const [value, setValue] = React.useState('');
  const save = async (): Promise<void> => {
    if (value && (await model.replace(secret, value))) {
      close();
    }
  };
  return (
    <form className="ownlab-Secret-form" onSubmit={event => void onSubmit(event, save)}>
      <ValueInput label={text('New value of {name}', { name: secret.name })} value={value} set={setValue} focus />
      <button className="ownlab-Button" type="submit" disabled={!value}>
        {text('Save')}
      </button>
      <button className="ownlab-Button" type="button" onClick={close}>
        {text('Cancel')}
      </button>
    </form>
  );
}

function AddSecretForm({ model }: { model: SecretsModel }): React.JSX.Element {
  const [name, setName] = React.useState('');
  const [value, setValue] = React.useState('');
  const add = async (): Promise<void> => {
    if (await model.add(name.trim(), value)) {
      setName('');
      setValue('');
    }
  };
  return (
    <form className="ownlab-Secret-form ownlab-mod-adding" aria-label={text('New secret')} onSubmit={event => void onSubmit(event, add)}>
      <input
        className="jp-mod-styled"
        aria-label={text('Name')}
        placeholder={text('Name')}
        autoComplete="off"
        spellCheck={false}
        value={name}
        onChange={event => setName(event.target.value)}
      />
      <ValueInput label={text('Value')} value={value} set={setValue} />
      <button className="ownlab-Button" type="submit" disabled={!name.trim() || !value}>
        {text('Add secret')}
      </button>
    </form>
  );
}

interface IValueInputProps {
  label: string;
  value: string;
  set: (value: string) => void;
  focus?: boolean;
}

/** "new-password" keeps browsers from filling in or saving the value. */
function ValueInput({ label, value, set, focus }: IValueInputProps): React.JSX.Element {
  return (
    <input
      className="jp-mod-styled"
      type="password"
      autoComplete="new-password"
      aria-label={label}
      placeholder={focus ? text('New value') : label}
      value={value}
      autoFocus={focus}
      onChange={event => set(event.target.value)}
    />
  );
}

function onSubmit(event: React.FormEvent, work: () => Promise<void>): Promise<void> {
  event.preventDefault();
  return work();
}
