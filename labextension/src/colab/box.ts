/** A box in a cell's outputs, where a person answers what the kernel waits for. It is no output: it is saved nowhere. */
import type { CodeCell } from '@jupyterlab/cells';
import { PanelLayout, Widget } from '@lumino/widgets';

/** A row at the end of a cell's outputs, beside an empty prompt. */
export class Row extends Widget {
  constructor(readonly content: HTMLElement) {
    super();
    this.addClass('jp-OutputArea-child');
    this.addClass('ownlab-Row');
    const prompt = element('div', 'jp-OutputPrompt jp-OutputArea-prompt');
    this.node.append(prompt, content);
  }

  /** Show it in a cell; a cell without outputs is given room for it. */
  showIn({ outputArea }: CodeCell): void {
    (outputArea.layout as PanelLayout).addWidget(this);
    outputArea.outputLengthChanged.emit(Math.max(outputArea.model.length, 1));
    this.disposed.connect(() => {
      if (!outputArea.isDisposed) {
        outputArea.outputLengthChanged.emit(outputArea.model.length);
      }
    });
  }
}

/** A row with a question in words, and what answers it. */
export class Box extends Row {
  constructor(question: string) {
    super(element('div', 'ownlab-Ask'));
    this.content.setAttribute('role', 'group');
    this.content.setAttribute('aria-label', question);
    this.content.dataset['lmSuppressShortcuts'] = 'true'; // JupyterLab's single keys are not for what is typed here
    this.words = element('p', 'ownlab-Ask-words');
    this.words.textContent = question;
    this.words.setAttribute('role', 'status');
    this.content.append(this.words);
  }

  protected readonly words: HTMLElement;
}

export function element<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, classes = ''): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  made.className = classes;
  return made;
}

export function button(label: string, accept: boolean, onClick: () => void): HTMLButtonElement {
  const made = element('button', `jp-Dialog-button jp-mod-styled ${accept ? 'jp-mod-accept' : 'jp-mod-reject'}`);
  made.type = 'button';
  made.textContent = label;
  made.addEventListener('click', onClick);
  return made;
}
