/** Help: the keyboard shortcuts of Colab and of JupyterLab. */
import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import * as React from 'react';
import { text } from '../text';

/** What Colab's users know, in the order of use. */
function colabActions(): readonly (readonly [command: string, label: string])[] {
  return [
    ['notebook:run-cell', text('Run the cell')],
    ['notebook:run-cell-and-select-next', text('Run the cell and select the next one')],
    ['notebook:run-cell-and-insert-below', text('Run the cell and insert one below')],
    ['notebook:run-all-cells', text('Run all cells')],
    ['notebook:run-all-above', text('Run the cells before')],
    ['ownlab:run-below', text('Run the cell and all below')],
    ['notebook:run-in-console', text('Run the selected text in a console')],
    ['notebook:interrupt-kernel', text('Interrupt execution')],
    ['notebook:restart-kernel', text('Restart the runtime')],
    ['notebook:insert-cell-above', text('Insert a cell above')],
    ['notebook:insert-cell-below', text('Insert a cell below')],
    ['notebook:delete-cell', text('Delete the cell')],
    ['notebook:undo-cell-action', text('Undo the last change of cells')],
    ['notebook:change-cell-to-code', text('Convert to a code cell')],
    ['notebook:change-cell-to-markdown', text('Convert to a text cell')],
    ['notebook:move-cursor-up', text('Select the previous cell')],
    ['notebook:move-cursor-down', text('Select the next cell')],
    ['notebook:move-cell-up', text('Move the cell up')],
    ['notebook:move-cell-down', text('Move the cell down')],
    ['notebook:split-cell-at-cursor', text('Split the cell at the cursor')],
    ['notebook:merge-cells', text('Merge the selected cells')],
    ['ownlab:toggle-output', text('Show or hide the output')],
    ['viewmenu:line-numbering', text('Show or hide line numbers')],
    ['docmanager:save', text('Save')],
    ['apputils:activate-command-palette', text('Open the command palette')],
    ['ownlab:keyboard-shortcuts', text('Show these shortcuts')]
  ];
}

interface IShortcut {
  label: string;
  colab: string[];
  lab: string[];
}

/** Ctrl+M starts Colab's shortcuts; the others are those that JupyterLab does not have. */
const OTHER_COLAB = ['Ctrl F8', 'Ctrl F9', 'Ctrl F10', 'Ctrl Shift Enter', 'Accel Shift P'];
/** Keys that mean the same in both. */
const BOTH = ['Shift Enter', 'Accel Enter', 'Alt Enter', 'Accel S'];

export function showShortcuts(commands: CommandRegistry): Promise<unknown> {
  const known = colabActions();
  const others = new Set(commands.keyBindings.map(({ command }) => command));
  known.forEach(([command]) => others.delete(command));
  const body = new ShortcutsBody(
    known.map(([command, label]) => shortcutOf(commands, command, label)),
    [...others].map(command => shortcutOf(commands, command, labelOf(commands, command))).filter(({ label, lab }) => label && lab.length)
  );
  return showDialog({ title: text('Keyboard Shortcuts'), body, buttons: [Dialog.okButton({ label: text('Close') })] });
}

/** The label of a command may need an open notebook, or arguments. */
function labelOf(commands: CommandRegistry, command: string): string {
  try {
    return commands.hasCommand(command) ? commands.label(command) : '';
  } catch {
    return '';
  }
}

function shortcutOf(commands: CommandRegistry, command: string, label: string): IShortcut {
  const colab = new Set<string>();
  const lab = new Set<string>();
  for (const { command: bound, keys } of commands.keyBindings) {
    if (bound === command && keys.join('')) {
      const [first = ''] = keys;
      const shown = CommandRegistry.formatKeystroke(keys);
      const isColab = (first === 'Ctrl M' && keys.length > 1) || OTHER_COLAB.includes(original(keys));
      const isBoth = BOTH.includes(original(keys));
      if (isColab || isBoth) {
        colab.add(shown);
      }
      if (!isColab || isBoth) {
        lab.add(shown);
      }
    }
  }
  return { label, colab: [...colab], lab: [...lab] };
}

/** Lumino replaces Accel by the platform's key. */
function original(keys: readonly string[]): string {
  return keys.join(',').replace(/^(Ctrl|Cmd) (?=(Shift P|Enter|S)$)/, 'Accel ');
}

class ShortcutsBody extends ReactWidget {
  constructor(
    private readonly _known: readonly IShortcut[],
    private readonly _others: readonly IShortcut[]
  ) {
    super();
    this.addClass('ownlab-Shortcuts');
  }

  protected render(): React.JSX.Element {
    return <Shortcuts known={this._known} others={this._others} />;
  }
}

function Shortcuts({ known, others }: { known: readonly IShortcut[]; others: readonly IShortcut[] }): React.JSX.Element {
  const [filter, setFilter] = React.useState('');
  const matches = ({ label, colab, lab }: IShortcut): boolean =>
    [label, ...colab, ...lab].some(part => part.toLowerCase().includes(filter.trim().toLowerCase()));
  const more = others.filter(matches);
  return (
    <>
      <input
        className="jp-mod-styled"
        type="search"
        placeholder={text('Filter')}
        aria-label={text('Filter the shortcuts')}
        value={filter}
        onChange={({ target }) => setFilter(target.value)}
      />
      <div className="ownlab-Shortcuts-scroll">
        <ShortcutTable rows={known.filter(matches)} colab={true} />
        {more.length > 0 && <h3>{text('More of JupyterLab')}</h3>}
        <ShortcutTable rows={more} colab={false} />
      </div>
      <p className="ownlab-Empty">{text('After Ctrl+M, release both keys and press the next one. Settings, Keyboard Shortcuts, changes them.')}</p>
    </>
  );
}

function ShortcutTable({ rows, colab }: { rows: readonly IShortcut[]; colab: boolean }): React.JSX.Element | null {
  if (rows.length === 0) {
    return null;
  }
  return (
    <table>
      {colab && (
        <thead>
          <tr>
            <th>{text('Action')}</th>
            <th>{text('As in Colab')}</th>
            <th>{text('As in JupyterLab')}</th>
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map(row => (
          <tr key={row.label}>
            <td>{row.label}</td>
            {colab && <Keys keys={row.colab} />}
            <Keys keys={row.lab} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Keys({ keys }: { keys: readonly string[] }): React.JSX.Element {
  return (
    <td>
      {keys.map(key => (
        <kbd key={key}>{key}</kbd>
      ))}
    </td>
  );
}
