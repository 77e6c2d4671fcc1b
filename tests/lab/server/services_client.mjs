// A client that uses @jupyterlab/services in Node, as VS Code does: it creates a session with any path and name, executes
// cells, and leaves without shutting anything down. Arguments: node_modules, the server's address, its token; on stdin
// {"session": {path, name, type}, "cells": [{code, cellId}]}. Prints what the cells printed, as JSON.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [, , modules, baseUrl, token] = process.argv;
const require = createRequire(`${modules}/`);
const WebSocket = require('ws');
globalThis.window ??= globalThis;
console.debug = () => undefined; // it writes to stdout
globalThis.WebSocket = WebSocket; // Node has its own from version 22 on
const { KernelManager, ServerConnection, SessionManager } = require('@jupyterlab/services');

const { session: about, cells } = JSON.parse(readFileSync(0, 'utf8'));
const serverSettings = ServerConnection.makeSettings({
  baseUrl,
  wsUrl: baseUrl.replace('http', 'ws'),
  token,
  appendToken: true,
  WebSocket,
  fetch: globalThis.fetch,
  Request: globalThis.Request,
  Headers: globalThis.Headers
});
const kernelManager = new KernelManager({ serverSettings });
const sessions = new SessionManager({ serverSettings, kernelManager });
const session = await sessions.startNew({ ...about, kernel: { name: 'python3' } }, { kernelConnectionOptions: { handleComms: true } });
const printed = [];
for (const { code, cellId } of cells) {
  const future = session.kernel.requestExecute(
    { code, silent: false, stop_on_error: true, allow_stdin: true, store_history: true },
    false,
    cellId === undefined ? {} : { cellId }
  );
  let text = '';
  future.onIOPub = ({ header, content }) => {
    text += header.msg_type === 'stream' ? content.text : '';
  };
  await future.done;
  printed.push(text);
}
process.stdout.write(JSON.stringify({ kernel: session.kernel.id, session: session.id, printed }), () => process.exit(0));
