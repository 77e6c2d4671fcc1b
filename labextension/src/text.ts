/**
 * User-facing text, as whole sentences with named placeholders.
 *
 * Every template is a literal, so that templates can be collected and translated; the compiler checks it, and that every
 * placeholder has a value. Never concatenate parts of a sentence: write one template for each variant.
 *
 * Templates are English. They are translated when a sentence is made: the page has one language until it is loaded again, and it
 * is chosen before any plugin makes its first sentence (language.ts). translations/README.md says where the catalogue is.
 */
import * as React from 'react';

type Translate = (template: string) => string;

/** The language of the sources. */
export const ENGLISH = 'en';
/** Shows what is not translated: the letters of templates have accents, all others have not. For tests and translators. */
export const PSEUDO = 'qps';

let translate: Translate = template => template;
let current = ENGLISH;

/** Choose the language of all sentences that are made from now on; `language` as in BCP 47. */
export function setLanguage(language: string, translateTemplate: Translate): void {
  current = language;
  translate = language === ENGLISH ? template => template : remembered(language === PSEUDO ? withAccents : translateTemplate);
}

/** Panels make the same sentences every two seconds. */
function remembered(translateTemplate: Translate): Translate {
  const known = new Map<string, string>();
  return template => {
    const found = known.get(template) ?? translateTemplate(template);
    known.set(template, found);
    return found;
  };
}

/** The language of the page, as in BCP 47. */
export function pageLanguage(): string {
  return current;
}

/** The locale of dates and numbers: English ones are written as in Britain, 24 hours a day. */
export function dateLocale(): string {
  return current === ENGLISH || current === PSEUDO ? 'en-GB' : current;
}

const LETTERS = 'AaCcDdEeGgIiNnOoSsTtUuYyZz';
const ACCENTED = 'ÅåÇçĐđÉéĞğÎîÑñÖöŠšŤťÛûÝýŽž';

/** Put accents on the letters of a template, and brackets around it. Its placeholders stay, and what only arranges values. */
function withAccents(template: string): string {
  if (!/\p{L}/u.test(template.replace(PLACEHOLDER, ''))) {
    return template;
  }
  // A placeholder, or a letter.
  const accented = template.replace(/\{\w+\}|[a-z]/gi, part => ACCENTED[part.length === 1 ? LETTERS.indexOf(part) : -1] ?? part);
  return `⟦${accented}⟧`;
}

/** The names of a template's placeholders: 'a {b} {c}' -> 'b' | 'c'. */
type Placeholders<Template extends string> = Template extends `${string}{${infer Name}}${infer Rest}` ? Name | Placeholders<Rest> : never;

/** Rejects templates that are not literals. */
type Literal<Template extends string> = string extends Template ? never : Template;

/** The values of these placeholders, if there are any. */
type Arguments<Names extends string, Value = string | number> = [Names] extends [never] ? [] : [values: Record<Names, Value>];

const PLACEHOLDER = /\{(\w+)\}/g;

/** Fill in a template: text('{name} has ended.', { name }). */
export function text<Template extends string>(
  template: Template & Literal<Template>,
  ...[values]: Arguments<Placeholders<Template>>
): string {
  return fill(template, values ?? {});
}

function fill(template: string, values: Record<string, string | number>): string {
  return translate(template).replace(PLACEHOLDER, (placeholder, name: string) => String(values[name] ?? placeholder));
}

/** Like `text`, with values that are elements, such as code in a monospaced font. */
export function textNodes<Template extends string>(
  template: Template & Literal<Template>,
  ...[values]: Arguments<Placeholders<Template>, React.ReactNode>
): React.JSX.Element {
  const found = (values ?? {}) as Record<string, React.ReactNode>;
  // split() with a group returns text and placeholder names in turn.
  const parts = translate(template).split(PLACEHOLDER).map((part, index) => (index % 2 ? found[part] : part));
  return React.createElement(React.Fragment, null, ...parts);
}

/** Choose between the templates for one and for several, in which {n} is the count. They may have further values. */
export function plural<One extends string, Many extends string>(
  n: number,
  one: One & Literal<One>,
  many: Many & Literal<Many>,
  ...[values]: Arguments<Exclude<Placeholders<One | Many>, 'n'>>
): string {
  return fill(n === 1 ? one : many, { ...values, n });
}

/** Join whole sentences, leaving out empty ones. */
export function sentences(...parts: string[]): string {
  return parts.filter(Boolean).reduce((first, second) => (first ? text('{first} {second}', { first, second }) : second), '');
}

/** Join names: "a, b and c". */
export function listing(names: ReadonlyArray<string>): string {
  const last = names.at(-1);
  return last === undefined || names.length === 1 ? (last ?? '') : text('{names} and {last}', { names: facts(names.slice(0, -1)), last });
}

/** List facts or names that stand alone: "a, b, c"; empty ones are left out. */
export function facts(parts: ReadonlyArray<string>): string {
  return parts.filter(Boolean).reduce((names, name) => (names ? text('{names}, {name}', { names, name }) : name), '');
}
