/** Disconnect and delete runtime, and Factory reset: say exactly what would be deleted, and delete it. */
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection, ServiceManager } from '@jupyterlab/services';
import * as React from 'react';
import { fetchLeftovers, fetchRemovable, removePackages, stopRuntime } from '../api';
import { reportFailure } from '../failures';
import { formatBytes, notebookName } from '../formatting';
import { readPackages, updatePackages } from '../packages/notebookPackages';
import type { Leftovers, RemovablePackages, Runtime } from '../records';
import { listing, sentences, text } from '../text';

/** The notebook of the current tab, and what it has. */
export interface IDeletionOptions {
  panel: NotebookPanel;
  runtime: Runtime | undefined;
  /** The type whose environment has the notebook's packages. */
  type: string | undefined;
  environment: string;
  services: ServiceManager.IManager;
}

/** End a runtime and delete its /content, if the user agrees. */
export async function deleteRuntime(options: IDeletionOptions): Promise<void> {
  const { panel, runtime, services } = options;
  const { serverSettings } = services;
  const leftovers = runtime ? await fetchLeftovers(serverSettings, runtime.id) : null;
  const notebook = notebookName(panel.context.path);
  const { button } = await showDialog({
    title: text('Disconnect and delete the runtime of {notebook}?', { notebook }),
    body: (
      <div className="ownlab-Deletion">
        <DeletedList items={describeRuntime(leftovers)} />
        <p>{text('The notebook with its outputs, the files of the lab’s folder, the drive and installed packages are kept.')}</p>
      </div>
    ),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Disconnect and delete') })]
  });
  if (button.accept) {
    await reportFailure(endRuntime(options));
  }
}

/** In addition, uninstall the packages that the notebook has installed, and put back those that it has replaced. */
export async function factoryReset(options: IDeletionOptions): Promise<void> {
  const { panel, runtime, type, services } = options;
  const { serverSettings } = services;
  const wanted = readPackages(panel.context.model);
  const leftovers = runtime ? await fetchLeftovers(serverSettings, runtime.id) : null;
  const packages: RemovablePackages =
    wanted.pip.length > 0 && type !== undefined
      ? await fetchRemovable(serverSettings, { type, pip: wanted.pip })
      : { removable: [], needed: [], restorable: [], own: [] };
  const { button } = await showDialog({
    title: text('Reset the runtime of {notebook}?', { notebook: notebookName(panel.context.path) }),
    body: (
      <div className="ownlab-Deletion">
        <DeletedList items={[...(runtime ? describeRuntime(leftovers) : []), ...describePackages(packages, options.environment)]} />
        {describeKept(packages, wanted.apt).map(sentence => (
          <p key={sentence}>{sentence}</p>
        ))}
        <p>{text('The notebook with its outputs, the files of the lab’s folder and the drive are kept.')}</p>
      </div>
    ),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: text('Reset') })]
  });
  const changed = [...packages.removable, ...packages.restorable];
  if (button.accept && (!runtime || (await reportFailure(endRuntime(options)))) && changed.length > 0 && type !== undefined) {
    await reportFailure(resetPackages(panel, serverSettings, type, changed));
  }
}

async function endRuntime({ panel, runtime, services }: IDeletionOptions): Promise<void> {
  if (runtime) {
    await stopRuntime(services.serverSettings, runtime.id, { deleteContent: true });
  } else {
    await panel.sessionContext.shutdown(); // a kernel that is no runtime of ownlab
  }
  await Promise.allSettled([services.sessions.refreshRunning(), services.kernels.refreshRunning()]);
}

async function resetPackages(panel: NotebookPanel, settings: ServerConnection.ISettings, type: string, requirements: readonly string[]): Promise<void> {
  const { removed, restored, failed } = await removePackages(settings, { type, pip: requirements });
  const names = [...removed, ...restored.map(requirement => requirement.split('==', 1)[0] ?? requirement)];
  if (names.length > 0) {
    updatePackages(panel.context.model, { pip: Object.fromEntries(names.map(name => [name, null])) });
    const done = sentences(
      removed.length > 0 ? text('Uninstalled: {packages}.', { packages: listing(removed) }) : '',
      restored.length > 0 ? text('As before: {packages}.', { packages: listing(restored.map(withVersion)) }) : ''
    );
    Notification.success(done, { autoClose: 8_000 });
  }
  if (failed) {
    throw new Error(text('Not all packages were reset: {error}', { error: failed }));
  }
}

/** numpy==1.26 -> numpy 1.26. */
function withVersion(requirement: string): string {
  return requirement.replace('==', ' ');
}

function DeletedList({ items }: { items: readonly string[] }): React.JSX.Element {
  return (
    <>
      <p>{items.length > 0 ? text('This deletes:') : text('There is nothing to delete.')}</p>
      <ul>
        {items.map(item => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </>
  );
}

function describeRuntime(leftovers: Leftovers | null): string[] {
  const memory = text('all variables, and work that is still running');
  if (!leftovers?.content) {
    return [memory];
  }
  const { files, size, complete } = leftovers;
  const amount = formatBytes(size);
  if (!complete) {
    return [memory, text('the folder /content of this runtime, with more than {files} files and {amount}', { files, amount })];
  }
  return [
    memory,
    files === 1
      ? text('the folder /content of this runtime, with one file of {amount}', { amount })
      : text('the folder /content of this runtime, with {files} files ({amount})', { files, amount })
  ];
}

function describePackages({ removable, restorable }: RemovablePackages, environment: string): string[] {
  const packages = listing(removable.map(withVersion));
  const earlier = listing(restorable.map(withVersion));
  return [
    ...(removable.length > 0
      ? [
          text('packages that this notebook installed: {packages}. They are uninstalled from the environment {environment}, for all notebooks that use it.', {
            packages,
            environment
          })
        ]
      : []),
    ...(restorable.length > 0
      ? [
          text('versions of packages that this notebook replaced. The environment {environment} gets its own back, for all notebooks that use it: {earlier}.', {
            earlier,
            environment
          })
        ]
      : [])
  ];
}

/** Packages of the notebook that are not uninstalled, and why. */
function describeKept({ needed, own }: RemovablePackages, apt: readonly string[]): string[] {
  const kept = needed.map(({ name, by }) => text('{name} (needed by {by})', { name, by }));
  return [
    ...(kept.length > 0 ? [text('These packages stay, since others need them: {packages}.', { packages: listing(kept) })] : []),
    ...(own.length > 0 ? [text('These packages stay, since they belong to the environment: {packages}.', { packages: listing(own) })] : []),
    ...(apt.length > 0 ? [text('Debian packages stay installed: {packages}.', { packages: listing(apt) })] : [])
  ];
}
