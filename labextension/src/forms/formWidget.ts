/** A form: its title, words and fields in their order. It shows what it is given; what a person does, it tells. */
import type { Notebook } from '@jupyterlab/notebook';
import { runIcon } from '@jupyterlab/ui-components';
import { Panel, Widget } from '@lumino/widgets';
import type { Field, Form } from '../records';
import { FieldRow } from './fieldRow';
import { fieldsOf } from './parsedForm';

/** The notebook's renderers: of Markdown, formulas and links. */
export type Rendermime = Notebook['rendermime'];

/** What a person does with a form. */
export interface IFormActions {
  /** A field got a value; `key` as in `fieldsOf`. */
  write(key: string, text: string): void;
  /** A value was given for good: not a letter of it. */
  commit(): void;
  toggle(): void;
  run(advance: boolean): void;
  undo(): void;
  redo(): void;
  /** Back to the notebook. */
  leave(): void;
}

export interface IShown {
  form: Form;
  readOnly: boolean;
  /** The code was changed, and what it says now is not known yet. */
  stale: boolean;
}

const MARKDOWN = 'text/markdown';
/** What a title in plain words does not have. */
const MARKED = /[*_`$[<&]/;

export class FormWidget extends Panel {
  constructor(
    private readonly _rendermime: Rendermime,
    private readonly _actions: IFormActions
  ) {
    super();
    this.addClass('ownlab-Form');
    this.node.setAttribute('role', 'group');
    this._head = new Head(_rendermime, _actions);
    this.addWidget(this._head);
    for (const type of ['keydown', 'change', 'focusout']) {
      this.node.addEventListener(type, this);
    }
  }

  take(shown: IShown): void {
    this._shown = shown;
    const { form, readOnly, stale } = shown;
    this._head.take(form);
    this.node.setAttribute('aria-label', form.title || 'Form');
    this.node.style.setProperty('--ownlab-form-width', widthOf(form));
    this.toggleClass('ownlab-mod-stale', stale);
    this._reconcile(blocksOf(form));
    this.node.querySelectorAll<HTMLInputElement>('.ownlab-Form-row input, .ownlab-Form-row select').forEach(entry => {
      entry.disabled = readOnly;
    });
  }

  /** Give the keyboard to the first field; false: there is none. */
  enter(): boolean {
    const first = this.node.querySelector<HTMLElement>('.ownlab-Form-entry:not(:disabled)');
    first?.focus();
    return first !== null;
  }

  handleEvent(event: Event): void {
    if (event.type === 'keydown') {
      this._onKey(event as KeyboardEvent);
    } else if (event.type === 'change') {
      this._actions.commit();
    } else if (this._shown && this._blocks().some(block => block instanceof FieldRow && block.outgrown)) {
      const shown = this._shown;
      window.setTimeout(() => !this.isDisposed && this.take(this._shown ?? shown)); // when the focus has gone
    }
  }

  /** Rows that can stay stay, also where others come before them: one of them may have the focus. */
  private _reconcile(blocks: readonly Block[]): void {
    const old = [...this._blocks()];
    blocks.forEach((block, at) => {
      const found = old.findIndex(widget => isFor(widget, block));
      if (found >= 0) {
        old.splice(0, found + 1).slice(0, -1).forEach(passed => passed.dispose());
      } else {
        this.insertWidget(at + 1, this._made(block));
      }
    });
    old.forEach(left => left.dispose());
  }

  private _made(block: Block): Widget {
    if (typeof block === 'string') {
      return new Words(this._rendermime, block);
    }
    const [key, field] = block;
    return new FieldRow(key, field, text => this._actions.write(key, text));
  }

  private _blocks(): readonly Widget[] {
    return this.widgets.slice(1);
  }

  /** JupyterLab takes single letters for commands: `d d` deletes the cell. Those with Ctrl it may have, except for some. */
  private _onKey(event: KeyboardEvent): void {
    const { key, shiftKey, altKey } = event;
    const accel = event.ctrlKey || event.metaKey;
    const act = (action: () => void): void => {
      event.preventDefault();
      event.stopPropagation();
      action();
    };
    if (event.isComposing) {
      event.stopPropagation();
    } else if (key === 'Enter' && (shiftKey || accel)) {
      act(() => this._actions.run(shiftKey));
    } else if (key === 'Escape') {
      act(() => this._actions.leave());
    } else if (accel && !altKey && key.toLowerCase() === 'z') {
      act(() => (shiftKey ? this._actions.redo() : this._actions.undo()));
    } else if (accel && !altKey && key.toLowerCase() === 'y') {
      act(() => this._actions.redo());
    } else if (!accel || ['a', 'c', 'v', 'x'].includes(key.toLowerCase())) {
      event.stopPropagation();
    }
  }

  private readonly _head: Head;
  private _shown: IShown | null = null;
}

/** Title and buttons. */
class Head extends Panel {
  constructor(
    private readonly _rendermime: Rendermime,
    actions: IFormActions
  ) {
    super();
    this.addClass('ownlab-Form-head');
    this._run = button('ownlab-Form-run', () => actions.run(false));
    this._run.title = 'Run this cell';
    this._run.setAttribute('aria-label', 'Run this cell');
    runIcon.element({ container: this._run, stylesheet: 'menuItem' });
    this._toggle = button('ownlab-Form-toggle', () => actions.toggle());
    this._title.addClass('ownlab-Form-title');
    this._title.node.setAttribute('role', 'heading');
    this._title.node.setAttribute('aria-level', '3');
    this._title.node.addEventListener('dblclick', () => actions.toggle());
    this.addWidget(this._title);
    this.node.prepend(this._run);
    this.node.append(this._toggle);
  }

  take({ title, hidden }: Form): void {
    this._run.hidden = !hidden;
    this._toggle.textContent = hidden ? 'Show code' : 'Hide code';
    this._toggle.setAttribute('aria-expanded', String(!hidden));
    const text = (title ?? '').replace(/^#+\s*/, '');
    if (text === this._text) {
      return;
    }
    this._text = text;
    this._title.setHidden(text === '');
    this._title.node.replaceChildren();
    [...this._title.widgets].forEach(words => words.dispose());
    if (MARKED.test(text)) {
      this._title.addWidget(new Words(this._rendermime, text));
    } else {
      this._title.node.textContent = text;
    }
  }

  private readonly _run: HTMLButtonElement;
  private readonly _toggle: HTMLButtonElement;
  private readonly _title = new Panel();
  private _text: string | null = null;
}

/** Markdown, by JupyterLab's own renderer: sanitised, with formulas and links. */
class Words extends Panel {
  constructor(
    rendermime: Rendermime,
    readonly text: string
  ) {
    super();
    this.addClass('ownlab-Form-words');
    const renderer = rendermime.createRenderer(MARKDOWN);
    this.addWidget(renderer);
    void renderer.renderModel(rendermime.createModel({ data: { [MARKDOWN]: text } }));
  }
}

/** A field with its key, or words that stand between fields. */
type Block = [string, Field] | string;

/** Whether a widget shows this; if so, it shows it as it is now. */
function isFor(widget: Widget, block: Block): boolean {
  if (typeof block === 'string') {
    return widget instanceof Words && widget.text === block;
  }
  return widget instanceof FieldRow && widget.key === block[0] && widget.take(block[1]);
}

function blocksOf(form: Form): Block[] {
  const blocks: Block[] = [];
  const fields = fieldsOf(form).entries();
  let line = -2; // of the words before
  for (const part of form.parts) {
    const last = blocks.at(-1);
    if (part.part === 'field') {
      const next = fields.next(); // in the same order
      blocks.push(...(next.done ? [] : [next.value]));
    } else if (typeof last !== 'string') {
      blocks.push(part.text);
    } else {
      blocks[blocks.length - 1] = `${last}\n${isApart(part.text, line, part.line) ? '\n' : ''}${part.text}`;
    }
    line = part.line;
  }
  return blocks.filter(block => typeof block !== 'string' || block.trim() !== '');
}

/** A rule right below words would make a heading of them. */
function isApart(text: string, before: number, line: number): boolean {
  return line !== before + 1 || /^\s*([-=*_])\s*(?:\1\s*)+$/.test(text);
}

/** "50%" is of the cell. */
function widthOf({ width }: Form): string {
  return width !== null && /^\d+(?:\.\d+)?(?:%|px|em|rem|vw|ch)$/.test(width) ? width.replace('%', 'cqi') : '';
}

function button(name: string, act: () => void): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = name;
  made.addEventListener('click', act);
  return made;
}
