/** A card with a figure that rises: runtimes and what they use. */
import { LabIcon } from '@jupyterlab/ui-components';

export const runtimesIcon = new LabIcon({
  name: 'ownlab:runtimes',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <rect x="2.5" y="5.5" width="19" height="13" rx="2"/>
    <path d="M7 18.5v3M11 18.5v3M15 18.5v3"/>
    <path d="M6 14.5l3.2-3.6 3 2.4L18 8.8" stroke-width="1.6"/>
  </g>
</svg>`
});
