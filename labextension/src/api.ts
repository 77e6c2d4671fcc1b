/** Everything that the page asks of the server's own routes. */
import { URLExt } from '@jupyterlab/coreutils';
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';
import type { Failure, Form, Forms, Proposal, Proposed, Secrets, Snapshot } from './records';

const ROOT = 'ownlab/api';

/** An execution of a cell, from its journal. */
export interface IExecution {
  msg_id: string;
  cell: string | null;
  state: 'queued' | 'running' | 'done' | 'aborted' | 'cut';
  queued_at: number;
  request: Pick<KernelMessage.IExecuteRequestMsg, 'header' | 'metadata' | 'content'>;
  /** What the kernel said in it, in as few words as possible. */
  messages: Pick<KernelMessage.IMessage, 'channel' | 'header' | 'parent_header' | 'metadata' | 'content'>[];
}

/** What a page needs to go on showing cells that run. */
export interface IAttachment {
  position: number;
  kernel_session: string;
  /** Output widget -> the execution whose outputs it takes. */
  capturing: Record<string, string>;
  /** What google.colab asks of a page, and nobody has answered. */
  asked: IExecution['messages'];
  /** What cells have installed, as the message ownlab_packages says it; {}: nothing that the page does not know. */
  packages: object;
  executions: IExecution[];
}

/** What runs, and what changed after a number; null: that kernel is none of ours. */
export async function fetchAttachment(settings: ServerConnection.ISettings, id: string, after: number): Promise<IAttachment | null> {
  const response = await request(settings, `runtimes/${encodeURIComponent(id)}/attach?after=${after}`, {});
  return response.status === 404 ? null : ((await answer(response)) as IAttachment);
}

/** null: this server has no such route; it was not started by `ownlab up`. */
export async function fetchSnapshot(settings: ServerConnection.ISettings): Promise<Snapshot | null> {
  const response = await request(settings, 'snapshot', {});
  if (response.status === 404) {
    return null;
  }
  return (await answer(response)) as Snapshot;
}

export async function stopRuntime(settings: ServerConnection.ISettings, id: string): Promise<void> {
  await answer(await request(settings, `runtimes/${encodeURIComponent(id)}/stop`, { method: 'POST', body: '{}' }));
}

export async function extendRuntime(settings: ServerConnection.ISettings, id: string): Promise<void> {
  await answer(await request(settings, `runtimes/${encodeURIComponent(id)}/extend`, { method: 'POST', body: '{}' }));
}

/** What forms cells have, in their order; null: this server has no such route. `view`: a cell's metadata.cellView. */
export async function fetchForms(
  settings: ServerConnection.ISettings,
  cells: readonly { source: string; view: string | null }[]
): Promise<readonly (Form | null)[] | null> {
  const response = await request(settings, 'forms', { method: 'POST', body: JSON.stringify({ cells }) });
  return response.status === 404 ? null : ((await answer(response)) as Forms).forms;
}

/** A file that google.colab gives to the person. */
export interface IPlace {
  name: string;
  size: number;
  /** Its path for JupyterLab, where it is in the lab's folder. */
  contents: string | null;
}

/** Whether there is a secret, and a runtime's notebook may have it. */
export interface IAccess {
  there: boolean;
  granted: boolean;
}

/** Send a part of a file into a folder of a runtime; the file's path there. */
export async function sendPiece(
  settings: ServerConnection.ISettings,
  id: string,
  { folder, number, offset }: { folder: string; number: number; offset: number },
  piece: Blob
): Promise<string> {
  const query = URLExt.objectToQueryString({ folder, number, offset });
  const headers = { 'Content-Type': 'application/octet-stream' };
  const response = await request(settings, `${runtimeAt(id)}/uploads${query}`, { method: 'PUT', body: piece, headers });
  return ((await answer(response)) as { path: string }).path;
}

/** What a file is; an Error where it cannot be had. */
export async function fetchPlace(settings: ServerConnection.ISettings, id: string, path: string): Promise<IPlace> {
  return (await answer(await request(settings, `${runtimeAt(id)}/files${URLExt.objectToQueryString({ path })}`, {}))) as IPlace;
}

/** From where the browser itself downloads a file. */
export function downloadAddress(settings: ServerConnection.ISettings, id: string, path: string): string {
  const xsrf = /(?:^|; ?)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  const token = settings.appendToken && settings.token ? { token: settings.token } : {};
  const query = URLExt.objectToQueryString({ path, ...(xsrf ? { _xsrf: xsrf } : {}), ...token });
  return URLExt.join(settings.baseUrl, ROOT, `${runtimeAt(id)}/download`) + query;
}

export async function fetchAccess(settings: ServerConnection.ISettings, id: string, key: string): Promise<IAccess> {
  return (await answer(await request(settings, `${runtimeAt(id)}/secrets${URLExt.objectToQueryString({ key })}`, {}))) as IAccess;
}

/** Let a runtime's notebook have a secret; with a value it is set before. */
export async function grantSecret(settings: ServerConnection.ISettings, id: string, key: string, value: string | null): Promise<IAccess> {
  const body = JSON.stringify({ key, value });
  return (await answer(await request(settings, `${runtimeAt(id)}/secrets`, { method: 'POST', body }))) as IAccess;
}

/** Whether a runtime's kernel is like Colab's. */
export async function fetchColabMode(settings: ServerConnection.ISettings, id: string): Promise<boolean> {
  const response = await request(settings, `${runtimeAt(id)}/colab`, {});
  return response.status === 404 ? false : ((await answer(response)) as { colab: boolean }).colab;
}

/** What a notebook on a runtime type was made for; null: it is on the right one, or does not say. */
export async function fetchProposal(
  settings: ServerConnection.ISettings,
  asked: { metadata: object; runtime: string; type: string }
): Promise<Proposal | null> {
  const response = await request(settings, 'proposal', { method: 'POST', body: JSON.stringify(asked) });
  return response.status === 404 ? null : ((await answer(response)) as Proposed).proposal;
}

/** The person's secrets, without their values; after a change, where one is wanted. `notebook`: the one in front, or "". */
export async function fetchSecrets(
  settings: ServerConnection.ISettings,
  notebook: string,
  change: SecretsChange = { method: 'GET' }
): Promise<Secrets> {
  const named = change.method === 'DELETE' ? { name: change.name } : {};
  const init = change.method === 'POST' || change.method === 'PUT' ? { method: change.method, body: JSON.stringify(change.body) } : change;
  const query = URLExt.objectToQueryString({ notebook, ...named });
  return (await answer(await request(settings, `secrets${query}`, init))) as Secrets;
}

/** Add a secret or replace its value; grant it or take a grant back; remove it. */
export type SecretsChange =
  | { method: 'GET' }
  | { method: 'POST'; body: { name: string; value: string; replace: boolean } }
  | { method: 'PUT'; body: { name: string; notebook: string; granted: boolean } }
  | { method: 'DELETE'; name: string };

/** The stream of snapshots; authenticated as JupyterLab's own sockets are. */
export function openStream(settings: ServerConnection.ISettings): WebSocket {
  let url = URLExt.join(settings.wsUrl, ROOT, 'stream');
  if (settings.appendToken && settings.token) {
    url += `?token=${encodeURIComponent(settings.token)}`;
  }
  return new settings.WebSocket(url);
}

function runtimeAt(id: string): string {
  return `runtimes/${encodeURIComponent(id)}`;
}

function request(settings: ServerConnection.ISettings, path: string, init: RequestInit): Promise<Response> {
  return ServerConnection.makeRequest(URLExt.join(settings.baseUrl, ROOT, path), init, settings);
}

/** The document, or an Error with the server's own words. */
async function answer(response: Response): Promise<unknown> {
  if (response.ok) {
    return response.json();
  }
  const said: unknown = await response
    .clone()
    .json()
    .catch(() => null); // a proxy's page, not ours
  if (isFailure(said)) {
    throw new Error(`${said.error.message}. ${said.error.hint}`.trim());
  }
  throw await ServerConnection.ResponseError.create(response);
}

/** Whether a document says what went wrong: an answer to a request, or in the stream. */
export function isFailure(document: unknown): document is Failure {
  return typeof document === 'object' && document !== null && 'error' in document;
}
