/** Offers Colab mode below an output in which google.colab could not be imported. */
import type { ISessionContextDialogs } from '@jupyterlab/apputils';
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { reportFailure } from '../failures';
import { cellsToRunAgain, ErrorOffers, runAgain } from '../notebook/errorOffers';
import { sentences, text } from '../text';
import type { ColabMode } from './colabMode';
import { lacksColab } from './missingModule';
import { button, Prompt } from './prompts';

/** Offer it while the kernel is a plain one. */
export function offerColabMode(panel: NotebookPanel, mode: ColabMode, dialogs: ISessionContextDialogs): void {
  const offers = new ErrorOffers(
    panel,
    error => (mode.on === false && lacksColab(error) ? true : null),
    (cell, _, decline) => showOffer(panel, mode, dialogs, cell, decline)
  );
  mode.changed.connect(() => offers.update());
}

function showOffer(panel: NotebookPanel, mode: ColabMode, dialogs: ISessionContextDialogs, cell: CodeCell, decline: () => void): Prompt {
  const offer = new Prompt(
    sentences(text('google.colab is available in Colab mode, in which this notebook works in /content.'), describeRestart(panel, cell))
  );
  offer.content.append(
    button(text('Restart in Colab mode and run again'), true, () => {
      offer.dispose();
      void reportFailure(runInColabMode(panel, mode, cell, dialogs), error => text('Colab mode was not changed: {error}', { error }));
    }),
    button(text('Not now'), false, () => {
      decline();
      offer.dispose();
    })
  );
  offer.showIn(cell);
  return offer;
}

/** Restart the kernel of a notebook in Colab mode, and run a cell and those above it that have run. */
export function runInColabMode(
  panel: NotebookPanel,
  mode: ColabMode,
  cell: CodeCell,
  dialogs: ISessionContextDialogs | undefined,
  order?: { first: boolean }
): Promise<void> {
  const restart = async (): Promise<void> => {
    await mode.switchOn();
    await panel.sessionContext.restartKernel();
  };
  return runAgain(panel, cell, dialogs, restart, order);
}

/** What a restart for a cell does to the rest of its notebook; empty if nothing has run. */
export function describeRestart(panel: NotebookPanel, cell: CodeCell): string {
  return cellsToRunAgain(panel, cell).length > 1 ? text('The restart deletes its variables, and the cells above that have run are run again.') : '';
}
