/**
 * User-facing text, as whole sentences with named placeholders.
 *
 * Every template is a literal, so that templates can be collected and translated; the compiler checks it, and that every
 * placeholder has a value. Never concatenate parts of a sentence: write one template for each variant.
 */
import * as React from 'react';

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
  return template.replace(PLACEHOLDER, (placeholder, name: string) => String(values[name] ?? placeholder));
}

/** Like `text`, with values that are elements, such as code in a monospaced font. */
export function textNodes<Template extends string>(
  template: Template & Literal<Template>,
  ...[values]: Arguments<Placeholders<Template>, React.ReactNode>
): React.JSX.Element {
  const found = (values ?? {}) as Record<string, React.ReactNode>;
  // split() with a group returns text and placeholder names in turn.
  const parts = template.split(PLACEHOLDER).map((part, index) => (index % 2 ? found[part] : part));
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
  return parts.filter(Boolean).join(' ');
}

/** Join names: "a, b and c". */
export function listing(names: ReadonlyArray<string>): string {
  const last = names.at(-1);
  return last === undefined || names.length === 1 ? (last ?? '') : text('{names} and {last}', { names: names.slice(0, -1).join(', '), last });
}
