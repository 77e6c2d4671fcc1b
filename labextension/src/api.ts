/** Everything that the page asks of the server's own routes. */
import { URLExt } from '@jupyterlab/coreutils';
import { type KernelMessage, ServerConnection } from '@jupyterlab/services';
import type { Failure, Form, Forms, Snapshot } from './records';

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

/** The stream of snapshots; authenticated as JupyterLab's own sockets are. */
export function openStream(settings: ServerConnection.ISettings): WebSocket {
  let url = URLExt.join(settings.wsUrl, ROOT, 'stream');
  if (settings.appendToken && settings.token) {
    url += `?token=${encodeURIComponent(settings.token)}`;
  }
  return new settings.WebSocket(url);
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
