/** The field for the address of a notebook, and the button to upload files. */
import * as React from 'react';
import { errorMessage } from '../failures';
import { text } from '../text';
import type { IStartActions } from './startActions';

export function OpenField({ actions }: { actions: IStartActions }): React.JSX.Element {
  const [address, setAddress] = React.useState('');
  const [busy, setBusy] = React.useState(false);
  const [failure, setFailure] = React.useState('');
  const files = React.useRef<HTMLInputElement>(null);
  const field = React.useRef<HTMLInputElement>(null);
  const open = async (): Promise<void> => {
    if (!address.trim()) {
      field.current?.focus();
      return;
    }
    setBusy(true);
    setFailure('');
    try {
      await actions.openAddress(address.trim());
      setAddress('');
    } catch (reason) {
      setFailure(errorMessage(reason));
    }
    setBusy(false);
  };
  return (
    <section className="ownlab-Start-open" aria-label={text('Open a notebook')}>
      <form
        onSubmit={event => {
          event.preventDefault();
          void open();
        }}
      >
        <input
          ref={field}
          type="text"
          inputMode="url"
          spellCheck={false}
          autoComplete="off"
          aria-label={text('Address of a notebook')}
          aria-invalid={failure !== ''}
          aria-describedby={failure ? 'ownlab-start-failure' : undefined}
          placeholder={text('Open a GitHub, Colab, gist or Hugging Face address')}
          value={address}
          onChange={event => setAddress(event.target.value)}
        />
        <button type="submit" className="ownlab-Start-button ownlab-mod-primary" disabled={busy}>
          {busy ? text('Downloading…') : text('Open')}
        </button>
        {actions.canUpload && (
          <button type="button" className="ownlab-Start-button" title={text('Upload files, or drop them on this page')} onClick={() => files.current?.click()}>
            {text('Upload')}
          </button>
        )}
      </form>
      <input
        ref={files}
        type="file"
        multiple
        hidden
        aria-label={text('Files to upload')}
        onChange={event => {
          actions.upload([...(event.target.files ?? [])]);
          event.target.value = '';
        }}
      />
      {failure && (
        <p id="ownlab-start-failure" className="ownlab-Notice ownlab-mod-failure" role="alert">
          {failure}
        </p>
      )}
    </section>
  );
}
