/**
 * The JupyterLab extension of ownlab: the list of its plugins.
 *
 * - language: sentences are in the language of JupyterLab
 * - session: the connection to the server; sockets that reconnect and replay missed messages
 * - notebook: cells show what runs in their kernel, also after a reload, and why it died; they run in their order
 * - cells: run buttons and times, buttons between cells, long outputs, Colab's shortcuts
 * - edits: code is sent as it is typed, and merged with what others change
 * - runtimes: the panel of runtimes and cards, the toolbar indicator, dialogs and notifications
 * - forms: Colab forms; colab: the page's part of google.colab
 * - history: versions of notebooks, and deleted ones
 * - variables: the side panel with a notebook's variables
 * - start: the start page and the product's logo
 * - packages: packages that a notebook needs; secrets: their side panel
 * - files: the files of the runtime and of the drive beside the lab's folder, and how full the disk is
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ServiceManagerPlugin } from '@jupyterlab/services';
import { cells, runStates } from './cells/plugin';
import { colab } from './colab/plugin';
import { edits, editSessions } from './edits/plugin';
import { diskUse, files } from './files/plugin';
import { forms } from './forms/plugin';
import { history } from './history/plugin';
import { afterLanguage, language } from './language';
import { attach, connector, environmentWait, executor, kernelGate, runGates } from './notebook/plugin';
import { pageExtensions } from './packages/pageExtensions';
import { packages } from './packages/plugin';
import { runtimes } from './runtimes/commands';
import { indicator, panel, proposal, queue, stream, warnings } from './runtimes/plugin';
import { secrets } from './secrets/plugin';
import { connectionLost, connectionNotice, journal, ownShutdowns, reachability, serverSettings } from './session/plugin';
import { logo, startPage } from './start/plugin';
import { variables } from './variables/plugin';

/** JupyterLab's services need these before it knows its language. */
const services: ServiceManagerPlugin<unknown>[] = [reachability, ownShutdowns, journal, serverSettings, editSessions];

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  connectionLost,
  connectionNotice,
  stream,
  runStates,
  startPage,
  logo,
  runGates,
  connector,
  kernelGate,
  environmentWait,
  executor,
  attach,
  cells,
  edits,
  colab,
  forms,
  runtimes,
  indicator,
  packages,
  pageExtensions,
  panel,
  secrets,
  files,
  diskUse,
  history,
  variables,
  proposal,
  queue,
  warnings
];

export default [...services, language, ...plugins.map(afterLanguage)];
