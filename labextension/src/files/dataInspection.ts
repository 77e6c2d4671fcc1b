/** "Inspect Data" on files and folders: runs `ownlab data inspect` in a terminal, where it shows its progress and can be interrupted. */
import type { Contents, ServiceManager, Terminal } from '@jupyterlab/services';
import { text } from '../text';

/** Archives and tables that the command takes, by the end of their names. */
const DATA = /\.(?:zip|tar|tgz|tbz2?|txz|gz|bz2|xz|zst|7z|rar|csv|tsv|parquet|jsonl|ndjson)$/i;

/** Whether the command says something about it: a folder, an archive or a table. */
export function canBeInspected({ type, name }: Pick<Contents.IModel, 'type' | 'name'>): boolean {
  return type === 'directory' || DATA.test(name);
}

/** Return the line that is typed into the terminal; a name with control characters would be typed as commands. */
export function inspectionCommand(path: string): string {
  if (/[\u0000-\u001f\u007f-\u009f]/.test(path)) {
    throw new Error(text('The name has control characters. Rename it, then inspect it.'));
  }
  return `ownlab data inspect -- '${path.replace(/'/g, "'\\''")}'\r`;
}

/** Start a terminal that inspects a path; return its name. */
export async function startInspection(terminals: ServiceManager.IManager['terminals'], path: string): Promise<string> {
  const command = inspectionCommand(path);
  if (!terminals.isAvailable()) {
    throw new Error(text('This server has no terminals. Run in one of your own: {command}', { command: command.trim() }));
  }
  const terminal = await terminals.startNew();
  try {
    await connected(terminal);
    terminal.send({ type: 'stdin', content: [command] });
    return terminal.name;
  } finally {
    terminal.dispose(); // the page makes a connection of its own
  }
}

/** Wait until a terminal takes input: what is sent before is lost when the connection is disposed. */
async function connected(terminal: Terminal.ITerminalConnection): Promise<void> {
  if (terminal.connectionStatus === 'connected') {
    return;
  }
  await new Promise<void>((resolve, reject) => {
    terminal.connectionStatusChanged.connect((_, status) => {
      if (status === 'connected') {
        resolve();
      } else if (status === 'disconnected') {
        reject(new Error(text('The terminal does not answer.')));
      }
    });
  });
}
