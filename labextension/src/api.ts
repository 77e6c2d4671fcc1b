/** All requests to ownlab's routes on the server. */
import { URLExt } from '@jupyterlab/coreutils';
import type * as nbformat from '@jupyterlab/nbformat';
import { type Contents, type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { failureMessage } from './failures';
import type {
  Changes,
  DeletedNotebook,
  DeletedNotebooks,
  DiskUse,
  DoctorReport,
  EnvironmentPlan,
  Environments,
  Failure,
  Form,
  Forms,
  Leftovers,
  NewEnvironment,
  NotebookHistory,
  Patch,
  PlacedNotebook,
  Proposal,
  Proposed,
  RemovablePackages,
  RemovedPackages,
  Secrets,
  Snapshot,
  StartPage,
  Version,
  VersionContent
} from './records';
import { RequestError } from './requestError';
import { pageLanguage } from './text';

const ROOT = 'ownlab/api';

/** An execution of a cell, from the journal. */
export interface IExecution {
  msg_id: string;
  cell: string | null;
  state: 'queued' | 'running' | 'done' | 'aborted' | 'cut';
  queued_at: number;
  request: Pick<KernelMessage.IExecuteRequestMsg, 'header' | 'metadata' | 'content'>;
  /** The kernel's messages during the execution, merged. */
  messages: Pick<KernelMessage.IMessage, 'channel' | 'header' | 'parent_header' | 'metadata' | 'content'>[];
}

/** The death of a kernel, in words. */
export interface IDeath {
  /** Seconds since 1970. */
  at: number;
  /** The cell that was running; null: none was. */
  cell: string | null;
  summary: string;
}

/** What a cell shows about the death of its kernel. */
export interface IDeathNote {
  msg_id: string;
  cell: string | null;
  output: nbformat.IError;
}

/** What a notebook needs to show running cells. */
export interface IAttachment {
  position: number;
  kernel_session: string;
  /** Output widget -> the execution that it captures. */
  capturing: Record<string, string>;
  /** Requests of google.colab that no page has answered. */
  asked: IExecution['messages'];
  /** What cells have installed, as in the message ownlab_packages; {}: nothing new for the page. */
  packages: object;
  /** The last death of the kernel, if no cell was executed since. */
  death: IDeath | null;
  /** The kernel has died, and a cell was executed since. */
  ran_since_death: boolean;
  executions: IExecution[];
}

/** Fetch what runs, and what has changed after a position; null: the kernel is not a runtime of ownlab. */
export async function fetchAttachment(settings: ServerConnection.ISettings, id: string, after: number): Promise<IAttachment | null> {
  const response = await request(settings, `runtimes/${encodeURIComponent(id)}/attach?after=${after}`, {});
  return response.status === 404 ? null : ((await parseResponse(response)) as IAttachment);
}

/** Fetch a snapshot; null: this server was not started by `ownlab up` and has no such route. */
export async function fetchSnapshot(settings: ServerConnection.ISettings): Promise<Snapshot | null> {
  const response = await request(settings, 'snapshot', {});
  if (response.status === 404) {
    return null;
  }
  return (await parseResponse(response)) as Snapshot;
}

/** Begin to stop a runtime; `deleteContent`: its /content is removed when it has ended. */
export async function stopRuntime(settings: ServerConnection.ISettings, id: string, { deleteContent = false } = {}): Promise<void> {
  await post(settings, `${runtimePath(id)}/stop`, { delete_content: deleteContent });
}

/** Open a terminal on the node of a runtime; return its name. */
export async function openNodeTerminal(settings: ServerConnection.ISettings, id: string): Promise<string> {
  return ((await post(settings, `${runtimePath(id)}/terminal`, {})) as { name: string }).name;
}

/** Return what would be deleted with a runtime. */
export async function fetchLeftovers(settings: ServerConnection.ISettings, id: string): Promise<Leftovers> {
  return (await parseResponse(await request(settings, `${runtimePath(id)}/leftovers`, {}))) as Leftovers;
}

/** Packages that a notebook has installed in the environment of a runtime type. */
export interface IInstalledPackages {
  type: string;
  pip: readonly string[];
}

/** Return which packages a factory reset would uninstall. */
export async function fetchRemovable(settings: ServerConnection.ISettings, packages: IInstalledPackages): Promise<RemovablePackages> {
  return (await post(settings, 'packages/removable', packages)) as RemovablePackages;
}

/** Uninstall packages, unless others need them. */
export async function removePackages(settings: ServerConnection.ISettings, packages: IInstalledPackages): Promise<RemovedPackages> {
  return (await post(settings, 'packages/remove', packages)) as RemovedPackages;
}

export async function extendRuntime(settings: ServerConnection.ISettings, id: string): Promise<void> {
  await parseResponse(await request(settings, `runtimes/${encodeURIComponent(id)}/extend`, { method: 'POST', body: '{}' }));
}

/** Parse the forms of cells, in order; null: this server has no such route. `view` is a cell's metadata.cellView. */
export async function fetchForms(
  settings: ServerConnection.ISettings,
  cells: readonly { source: string; view: string | null }[]
): Promise<readonly (Form | null)[] | null> {
  const response = await request(settings, 'forms', { method: 'POST', body: JSON.stringify({ cells }) });
  return response.status === 404 ? null : ((await parseResponse(response)) as Forms).forms;
}

/** A file that google.colab offers to the user. */
export interface IFileInfo {
  name: string;
  size: number;
  /** Its path in JupyterLab; null if it is outside the lab's folder. */
  contents: string | null;
}

/** Whether a secret exists, and whether a runtime's notebook may read it. */
export interface ISecretAccess {
  there: boolean;
  granted: boolean;
}

/** Upload a part of a file into a folder of a runtime, and return the path of the file. */
export async function uploadChunk(
  settings: ServerConnection.ISettings,
  id: string,
  { folder, number, offset }: { folder: string; number: number; offset: number },
  chunk: Blob
): Promise<string> {
  const query = URLExt.objectToQueryString({ folder, number, offset });
  const headers = { 'Content-Type': 'application/octet-stream' };
  const response = await request(settings, `${runtimePath(id)}/uploads${query}`, { method: 'PUT', body: chunk, headers });
  return ((await parseResponse(response)) as { path: string }).path;
}

/** Return information about a file of a runtime; throws if it cannot be read. */
export async function fetchFileInfo(settings: ServerConnection.ISettings, id: string, path: string): Promise<IFileInfo> {
  return (await parseResponse(await request(settings, `${runtimePath(id)}/files${URLExt.objectToQueryString({ path })}`, {}))) as IFileInfo;
}

/** Return the URL from which the browser downloads a file. */
export function downloadUrl(settings: ServerConnection.ISettings, id: string, path: string): string {
  const xsrf = /(?:^|; ?)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  const token = settings.appendToken && settings.token ? { token: settings.token } : {};
  const query = URLExt.objectToQueryString({ path, ...(xsrf ? { _xsrf: xsrf } : {}), ...token });
  return URLExt.join(settings.baseUrl, ROOT, `${runtimePath(id)}/download`) + query;
}

export async function fetchSecretAccess(settings: ServerConnection.ISettings, id: string, key: string): Promise<ISecretAccess> {
  return (await parseResponse(await request(settings, `${runtimePath(id)}/secrets${URLExt.objectToQueryString({ key })}`, {}))) as ISecretAccess;
}

/** Let a runtime's notebook read a secret; if there is a value, set it first. */
export async function grantSecret(settings: ServerConnection.ISettings, id: string, key: string, value: string | null): Promise<ISecretAccess> {
  const body = JSON.stringify({ key, value });
  return (await parseResponse(await request(settings, `${runtimePath(id)}/secrets`, { method: 'POST', body }))) as ISecretAccess;
}

/** Return whether a runtime's kernel is in Colab mode. */
export async function fetchColabMode(settings: ServerConnection.ISettings, id: string): Promise<boolean> {
  const response = await request(settings, `${runtimePath(id)}/colab`, {});
  return response.status === 404 ? false : ((await parseResponse(response)) as { colab: boolean }).colab;
}

/** Return how full the disk with the lab's folder is; null: this server has no such route. */
export async function fetchDiskUse(settings: ServerConnection.ISettings): Promise<DiskUse | null> {
  const response = await request(settings, 'disk', {});
  return response.status === 404 ? null : ((await parseResponse(response)) as DiskUse);
}

/** Return the widgets and renderers of environments that a page would have if it were loaded now. */
export async function fetchPageExtensions(settings: ServerConnection.ISettings): Promise<{ name: string; version: string }[]> {
  const response = await request(settings, 'page-extensions', {});
  return ((await parseResponse(response)) as { extensions: { name: string; version: string }[] }).extensions;
}

/** Return another runtime type for which a notebook was written; null: it names none, or already has it. */
export async function fetchProposal(
  settings: ServerConnection.ISettings,
  asked: { metadata: object; runtime: string; type: string }
): Promise<Proposal | null> {
  const response = await request(settings, 'proposal', { method: 'POST', body: JSON.stringify(asked) });
  return response.status === 404 ? null : ((await parseResponse(response)) as Proposed).proposal;
}

/** Fetch the user's secrets without their values, optionally after a change. `notebook`: the current one, or "". */
export async function fetchSecrets(
  settings: ServerConnection.ISettings,
  notebook: string,
  change: SecretsChange = { method: 'GET' }
): Promise<Secrets> {
  const removed = change.method === 'DELETE' ? { name: change.name } : {};
  const init = change.method === 'POST' || change.method === 'PUT' ? { method: change.method, body: JSON.stringify(change.body) } : change;
  const query = URLExt.objectToQueryString({ notebook, ...removed });
  return (await parseResponse(await request(settings, `secrets${query}`, init))) as Secrets;
}

/** Add a secret or replace its value; grant or revoke access; remove it. */
export type SecretsChange =
  | { method: 'GET' }
  | { method: 'POST'; body: { name: string; value: string; replace: boolean } }
  | { method: 'PUT'; body: { name: string; notebook: string; granted: boolean } }
  | { method: 'DELETE'; name: string };

/** Fetch the environments, with the progress of builds; null: this server has no such route. */
export async function fetchEnvironments(settings: ServerConnection.ISettings): Promise<Environments | null> {
  const response = await request(settings, 'environments', {});
  return response.status === 404 ? null : ((await parseResponse(response)) as Environments);
}

/** Start to build an environment; with a name alone, continue a build that did not end well. */
export async function createEnvironment(settings: ServerConnection.ISettings, asked: Partial<NewEnvironment>): Promise<Environments> {
  return (await parseResponse(await request(settings, 'environments', { method: 'POST', body: JSON.stringify(asked) }))) as Environments;
}

/** Return what an environment would need, and how large that is. Takes seconds. */
export async function planEnvironment(settings: ServerConnection.ISettings, asked: Partial<NewEnvironment>): Promise<EnvironmentPlan> {
  return (await parseResponse(await request(settings, 'environment-plan', { method: 'POST', body: JSON.stringify(asked) }))) as EnvironmentPlan;
}

/** Stop a build; what was downloaded is kept. */
export async function cancelEnvironment(settings: ServerConnection.ISettings, name: string): Promise<Environments> {
  return (await parseResponse(await request(settings, `environments/${encodeURIComponent(name)}/cancel`, { method: 'POST', body: '{}' }))) as Environments;
}

/** Remove an environment: the files of one that ownlab created are deleted, others are only taken from the list. */
export async function removeEnvironment(settings: ServerConnection.ISettings, name: string): Promise<Environments> {
  return (await parseResponse(await request(settings, `environments/${encodeURIComponent(name)}`, { method: 'DELETE' }))) as Environments;
}

/** Fetch the versions of a notebook, newest first. */
export async function fetchHistory(settings: ServerConnection.ISettings, notebook: string): Promise<NotebookHistory> {
  return (await parseResponse(await request(settings, `notebooks/history${URLExt.objectToQueryString({ notebook })}`, {}))) as NotebookHistory;
}

/** Fetch a version with its notebook. */
export async function fetchVersion(settings: ServerConnection.ISettings, notebook: string, version: string): Promise<VersionContent> {
  const query = URLExt.objectToQueryString({ notebook, version });
  return (await parseResponse(await request(settings, `notebooks/history${query}`, {}))) as VersionContent;
}

/** Put a version in place of a notebook, and return its history. */
export async function restoreVersion(settings: ServerConnection.ISettings, notebook: string, version: string): Promise<NotebookHistory> {
  return (await post(settings, 'notebooks/history/restore', { notebook, version })) as NotebookHistory;
}

/** Name a version, or (without one) the notebook as it is now. */
export async function nameVersion(
  settings: ServerConnection.ISettings,
  notebook: string,
  version: string | null,
  name: string | null
): Promise<Version> {
  return (await post(settings, 'notebooks/history/name', { notebook, version, name })) as Version;
}

/** Remove a version, and return the history. */
export async function purgeVersion(settings: ServerConnection.ISettings, notebook: string, version: string): Promise<NotebookHistory> {
  return (await post(settings, 'notebooks/history/purge', { notebook, version })) as NotebookHistory;
}

/** Fetch the notebooks of this lab that were deleted and can be restored. */
export async function fetchDeleted(settings: ServerConnection.ISettings): Promise<readonly DeletedNotebook[]> {
  return ((await parseResponse(await request(settings, 'notebooks/deleted', {}))) as DeletedNotebooks).notebooks;
}

/** Restore a deleted notebook, and return its path. */
export async function restoreDeleted(settings: ServerConnection.ISettings, id: string): Promise<string> {
  return ((await post(settings, 'notebooks/deleted', { id })) as { path: string }).path;
}

/** Fetch what the start page shows; null: this server has no such route. */
export async function fetchStartPage(settings: ServerConnection.ISettings): Promise<StartPage | null> {
  const response = await request(settings, 'start', {});
  return response.status === 404 ? null : ((await parseResponse(response)) as StartPage);
}

/** Fetch the doctor's report; `again`: of a new examination, which takes seconds. */
export async function fetchDoctorReport(settings: ServerConnection.ISettings, again: boolean): Promise<DoctorReport> {
  return (await parseResponse(await request(settings, `doctor${again ? '?again=1' : ''}`, {}))) as DoctorReport;
}

/** Download the notebook at an address into a folder of the lab. */
export async function openAddress(settings: ServerConnection.ISettings, address: string, folder: string): Promise<PlacedNotebook> {
  return (await post(settings, 'notebooks/open', { address, folder })) as PlacedNotebook;
}

/** Copy an example into the lab's folder, unless it is there, and return its path. */
export async function openExample(settings: ServerConnection.ISettings, name: string): Promise<string> {
  return ((await post(settings, 'examples', { name })) as PlacedNotebook).path;
}

/** A notebook from the server; `version`: of the edits that it contains, null if the server stores none. */
export interface ILoadedContents {
  model: Contents.IModel;
  version: number | null;
}

/** Fetch a file as JupyterLab does. `endpoint`: the drive's contents API. */
export async function fetchContents(
  settings: ServerConnection.ISettings,
  endpoint: string,
  path: string,
  options: Contents.IFetchOptions = {}
): Promise<ILoadedContents> {
  const { contentProviderId: _, content, hash, format, ...others } = options;
  // The notebook type cannot take a format.
  const formats = format && options.type !== 'notebook' ? { format } : {};
  const query = URLExt.objectToQueryString({ ...others, ...formats, content: content ? '1' : '0', hash: hash ? '1' : '0' });
  const url = URLExt.join(settings.baseUrl, endpoint, URLExt.encodeParts(path)) + query;
  const response = await ServerConnection.makeRequest(url, {}, settings);
  if (response.status !== 200) {
    throw await ServerConnection.ResponseError.create(response);
  }
  const version = response.headers.get('X-Ownlab-Version');
  return { model: (await response.json()) as Contents.IModel, version: version === null ? null : Number(version) };
}

const DAMAGED_STATUS = 422;

/** Return whether the server has the file of a notebook, but it is damaged. */
export function isDamage(reason: unknown): reason is ServerConnection.ResponseError {
  return reason instanceof ServerConnection.ResponseError && reason.response.status === DAMAGED_STATUS;
}

/** A request with a larger body cannot outlive its page. */
const MAX_KEEPALIVE_BYTES = 30_000;

/** Send edits of a notebook. The request is completed even if the page is closed meanwhile, unless it is large. */
export async function sendEdits(settings: ServerConnection.ISettings, patch: Patch): Promise<Changes> {
  const body = JSON.stringify(patch);
  const keepalive = 3 * body.length < MAX_KEEPALIVE_BYTES || new Blob([body]).size < MAX_KEEPALIVE_BYTES;
  return (await parseEdits(await request(settings, 'notebooks/edits', { method: 'POST', body, keepalive }))) as Changes;
}

/** Fetch what has changed in a notebook after a version. */
export async function fetchEdits(settings: ServerConnection.ISettings, notebook: string, version: number): Promise<Changes> {
  return (await parseEdits(await request(settings, `notebooks/edits${URLExt.objectToQueryString({ notebook, version })}`, {}))) as Changes;
}

/** Write the file of a notebook, with all edits. */
export async function writeNotebook(settings: ServerConnection.ISettings, notebook: string): Promise<Contents.IModel> {
  const init = { method: 'POST', body: JSON.stringify({ notebook }) };
  return (await parseResponse(await request(settings, 'notebooks/write', init))) as Contents.IModel;
}

/** Dismiss the mark of a recovered cell. */
export async function dismissRecovered(settings: ServerConnection.ISettings, notebook: string, cell: string): Promise<void> {
  await parseResponse(await request(settings, 'notebooks/recovered', { method: 'POST', body: JSON.stringify({ notebook, cell }) }));
}

/** Open the stream of new versions of notebooks. */
export function openChanges(settings: ServerConnection.ISettings): WebSocket {
  return openSocket(settings, 'notebooks/changes');
}

/** Open the stream of snapshots. */
export function openStream(settings: ServerConnection.ISettings): WebSocket {
  return openSocket(settings, 'stream');
}

/** Open a socket with the same authentication as JupyterLab's. */
function openSocket(settings: ServerConnection.ISettings, path: string): WebSocket {
  const token = settings.appendToken && settings.token ? { token: settings.token } : {};
  // The browser states its own language, and offers no way to state another one.
  const query = URLExt.objectToQueryString({ language: pageLanguage(), ...token });
  return new settings.WebSocket(URLExt.join(settings.wsUrl, ROOT, path) + query);
}

async function post(settings: ServerConnection.ISettings, path: string, body: object): Promise<unknown> {
  return parseResponse(await request(settings, path, { method: 'POST', body: JSON.stringify(body) }));
}

function runtimePath(id: string): string {
  return `runtimes/${encodeURIComponent(id)}`;
}

function request(settings: ServerConnection.ISettings, path: string, init: RequestInit): Promise<Response> {
  return ServerConnection.makeRequest(URLExt.join(settings.baseUrl, ROOT, path), init, settings);
}

/** Return the document, or throw a RequestError whoever has answered. */
async function parseEdits(response: Response): Promise<unknown> {
  try {
    return await parseResponse(response);
  } catch (reason) {
    throw reason instanceof ServerConnection.ResponseError ? new RequestError(response.status, reason.message) : reason;
  }
}

/** Return the document, or throw the error that the server reports. */
async function parseResponse(response: Response): Promise<unknown> {
  if (response.ok) {
    return response.json();
  }
  const document: unknown = await response
    .clone()
    .json()
    .catch(() => null); // not ours: the page of a proxy
  if (isFailure(document)) {
    throw new RequestError(response.status, failureMessage(document));
  }
  throw await ServerConnection.ResponseError.create(response);
}

/** Return whether a document of a response or of the stream reports a failure. */
export function isFailure(document: unknown): document is Failure {
  return typeof document === 'object' && document !== null && 'error' in document;
}
