/** Terminals, consoles, text files, and what other extensions add to the launcher. */
import { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import type { LauncherItems } from './launcherItems';
import type { IStartActions } from './startActions';

export interface IOtherItemsProps {
  live: LiveSnapshot;
  items: LauncherItems;
  environment: string;
  actions: IStartActions;
}

export function OtherItems({ live, items, environment, actions }: IOtherItemsProps): React.JSX.Element | null {
  const types = live.current?.types ?? [];
  const console = types.find(type => type.kind === null && type.environment === environment) ?? types[0];
  const others = items.others(new Set(types.map(type => type.name)), console?.name).map(item => ({ item, ...actions.describeItem(item) }));
  const visible = others.filter(({ label }) => label);
  return visible.length === 0 ? null : (
    <section aria-labelledby="ownlab-start-other">
      <h2 id="ownlab-start-other">{text('Other')}</h2>
      <ul className="ownlab-Start-chips">
        {visible.map(({ item, label, caption, icon }, number) => (
          <li key={number}>
            <button className="ownlab-Start-chip" title={caption} onClick={() => actions.launch(item)}>
              {item.kernelIconUrl && item.args?.kernelName ? (
                <img src={item.kernelIconUrl} alt="" />
              ) : (
                <LabIcon.resolveReact icon={icon} stylesheet="menuItem" tag="span" />
              )}
              {label}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
