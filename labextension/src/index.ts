/**
 * The JupyterLab extension of ownlab: the list of its plugins.
 *
 * - session: the connection to the server; sockets that reconnect and replay missed messages
 * - notebook: cells show what runs in their kernel, also after a reload
 * - runtimes: the panel of runtimes and cards, the toolbar indicator, dialogs and notifications
 * - forms: Colab forms; colab: the page's part of google.colab
 * - packages: packages that a notebook needs; secrets and drive: their side panels
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ServiceManagerPlugin } from '@jupyterlab/services';
import { colab } from './colab/plugin';
import { drive } from './drive/plugin';
import { forms } from './forms/plugin';
import { attach } from './notebook/plugin';
import { packages } from './packages/plugin';
import { runtimes } from './runtimes/commands';
import { indicator, panel, proposal, queue, stream, warnings } from './runtimes/plugin';
import { secrets } from './secrets/plugin';
import { connectionLost, connectionNotice, journal, ownShutdowns, reachability, serverSettings } from './session/plugin';

const plugins: (JupyterFrontEndPlugin<unknown> | ServiceManagerPlugin<unknown>)[] = [
  reachability,
  ownShutdowns,
  journal,
  serverSettings,
  connectionLost,
  connectionNotice,
  stream,
  attach,
  colab,
  forms,
  runtimes,
  indicator,
  packages,
  panel,
  secrets,
  drive,
  proposal,
  queue,
  warnings
];

export default plugins;
