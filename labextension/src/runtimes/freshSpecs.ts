/** JupyterLab asks for kernelspecs once a minute. The types of a new environment are in the next snapshot: ask at once. */
import type { KernelSpec } from '@jupyterlab/services';
import type { LiveSnapshot } from './liveSnapshot';

export function keepSpecsFresh(kernelspecs: KernelSpec.IManager, live: LiveSnapshot): void {
  let asked = '';
  live.changed.connect(() => {
    const { specs } = kernelspecs;
    const unknown = live.current?.types.filter(({ name }) => specs && !specs.kernelspecs[name]).map(({ name }) => name) ?? [];
    const wanted = unknown.join(' ');
    if (wanted !== asked) {
      asked = wanted; // once: a type that the server does not list is not asked for with every snapshot
      if (wanted) {
        void kernelspecs.refreshSpecs().catch(() => undefined); // the next poll of JupyterLab tries again
      }
    }
  });
}
