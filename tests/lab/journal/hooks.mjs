// Lets node load JupyterLab's own files from node_modules: they are written for a bundler (ES modules without saying so,
// imports without endings), and some of what they import wants a browser.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

let modules = '';

// Packages of which one file is enough, and those that are replaced by browser.mjs.
const PARTS = { '@jupyterlab/rendermime': '@jupyterlab/rendermime/lib/outputmodel.js' };
const BROWSER = ['@lumino/widgets', '@jupyterlab/apputils', '@jupyterlab/translation'];

export function initialize(data) {
  modules = data.modules;
}

export async function resolve(specifier, context, next) {
  if (BROWSER.includes(specifier)) {
    return { url: new URL('./browser.mjs', import.meta.url).href, shortCircuit: true };
  }
  if (specifier in PARTS) {
    return { url: pathToFileURL(modules + PARTS[specifier]).href, shortCircuit: true };
  }
  if (specifier.startsWith('.') && context.parentURL) {
    const url = new URL(specifier + '.js', context.parentURL);
    if (existsSync(fileURLToPath(url))) {
      return { url: url.href, shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  // Some of JupyterLab's packages are CommonJS: those say so in their first line.
  const source = url.includes('/@jupyterlab/') && url.endsWith('.js') ? readFileSync(fileURLToPath(url), 'utf-8') : '';
  if (!source || source.startsWith('"use strict"')) {
    return next(url, context);
  }
  return { format: 'module', source, shortCircuit: true };
}
