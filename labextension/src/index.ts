/** ownlab in JupyterLab: the list of its plugins. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ServiceManagerPlugin } from '@jupyterlab/services';
import { colab } from './colab/plugin';
import { drive } from './drive/plugin';
import { forms } from './forms/plugin';
import { attach } from './notebook/plugin';
import { packages } from './packages/plugin';
import { runtimes } from './runtimes/commands';
import { warnings } from './runtimes/limitNotices';
import { indicator, panel, proposal, stream } from './runtimes/plugin';
import { queue } from './runtimes/queueDialog';
import { secrets } from './secrets/plugin';
import { connectionLost, connectionNotice, line, ownEnds, reachability, serverSettings } from './session/plugin';

const plugins: (JupyterFrontEndPlugin<unknown> | ServiceManagerPlugin<unknown>)[] = [
  reachability,
  ownEnds,
  line,
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
