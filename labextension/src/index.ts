/** ownlab in JupyterLab: the list of its plugins. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ServiceManagerPlugin } from '@jupyterlab/services';
import { attach } from './plugins/attach';
import { colab } from './plugins/colab';
import { connectionLost, connectionNotice, line, ownEnds, reachability, serverSettings } from './plugins/connection';
import { drive } from './plugins/drive';
import { forms } from './plugins/forms';
import { indicator } from './plugins/indicator';
import { packages } from './plugins/packages';
import { panel } from './plugins/panel';
import { proposal } from './plugins/proposal';
import { queue } from './plugins/queue';
import { runtimes } from './plugins/runtimes';
import { secrets } from './plugins/secrets';
import { stream } from './plugins/stream';
import { warnings } from './plugins/warnings';

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
