/** Tiles that create a notebook, one for each runtime type of an environment. */
import * as React from 'react';
import type { RuntimeType } from '../records';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { describeAvailability, tileName } from './sentences';
import { preferredType } from './typeOrder';

export interface INewNotebookProps {
  live: LiveSnapshot;
  environment: string;
  setEnvironment: (environment: string) => void;
  /** Create a notebook; without a type, of the server's default one. */
  create: (type: string | undefined) => void;
}

export function NewNotebook({ live, environment, setEnvironment, create }: INewNotebookProps): React.JSX.Element {
  const snapshot = live.current;
  const environments = [...new Set(snapshot?.types.map(type => type.environment))];
  const chosen = environments.includes(environment) ? environment : (environments[0] ?? '');
  const types = snapshot?.types.filter(type => type.environment === chosen) ?? [];
  const first = preferredType(types);
  // The CPU, which is always there, comes last.
  const others = [...types.filter(type => type.kind !== null), ...types.filter(type => type.kind === null)].filter(type => type !== first);
  const state = (type: RuntimeType): string =>
    snapshot ? describeAvailability(type, snapshot, (kind, replaced) => live.canStartNow(kind, replaced)) : '';
  return (
    <section aria-label={text('New notebook')}>
      {environments.length > 1 && (
        <label className="ownlab-Start-environment">
          {text('New notebook in')}{' '}
          <select className="jp-mod-styled" value={chosen} onChange={event => setEnvironment(event.target.value)}>
            {environments.map(name => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <div className="ownlab-Tiles">
        <Tile
          primary
          name={text('New notebook')}
          state={
            first ? (
              <span className="ownlab-Tile-parts">
                <span>{tileName(first)}</span>
                <span>{state(first)}</span>
              </span>
            ) : (
              text('on the CPU')
            )
          }
          type={first}
          create={create}
        />
        {others.map(type => (
          <Tile key={type.name} name={tileName(type)} state={state(type)} type={type} create={create} />
        ))}
        {!snapshot && !live.failure && [1, 2, 3].map(number => <div key={number} className="ownlab-Tile ownlab-mod-empty" aria-hidden="true" />)}
      </div>
    </section>
  );
}

interface ITileProps {
  name: string;
  state: React.ReactNode;
  type: RuntimeType | undefined;
  create: (type: string | undefined) => void;
  primary?: boolean;
}

function Tile({ name, state, type, create, primary = false }: ITileProps): React.JSX.Element {
  const taken = type !== undefined && !type.free;
  const classes = ['ownlab-Tile', ...(primary ? ['ownlab-mod-primary'] : []), ...(taken ? ['ownlab-mod-taken'] : [])];
  return (
    <button className={classes.join(' ')} data-type={type?.name} title={type?.why_not || type?.label} onClick={() => create(type?.name)}>
      <strong>{name}</strong>
      <span className="ownlab-Start-soft">{state}</span>
    </button>
  );
}
