/** The language of the page, which is JupyterLab's: Settings > Language. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';
import { setLanguage } from './text';

/** The name of our catalogue: the entry point jupyterlab.locale in pyproject.toml. */
const DOMAIN = 'ownlab';

/** Provided once sentences are in the language of the page. */
const ILanguage = new Token<string>('ownlab:ILanguage', 'The language of the page.');

export const language: JupyterFrontEndPlugin<string> = {
  id: 'ownlab:language',
  description: 'Translates ownlab’s part of the page into the language of JupyterLab.',
  autoStart: true,
  requires: [ITranslator],
  provides: ILanguage,
  activate: (_: JupyterFrontEnd, translator: ITranslator) => {
    const bundle = translator.load(DOMAIN);
    setLanguage(translator.languageCode, template => bundle.__(template));
    return translator.languageCode;
  }
};

/**
 * Return a plugin that is activated after the language is known: many make sentences at once.
 *
 * Optional services are waited for, and passed last, where `activate` ignores it.
 */
export function afterLanguage<T>(plugin: JupyterFrontEndPlugin<T>): JupyterFrontEndPlugin<T> {
  return { ...plugin, optional: [...(plugin.optional ?? []), ILanguage] };
}
