/** The side panel with the variables of the current notebook. */
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { formatBytes } from '../formatting';
import { variablesIcon } from '../icons';
import { dateLocale, plural, text } from '../text';
import type { IVariable, VariablesModel } from './variablesModel';

export class VariablesPanel extends ReactWidget {
  constructor(private readonly _model: VariablesModel) {
    super();
    this.id = 'ownlab-variables';
    this.addClass('ownlab-Panel');
    this.title.icon = variablesIcon;
    this.title.caption = text('Variables');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', text('Variables'));
    _model.changed.connect(() => this.update());
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._model.setVisible(true);
  }

  protected override onBeforeHide(message: Message): void {
    super.onBeforeHide(message);
    this._model.setVisible(false);
  }

  protected render(): React.JSX.Element {
    const { variables, total, state } = this._model;
    return (
      <div className="ownlab-Panel-scroll ownlab-Variables">
        <h2 className="ownlab-Panel-title">{text('Variables')}</h2>
        <p className="ownlab-Empty" role="status">
          {describeState(this._model)}
        </p>
        {variables.length > 0 && <VariableList variables={variables} stale={state === 'waiting'} />}
        {total > variables.length && (
          <p className="ownlab-Empty">{text('{count} more variables are not listed.', { count: total - variables.length })}</p>
        )}
      </div>
    );
  }
}

function describeState({ state, variables }: VariablesModel): string {
  switch (state) {
    case 'no-kernel':
      return text('The current notebook is not connected to a runtime.');
    case 'unsupported':
      return text('This kernel cannot list its variables: it is not a Python runtime of ownlab.');
    case 'waiting':
      return variables.length > 0
        ? text('A cell is running. These are the variables before it.')
        : text('The variables are listed when no cell is running.');
    case 'current':
      return variables.length === 0 ? text('No variables yet.') : '';
  }
}

function VariableList({ variables, stale }: { variables: readonly IVariable[]; stale: boolean }): React.JSX.Element {
  const [filter, setFilter] = React.useState('');
  const [bySize, setBySize] = React.useState(false);
  const words = filter.trim().toLowerCase();
  const shown = variables.filter(({ name, type }) => name.toLowerCase().includes(words) || type.toLowerCase().includes(words));
  const rows = bySize ? [...shown].sort((first, second) => (second.bytes ?? 0) - (first.bytes ?? 0)) : shown;
  return (
    <>
      <div className="ownlab-Variables-tools">
        <input
          className="jp-mod-styled"
          type="search"
          placeholder={text('Filter')}
          aria-label={text('Filter by name or type')}
          value={filter}
          onChange={({ target }) => setFilter(target.value)}
        />
        <button className="ownlab-Button" aria-pressed={bySize} onClick={() => setBySize(!bySize)}>
          {bySize ? text('By name') : text('By size')}
        </button>
      </div>
      <table className={stale ? 'ownlab-mod-stale' : ''} aria-label={text('Variables')}>
        <thead>
          <tr>
            <th>{text('Name')}</th>
            <th>{text('Type')}</th>
            <th>{text('Value')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(variable => (
            <VariableRow key={variable.name} variable={variable} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function VariableRow({ variable }: { variable: IVariable }): React.JSX.Element {
  const { name, type, dtype, device, value, bytes } = variable;
  const size = describeSize(variable);
  const memory = bytes === undefined ? '' : formatBytes(bytes);
  return (
    <tr>
      <td className="ownlab-Variables-name" title={name}>
        {name}
      </td>
      <td>
        <div>{type}</div>
        {size && <div className="ownlab-Variables-size">{size}</div>}
      </td>
      <td title={[value, memory].filter(Boolean).join('\n')}>
        {(dtype || device) && <div className="ownlab-Variables-size">{[dtype, device].filter(Boolean).join(' · ')}</div>}
        {value ? <div className="ownlab-Variables-value">{value}</div> : memory && <div className="ownlab-Variables-size">{memory}</div>}
      </td>
    </tr>
  );
}

/** "3 × 224 × 224", "12 items", "1,234 parameters". */
function describeSize({ shape, length, parameters, type }: IVariable): string {
  if (shape) {
    return shape.length === 0 ? text('scalar') : shape.join(' × ');
  }
  if (parameters !== undefined) {
    return text('{count} parameters', { count: parameters.toLocaleString(dateLocale()) });
  }
  if (length === undefined) {
    return '';
  }
  if (type === 'str') {
    return plural(length, '{n} character', '{n} characters');
  }
  return type === 'bytes' || type === 'bytearray' ? plural(length, '{n} byte', '{n} bytes') : plural(length, '{n} item', '{n} items');
}
