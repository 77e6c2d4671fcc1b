/** The notebooks that come with ownlab. */
import * as React from 'react';
import type { Example } from '../records';
import { text } from '../text';

export function ExampleList({ examples, open }: { examples: readonly Example[]; open: (name: string) => void }): React.JSX.Element {
  return (
    <section aria-labelledby="ownlab-start-examples">
      <h2 id="ownlab-start-examples">{text('Examples')}</h2>
      <ul className="ownlab-Start-list">
        {examples.map(({ name, title, description, minutes }) => (
          <li key={name}>
            <button className="ownlab-Start-row ownlab-mod-line" title={description} onClick={() => open(name)}>
              <span className="ownlab-Start-name">{title}</span>
              <span className="ownlab-Start-soft">{text('{minutes} min', { minutes })}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
