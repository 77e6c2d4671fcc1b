/** All requests to ownlab's routes on the server. */
import { URLExt } from '@jupyterlab/coreutils';
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';
import { failureMessage } from './failures';
import type { Failure, Form, Forms, Proposal, Proposed, Secrets, Snapshot } from './records';

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

export async function stopRuntime(settings: ServerConnection.ISettings, id: string): Promise<void> {
  await parseResponse(await request(settings, `runtimes/${encodeURIComponent(id)}/stop`, { method: 'POST', body: '{}' }));
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

/** Open the stream of snapshots, with the same authentication as JupyterLab's sockets. */
export function openStream(settings: ServerConnection.ISettings): WebSocket {
  let url = URLExt.join(settings.wsUrl, ROOT, 'stream');
  if (settings.appendToken && settings.token) {
    url += `?token=${encodeURIComponent(settings.token)}`;
  }
  return new settings.WebSocket(url);
}

function runtimePath(id: string): string {
  return `runtimes/${encodeURIComponent(id)}`;
}

function request(settings: ServerConnection.ISettings, path: string, init: RequestInit): Promise<Response> {
  return ServerConnection.makeRequest(URLExt.join(settings.baseUrl, ROOT, path), init, settings);
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
    throw new Error(failureMessage(document));
  }
  throw await ServerConnection.ResponseError.create(response);
}

/** Return whether a document of a response or of the stream reports a failure. */
export function isFailure(document: unknown): document is Failure {
  return typeof document === 'object' && document !== null && 'error' in document;
}
