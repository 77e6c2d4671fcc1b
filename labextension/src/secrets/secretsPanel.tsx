/** The side panel with the person's secrets: who may have which, and values that can be written and never read. */
import { deleteIcon, editIcon, type LabIcon, ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { notebookName } from '../formatting';
import { secretsIcon } from '../icons';
import type { Secret, Secrets } from '../records';
import type { SecretsModel } from './secretsModel';

/** How often a panel that is seen asks what there is: a cell or a terminal may have changed it. */
const EVERY = 10_000;

export class SecretsPanel extends ReactWidget {
  constructor(
    private readonly _model: SecretsModel,
    private readonly _remove: (secret: Secret) => void
  ) {
    super();
    this.id = 'ownlab-secrets';
    this.addClass('ownlab-Panel');
    this.title.icon = secretsIcon;
    this.title.caption = 'Secrets';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Secrets');
    this.node.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single keys are not for what is typed here
    _model.changed.connect(() => this.isVisible && this.update());
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this._model.refresh();
    this._timer = window.setInterval(() => !document.hidden && void this._model.refresh(), EVERY);
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    window.clearInterval(this._timer);
  }

  protected render(): React.JSX.Element {
    const { current, failure } = this._model;
    return (
      <div className="ownlab-Panel-scroll">
        <h2 className="ownlab-Panel-title">Secrets</h2>
        <p className="ownlab-Secrets-about">
          Tokens and passwords, kept outside of notebooks. In a cell: <code>userdata.get('NAME')</code>, from <code>google.colab</code>.
          Values are never shown here.
        </p>
        {failure && (
          <p className="ownlab-Notice ownlab-mod-failure" role="alert">
            {failure}
          </p>
        )}
        <section className="ownlab-Section" aria-label="Your secrets">
          {current && <p className="ownlab-Empty">{heading(current)}</p>}
          {current?.secrets.map(one => (
            <Row key={one.name} secret={one} notebook={current.notebook} model={this._model} remove={() => this._remove(one)} />
          ))}
        </section>
        <Adding model={this._model} />
      </div>
    );
  }

  private _timer = 0;
}

interface IRowProps {
  secret: Secret;
  /** The notebook in front, as grants name it. */
  notebook: string | null;
  model: SecretsModel;
  remove: () => void;
}

function Row({ secret, notebook, model, remove }: IRowProps): React.JSX.Element {
  const [replacing, setReplacing] = React.useState(false);
  const granted = notebook !== null && secret.notebooks.includes(notebook);
  return (
    <article className="ownlab-Secret" aria-label={secret.name}>
      <div className="ownlab-Secret-head">
        <label className="ownlab-Secret-access" title={notebook ? access(granted, notebook) : 'Open a notebook to grant it'}>
          <input
            type="checkbox"
            role="switch"
            aria-label={`Access of this notebook to ${secret.name}`}
            checked={granted}
            disabled={notebook === null}
            onChange={() => notebook && void model.grant(secret, notebook, !granted)}
          />
          <code>{secret.name}</code>
        </label>
        <span className="ownlab-Runtime-buttons">
          <IconButton icon={editIcon} label={`Replace the value of ${secret.name}`} onClick={() => setReplacing(!replacing)} />
          <IconButton icon={deleteIcon} label={`Remove ${secret.name}`} onClick={remove} />
        </span>
      </div>
      {replacing && <Replacing secret={secret} model={model} close={() => setReplacing(false)} />}
      <Grants secret={secret} notebook={notebook} model={model} />
    </article>
  );
}

function heading({ secrets, notebook }: Secrets): string {
  if (secrets.length === 0) {
    return 'None yet.';
  }
  return notebook ? `Which of them ${notebookName(notebook)} may read:` : 'Open a notebook to grant them to it.';
}

function IconButton({ icon, label, onClick }: { icon: LabIcon; label: string; onClick: () => void }): React.JSX.Element {
  return (
    <button className="ownlab-Button ownlab-mod-icon" aria-label={label} title={label} onClick={onClick}>
      <icon.react tag="span" />
    </button>
  );
}

function access(granted: boolean, notebook: string): string {
  return `${notebookName(notebook)} ${granted ? 'may' : 'may not'} read it`;
}

/** The other notebooks that may have it. */
function Grants({ secret, notebook, model }: Omit<IRowProps, 'remove'>): React.JSX.Element | null {
  const others = secret.notebooks.filter(one => one !== notebook);
  if (others.length === 0) {
    return null;
  }
  return (
    <ul className="ownlab-Secret-others" aria-label={`Notebooks that may read ${secret.name}`}>
      {others.map(one => (
        <li key={one} title={one}>
          <span>{notebookName(one)}</span>
          <button
            className="ownlab-Button ownlab-mod-danger"
            aria-label={`Take ${secret.name} from ${notebookName(one)}`}
            onClick={() => void model.grant(secret, one, false)}
          >
            Revoke
          </button>
        </li>
      ))}
    </ul>
  );
}

function Replacing({ secret, model, close }: { secret: Secret; model: SecretsModel; close: () => void }): React.JSX.Element {
  const [value, setValue] = React.useState('');
  const save = async (): Promise<void> => {
    if (value && (await model.replace(secret, value))) {
      close();
    }
  };
  return (
    <form className="ownlab-Secret-form" onSubmit={event => void submitted(event, save)}>
      <Value label={`New value of ${secret.name}`} value={value} set={setValue} focus />
      <button className="ownlab-Button" type="submit" disabled={!value}>
        Save
      </button>
      <button className="ownlab-Button" type="button" onClick={close}>
        Cancel
      </button>
    </form>
  );
}

function Adding({ model }: { model: SecretsModel }): React.JSX.Element {
  const [name, setName] = React.useState('');
  const [value, setValue] = React.useState('');
  const add = async (): Promise<void> => {
    if (await model.add(name.trim(), value)) {
      setName('');
      setValue('');
    }
  };
  return (
    <form className="ownlab-Secret-form ownlab-mod-adding" aria-label="A new secret" onSubmit={event => void submitted(event, add)}>
      <input
        className="jp-mod-styled"
        aria-label="Name"
        placeholder="Name"
        autoComplete="off"
        spellCheck={false}
        value={name}
        onChange={event => setName(event.target.value)}
      />
      <Value label="Value" value={value} set={setValue} />
      <button className="ownlab-Button" type="submit" disabled={!name.trim() || !value}>
        Add secret
      </button>
    </form>
  );
}

interface IValueProps {
  label: string;
  value: string;
  set: (value: string) => void;
  focus?: boolean;
}

/** "new-password": browsers neither fill it in nor offer to keep it. */
function Value({ label, value, set, focus }: IValueProps): React.JSX.Element {
  return (
    <input
      className="jp-mod-styled"
      type="password"
      autoComplete="new-password"
      aria-label={label}
      placeholder={focus ? 'New value' : label}
      value={value}
      autoFocus={focus}
      onChange={event => set(event.target.value)}
    />
  );
}

function submitted(event: React.FormEvent, work: () => Promise<void>): Promise<void> {
  event.preventDefault();
  return work();
}
