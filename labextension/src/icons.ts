/** The icons of the panels, and of the product. */
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

export const notebookHistoryIcon = new LabIcon({
  name: 'ownlab:history',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <path d="M4 5v4.5h4.5"/>
    <path d="M4.6 9.5A8.5 8.5 0 1 1 3.5 13"/>
    <path d="M12 7.5V12l3 2.5"/>
  </g>
</svg>`
});

export const variablesIcon = new LabIcon({
  name: 'ownlab:variables',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <path d="M8 4.5C5 4.5 5.5 7 5.5 9S5 12 3 12c2 0 2.5 1 2.5 3S5 19.5 8 19.5"/>
    <path d="M16 4.5c3 0 2.5 2.5 2.5 4.5S19 12 21 12c-2 0-2.5 1-2.5 3s.5 4.5-2.5 4.5"/>
    <path d="M9.8 9.5l4.4 5M14.2 9.5l-4.4 5"/>
  </g>
</svg>`
});

/** A rounded square with a hole, so that it fits light and dark themes. */
export const ownlabIcon = new LabIcon({
  name: 'ownlab:logo',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path fill="#0b8ba3" fill-rule="evenodd" d="M7.5 1h9A6.5 6.5 0 0 1 23 7.5v9a6.5 6.5 0 0 1-6.5 6.5h-9A6.5 6.5 0 0 1 1 16.5v-9A6.5 6.5 0 0 1 7.5 1zM9.3 7A2.3 2.3 0 0 0 7 9.3v5.4A2.3 2.3 0 0 0 9.3 17h5.4a2.3 2.3 0 0 0 2.3-2.3V9.3A2.3 2.3 0 0 0 14.7 7z"/>
</svg>`
});

export const doctorIcon = new LabIcon({
  name: 'ownlab:doctor',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" style="fill: none" stroke="#616161" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
    <path d="M3 12h4l2.5-6 4 12 2.5-6h5"/>
  </g>
</svg>`
});
