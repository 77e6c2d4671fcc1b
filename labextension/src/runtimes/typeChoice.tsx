/** The body of the dialog in which another runtime type is chosen. */
import type { Dialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { rate, typeName } from '../formatting';
import type { RuntimeType } from '../records';
import { type LiveSnapshot, LiveWidget } from './liveSnapshot';

export interface ITypeChoiceOptions {
  live: LiveSnapshot;
  /** Name of the type that the notebook has now. */
  present: string | undefined;
  /** Id of the runtime that ends when the type is changed. */
  ends: string | undefined;
  /** What changing means, in words; asked at each drawing, as the runtime may start meanwhile. */
  about: () => string;
}

export class TypeChoice extends LiveWidget implements Dialog.IBodyWidget<string> {
  constructor(options: ITypeChoiceOptions) {
    super(options.live);
    this._options = options;
    this.addClass('ownlab-TypeChoice');
    const types = this.live.current?.types ?? [];
    this._chosen = types.find(type => this._isFree(type) && type.name !== options.present)?.name ?? '';
  }

  /** Called by the dialog: the name of the chosen type, "" where there is none. */
  getValue(): string {
    return this._chosen;
  }

  protected render(): React.JSX.Element {
    const types = this.live.current?.types ?? [];
    const environments = [...new Set(types.map(type => type.environment))];
    return (
      <>
        <p>{this._options.about()}</p>
        {environments.map(environment => (
          <fieldset key={environment} className="ownlab-TypeChoice-group">
            <legend>{environment === 'default' ? 'Runtime types' : `Environment ${environment}`}</legend>
            {types.filter(type => type.environment === environment).map(type => this._option(type))}
          </fieldset>
        ))}
        <p className="ownlab-TypeChoice-hint">
          Your own environments appear here after <code>ownlab env add NAME --python PATH</code>.
        </p>
      </>
    );
  }

  private _option(type: RuntimeType): React.JSX.Element {
    const present = type.name === this._options.present;
    const free = this._isFree(type);
    return (
      <label key={type.name} className={`ownlab-TypeChoice-option${free ? '' : ' ownlab-mod-taken'}`} title={free ? type.label : type.why_not}>
        <input
          type="radio"
          name="ownlab-type"
          value={type.name}
          checked={type.name === this._chosen}
          disabled={present}
          onChange={() => {
            this._chosen = type.name;
            this.update();
          }}
        />
        <span className="ownlab-TypeChoice-name">{typeName(type)}</span>
        <span className="ownlab-TypeChoice-state">{present ? 'the present one' : free ? 'free' : 'taken: you would wait in the queue'}</span>
        {type.units_per_hour > 0 && <span className="ownlab-TypeChoice-rate">{rate(type.units_per_hour)}</span>}
      </label>
    );
  }

  private _isFree(type: RuntimeType): boolean {
    return this.live.startsAtOnce(type, this.live.runtime(this._options.ends));
  }

  private readonly _options: ITypeChoiceOptions;
  private _chosen: string;
}
