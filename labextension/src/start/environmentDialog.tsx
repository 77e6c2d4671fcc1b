/** The dialog that asks for the name and the packages of a new environment. */
import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';
import type { NewEnvironment } from '../records';
import { text } from '../text';

const NAME = /^[a-z0-9][a-z0-9-]{0,39}$/;

interface IAsked {
  name: string;
  packages: readonly string[];
}

/** Return what to create; null if the person changed their mind. `taken`: names that exist. */
export async function askForEnvironment(taken: readonly string[]): Promise<Partial<NewEnvironment> | null> {
  let asked: IAsked = { name: '', packages: [] };
  let problem = '';
  for (;;) {
    const { button, value } = await showDialog({
      title: text('Add an Environment'),
      body: new EnvironmentForm(asked, problem),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: text('Continue') })],
      focusNodeSelector: 'input'
    });
    if (!button.accept || !value) {
      return null;
    }
    asked = value;
    problem = findProblem(asked, taken);
    if (!problem) {
      return asked;
    }
  }
}

function findProblem({ name, packages }: IAsked, taken: readonly string[]): string {
  if (!NAME.test(name)) {
    return text('A name has lower-case letters, digits and hyphens.');
  }
  if (taken.includes(name)) {
    return text('There is an environment named {name} already.', { name });
  }
  return packages.length === 0 ? text('Name at least one package.') : '';
}

class EnvironmentForm extends ReactWidget {
  constructor(
    private _asked: IAsked,
    private readonly _problem: string
  ) {
    super();
    this.addClass('ownlab-EnvironmentForm');
  }

  /** Called by the dialog. */
  getValue(): IAsked {
    return this._asked;
  }

  protected override render(): React.JSX.Element {
    return (
      <>
        {this._problem && (
          <p className="ownlab-Notice ownlab-mod-failure" role="alert">
            {this._problem}
          </p>
        )}
        <label>
          {text('Name')}
          <input
            className="jp-mod-styled"
            defaultValue={this._asked.name}
            placeholder="vision"
            spellCheck={false}
            onChange={event => (this._asked = { ...this._asked, name: event.target.value.trim() })}
          />
        </label>
        <label>
          {text('Packages, as pip names them')}
          <input
            className="jp-mod-styled"
            defaultValue={this._asked.packages.join(' ')}
            placeholder="torch torchvision timm==1.0.11"
            spellCheck={false}
            onChange={event => (this._asked = { ...this._asked, packages: event.target.value.split(/[\s,]+/).filter(Boolean) })}
          />
        </label>
        <p className="ownlab-Start-soft">{text('An environment that you already have: ownlab env add NAME --python PATH')}</p>
      </>
    );
  }
}
