/** The icons of the side panels. */
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

export const secretsIcon = new LabIcon({
  name: 'ownlab:secrets',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <circle cx="7.5" cy="12" r="4.5"/>
    <path d="M12 12h9.5v4M17 12v3"/>
  </g>
</svg>`
});

export const driveIcon = new LabIcon({
  name: 'ownlab:drive',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <path d="M6 4.5h12l3.5 9.5v4a2 2 0 0 1-2 2h-15a2 2 0 0 1-2-2v-4z"/>
    <path d="M2.5 14h19M17 17h1"/>
  </g>
</svg>`
});
