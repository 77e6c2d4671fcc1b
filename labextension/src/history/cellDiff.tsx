/** Code with the differences to an older text, in a read-only editor. */
import { unifiedMergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { type IEditorLanguageRegistry, jupyterTheme } from '@jupyterlab/codemirror';
import * as React from 'react';
import { text } from '../text';

export interface ICellDiffProps {
  /** The older text; null: show the text without differences. */
  before: string | null;
  after: string;
  mimeType: string;
  languages: IEditorLanguageRegistry;
}

export function CellDiff({ before, after, mimeType, languages }: ICellDiffProps): React.JSX.Element {
  const parent = React.useRef<HTMLDivElement>(null);
  const language = useLanguage(mimeType, languages);
  React.useEffect(() => {
    if (!parent.current) {
      return;
    }
    const comparison = before === null ? [] : unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } });
    const view = new EditorView({
      parent: parent.current,
      doc: after,
      extensions: [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': text('Code'), tabindex: '0' }),
        jupyterTheme,
        language,
        comparison
      ]
    });
    return () => view.destroy();
  }, [before, after, language]);
  return <div className="ownlab-History-code" ref={parent} />;
}

/** The support for a language, which is loaded when it is first needed. */
function useLanguage(mimeType: string, languages: IEditorLanguageRegistry): Extension {
  const [support, setSupport] = React.useState<Extension>([]);
  React.useEffect(() => {
    let wanted = true;
    const found = languages.findByMIME(mimeType);
    if (found) {
      void languages.getLanguage(found).then(loaded => wanted && loaded?.support && setSupport(loaded.support));
    }
    return () => {
      wanted = false;
    };
  }, [mimeType, languages]);
  return support;
}
