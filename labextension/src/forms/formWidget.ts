/** A form: its title, Markdown and fields, in order. It renders what it is given, and reports user actions. */
import type { Notebook } from '@jupyterlab/notebook';
import { Panel, Widget } from '@lumino/widgets';
import type { Field, Form } from '../records';
import { text } from '../text';
import { FieldRow } from './fieldRow';
import { fieldsOf } from './parsedForm';

/** The notebook's renderers of Markdown, formulas and links. */
export type Rendermime = Notebook['rendermime'];

/** The user's actions. */
export interface IFormActions {
  /** A field got a value; `key` as in `fieldsOf`. */
  write(key: string, text: string): void;
  /** A value is complete, not only a keystroke of it. */
  commit(): void;
  toggle(): void;
  run(advance: boolean): void;
  undo(): void;
  redo(): void;
  /** Return to the notebook. */
  leave(): void;
}

export interface IFormState {
  form: Form;
  readOnly: boolean;
  /** The source has changed and is not parsed yet. */
  stale: boolean;
}

const MARKDOWN = 'text/markdown';
/** Characters that a title without Markdown does not contain. */
const HAS_MARKDOWN = /[*_`$[<&]/;

export class FormWidget extends Panel {
  constructor(
    private readonly _rendermime: Rendermime,
    private readonly _actions: IFormActions
  ) {
    super();
    this.addClass('ownlab-Form');
    this.node.setAttribute('role', 'group');
    this._header = new FormHeader(_rendermime, _actions);
    this.addWidget(this._header);
    for (const type of ['keydown', 'change', 'focusout']) {
      this.node.addEventListener(type, this);
    }
  }

  setState(state: IFormState): void {
    this._state = state;
    const { form, readOnly, stale } = state;
    this._header.setForm(form);
    this.node.setAttribute('aria-label', form.title || text('Form'));
    this.node.style.setProperty('--ownlab-form-width', widthOf(form));
    this.toggleClass('ownlab-mod-stale', stale);
    this._reconcile(blocksOf(form));
    this.node.querySelectorAll<HTMLInputElement>('.ownlab-Form-row input, .ownlab-Form-row select').forEach(entry => {
      entry.disabled = readOnly;
    });
  }

  /** Focus the first field; return false if there is none. */
  focusFirst(): boolean {
    const first = this.node.querySelector<HTMLElement>('.ownlab-Form-entry:not(:disabled)');
    first?.focus();
    return first !== null;
  }

  handleEvent(event: Event): void {
    if (event.type === 'keydown') {
      this._onKey(event as KeyboardEvent);
    } else if (event.type === 'change') {
      this._actions.commit();
    } else if (this._state && this._blocks().some(block => block instanceof FieldRow && block.isOutdated)) {
      const state = this._state;
      window.setTimeout(() => !this.isDisposed && this.setState(this._state ?? state)); // after the focus has moved
    }
  }

  /** Keep existing rows where possible, also if others are inserted before them: one may have the focus. */
  private _reconcile(blocks: readonly Block[]): void {
    const old = [...this._blocks()];
    blocks.forEach((block, at) => {
      const found = old.findIndex(widget => updateBlock(widget, block));
      if (found >= 0) {
        old.splice(0, found + 1).slice(0, -1).forEach(passed => passed.dispose());
      } else {
        this.insertWidget(at + 1, this._createBlock(block));
      }
    });
    old.forEach(left => left.dispose());
  }

  private _createBlock(block: Block): Widget {
    if (typeof block === 'string') {
      return new MarkdownBlock(this._rendermime, block);
    }
    const [key, field] = block;
    return new FieldRow(key, field, text => this._actions.write(key, text));
  }

  private _blocks(): readonly Widget[] {
    return this.widgets.slice(1);
  }

  /** Keep keys from JupyterLab, which uses single letters as commands (`d d` deletes the cell). Most keys with Ctrl go through. */
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

  private readonly _header: FormHeader;
  private _state: IFormState | null = null;
}

/** Title and buttons. */
class FormHeader extends Panel {
  constructor(
    private readonly _rendermime: Rendermime,
    actions: IFormActions
  ) {
    super();
    this.addClass('ownlab-Form-head');
    this._toggle = button('ownlab-Form-toggle', () => actions.toggle());
    this._title.addClass('ownlab-Form-title');
    this._title.node.setAttribute('role', 'heading');
    this._title.node.setAttribute('aria-level', '3');
    this._title.node.addEventListener('dblclick', () => actions.toggle());
    this.addWidget(this._title);
    this.node.append(this._toggle);
  }

  setForm({ title, hidden }: Form): void {
    this._toggle.textContent = hidden ? text('Show code') : text('Hide code');
    this._toggle.setAttribute('aria-expanded', String(!hidden));
    const heading = (title ?? '').replace(/^#+\s*/, '');
    if (heading === this._heading) {
      return;
    }
    this._heading = heading;
    this._title.setHidden(heading === '');
    this._title.node.replaceChildren();
    [...this._title.widgets].forEach(block => block.dispose());
    if (HAS_MARKDOWN.test(heading)) {
      this._title.addWidget(new MarkdownBlock(this._rendermime, heading));
    } else {
      this._title.node.textContent = heading;
    }
  }

  private readonly _toggle: HTMLButtonElement;
  private readonly _title = new Panel();
  private _heading: string | null = null;
}

/** Markdown, rendered and sanitized by JupyterLab. */
class MarkdownBlock extends Panel {
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

/** A field with its key, or the Markdown between fields. */
type Block = [string, Field] | string;

/** Return whether a widget is for this block, after updating it. */
function updateBlock(widget: Widget, block: Block): boolean {
  if (typeof block === 'string') {
    return widget instanceof MarkdownBlock && widget.text === block;
  }
  return widget instanceof FieldRow && widget.key === block[0] && widget.setField(block[1]);
}

function blocksOf(form: Form): Block[] {
  const blocks: Block[] = [];
  const fields = fieldsOf(form).entries();
  let line = -2; // of the previous Markdown
  for (const part of form.parts) {
    const last = blocks.at(-1);
    if (part.part === 'field') {
      const next = fields.next();
      blocks.push(...(next.done ? [] : [next.value]));
    } else if (typeof last !== 'string') {
      blocks.push(part.text);
    } else {
      blocks[blocks.length - 1] = `${last}\n${needsBlankLine(part.text, line, part.line) ? '\n' : ''}${part.text}`;
    }
    line = part.line;
  }
  return blocks.filter(block => typeof block !== 'string' || block.trim() !== '');
}

/** Directly below text, a rule would turn the text into a heading. */
function needsBlankLine(text: string, before: number, line: number): boolean {
  return line !== before + 1 || /^\s*([-=*_])\s*(?:\1\s*)+$/.test(text);
}

/** "50%" means half of the cell. */
function widthOf({ width }: Form): string {
  return width !== null && /^\d+(?:\.\d+)?(?:%|px|em|rem|vw|ch)$/.test(width) ? width.replace('%', 'cqi') : '';
}

function button(name: string, act: () => void): HTMLButtonElement {
  const node = document.createElement('button');
  node.type = 'button';
  node.className = name;
  node.addEventListener('click', act);
  return node;
}
