/** Offers, below an output in which a module could not be imported, an environment that has it, or the command that installs it. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { fetchEnvironments } from '../api';
import { button, Prompt } from '../colab/prompts';
import { reportFailure } from '../failures';
import { cellsToRunAgain, ErrorOffers, runAgain } from '../notebook/errorOffers';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { sentences, text } from '../text';
import { commandIds } from '../tokens';
import { findOffer, missingModule, type PackageOffer, packageOf } from './missingPackage';

export function offerPackages(app: JupyterFrontEnd, panel: NotebookPanel, live: LiveSnapshot, dialogs: ISessionContextDialogs): void {
  new ErrorOffers(
    panel,
    error => {
      const module = missingModule(error);
      return module !== null && packageOf(module) !== null ? module : null;
    },
    (cell, module, decline) => new PackagePrompt({ app, panel, live, dialogs }, cell, module, decline)
  );
}

interface IPage {
  app: JupyterFrontEnd;
  panel: NotebookPanel;
  live: LiveSnapshot;
  dialogs: ISessionContextDialogs;
}

const BUILD_POLL_MS = 2_000;

/** Appears when the environments are known. */
class PackagePrompt extends Prompt {
  constructor(
    private readonly _page: IPage,
    private readonly _cell: CodeCell,
    module: string,
    private readonly _decline: () => void
  ) {
    super('');
    this._load(module).catch(reason => console.warn('ownlab: no package is offered', reason));
  }

  private async _load(module: string): Promise<void> {
    const { app, panel, live } = this._page;
    for (let shown = ''; ; ) {
      const environments = await fetchEnvironments(app.serviceManager.serverSettings).catch(waitWhileBuilding(shown));
      if (this.isDisposed || this._cell.isDisposed) {
        return;
      }
      const kernel = panel.sessionContext.session?.kernel?.name ?? '';
      const offer = environments && findOffer(module, kernel, live.current?.types ?? [], environments);
      if (offer && offer.kind !== shown) {
        this._fill(offer);
        if (!shown) {
          this.showIn(this._cell);
        }
        shown = offer.kind;
      }
      if (shown !== 'building') {
        return;
      }
      await new Promise(done => window.setTimeout(done, BUILD_POLL_MS));
    }
  }

  private _fill(offer: PackageOffer): void {
    const { app, panel } = this._page;
    this.message.textContent = sentences(lacking(offer), this._explain(offer));
    this.content.setAttribute('aria-label', this.message.textContent);
    this.content.replaceChildren(this.message);
    if (offer.kind === 'change') {
      this._add(text('Change to {environment} and run again', { environment: offer.to }), () => void this._change(offer.type));
    } else if (offer.kind === 'create') {
      this._add(text('Open the start page'), () => void app.commands.execute(commandIds.launcher));
    } else if (offer.kind === 'install') {
      this._add(text('Insert the command'), () => insertAbove(panel, this._cell, `%pip install ${offer.package}`));
    }
    this.content.append(
      button(text('Not now'), false, () => {
        this._decline();
        this.dispose();
      })
    );
  }

  private _explain(offer: PackageOffer): string {
    switch (offer.kind) {
      case 'change':
        return sentences(
          text('The environment {environment} has it.', { environment: offer.to }),
          cellsToRunAgain(this._page.panel, this._cell).length > 1
            ? text('The change deletes this notebook’s variables, and the cells above that have run are run again.')
            : ''
        );
      case 'building':
        return text('The environment {environment}, which is being built, has it.', { environment: offer.to });
      case 'create':
        return text('The environment {environment}, which can be created on the start page, will have it.', { environment: offer.to });
      case 'install':
        return text('{command} installs it.', { command: `%pip install ${offer.package}` });
    }
  }

  private _add(label: string, act: () => void): void {
    this.content.append(
      button(label, true, () => {
        this.dispose();
        act();
      })
    );
  }

  private _change(type: string): Promise<unknown> {
    const { panel, dialogs } = this._page;
    const change = (): Promise<unknown> => panel.sessionContext.changeKernel({ name: type });
    return reportFailure(runAgain(panel, this._cell, dialogs, change), error => text('The environment was not changed: {error}', { error }));
  }
}

/** While a build is shown, a server that does not answer for a moment changes nothing. */
function waitWhileBuilding(shown: string): (reason: unknown) => null {
  return reason => {
    if (shown) {
      return null;
    }
    throw reason;
  };
}

function lacking({ module, environment }: PackageOffer): string {
  return environment === ''
    ? text('{module} is not installed here.', { module })
    : text('{module} is not installed in the environment {environment}.', { module, environment });
}

/** Insert a code cell above another one, and select it. It is not run: what is installed is the person's decision. */
function insertAbove({ content }: NotebookPanel, cell: CodeCell, source: string): void {
  const index = content.widgets.indexOf(cell);
  content.model?.sharedModel.insertCell(index, { cell_type: 'code', source });
  content.activeCellIndex = index;
}
