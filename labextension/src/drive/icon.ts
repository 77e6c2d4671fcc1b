/** A disk: the drive. */
import { LabIcon } from '@jupyterlab/ui-components';

export const driveIcon = new LabIcon({
  name: 'ownlab:drive',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <path d="M6 4.5h12l3.5 9.5v4a2 2 0 0 1-2 2h-15a2 2 0 0 1-2-2v-4z"/>
    <path d="M2.5 14h19M17 17h1"/>
  </g>
</svg>`
});
