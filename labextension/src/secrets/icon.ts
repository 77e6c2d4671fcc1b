/** A key: secrets. */
import { LabIcon } from '@jupyterlab/ui-components';

export const secretsIcon = new LabIcon({
  name: 'ownlab:secrets',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <circle cx="7.5" cy="12" r="4.5"/>
    <path d="M12 12h9.5v4M17 12v3"/>
  </g>
</svg>`
});
