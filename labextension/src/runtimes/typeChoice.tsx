/** The body of the dialog to choose another runtime type. */
import type { Dialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { formatRate, typeName } from '../formatting';
import type { RuntimeType } from '../records';
import { text, textNodes } from '../text';
import { describeExpectedStart } from '../start/sentences';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface ITypeChoiceOptions {
  live: LiveSnapshot;
  /** Name of the notebook's current type. */
  currentType: string | undefined;
  /** Name of the type that is selected first; undefined: one that is free. */
  selected?: string | undefined;
  /** Id of the runtime that is shut down when the type changes. */
  replacedRuntime: string | undefined;
  /** Describe the consequences; called on each rendering, because the runtime may start meanwhile. */
  describeChange: () => string;
}

export class TypeChoice extends LiveWidget implements Dialog.IBodyWidget<string> {
  constructor(options: ITypeChoiceOptions) {
    super(options.live);
    this._options = options;
    this.addClass('ownlab-TypeChoice');
    const types = this.live.current?.types ?? [];
    const known = types.find(type => type.name === options.selected);
    this._selected = (known ?? types.find(type => this._isFree(type) && type.name !== options.currentType))?.name ?? '';
  }

  /** Called by the dialog: return the name of the selected type, "" if there is none. */
  getValue(): string {
    return this._selected;
  }

  protected render(): React.JSX.Element {
    const types = this.live.current?.types ?? [];
    const environments = [...new Set(types.map(type => type.environment))];
    return (
      <>
        <p>{this._options.describeChange()}</p>
        {environments.map(environment => (
          <fieldset key={environment} className="ownlab-TypeChoice-group">
            <legend>{environment === 'default' ? text('Runtime types') : text('Environment {name}', { name: environment })}</legend>
            {types.filter(type => type.environment === environment).map(type => this._option(type))}
          </fieldset>
        ))}
        <p className="ownlab-TypeChoice-hint">
          {textNodes('Your own environments appear here after {command}.', { command: <code>ownlab env add NAME --python PATH</code> })}
        </p>
      </>
    );
  }

  private _option(type: RuntimeType): React.JSX.Element {
    const isCurrent = type.name === this._options.currentType;
    const free = this._isFree(type);
    return (
      <label key={type.name} className={`ownlab-TypeChoice-option${free ? '' : ' ownlab-mod-taken'}`} title={free ? type.label : type.why_not}>
        <input
          type="radio"
          name="ownlab-type"
          value={type.name}
          checked={type.name === this._selected}
          disabled={isCurrent}
          onChange={() => {
            this._selected = type.name;
            this.update();
          }}
        />
        <span className="ownlab-TypeChoice-name">{typeName(type)}</span>
        <span className="ownlab-TypeChoice-state">
          {isCurrent ? text('current type') : free ? text('free') : this._describeWait(type)}
        </span>
        {type.units_per_hour > 0 && <span className="ownlab-TypeChoice-rate">{formatRate(type.units_per_hour)}</span>}
      </label>
    );
  }

  private _describeWait(type: RuntimeType): string {
    const start = describeExpectedStart(type, this.live.now());
    return start ? text('in use: you would wait in the queue, {start}', { start }) : text('in use: you would wait in the queue');
  }

  private _isFree(type: RuntimeType): boolean {
    return this.live.canStartNow(type, this.live.runtime(this._options.replacedRuntime));
  }

  private readonly _options: ITypeChoiceOptions;
  private _selected: string;
}
