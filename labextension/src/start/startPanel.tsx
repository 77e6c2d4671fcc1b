/** The start page: this machine in one line, new notebooks, notebooks from elsewhere, recent ones, and examples. */
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import * as React from 'react';
import { ownlabIcon } from '../icons';
import type { LiveSnapshot } from '../runtimes/liveSnapshot';
import { text } from '../text';
import { DataSetList } from './dataSetList';
import { EnvironmentList } from './environmentList';
import type { EnvironmentsModel } from './environmentsModel';
import { ExampleList } from './exampleList';
import type { LauncherItems } from './launcherItems';
import { NewNotebook } from './newNotebook';
import { OpenField } from './openField';
import { OtherItems } from './otherItems';
import { RecentList } from './recentList';
import { describeMachine, greeting } from './sentences';
import type { IStartActions } from './startActions';
import type { StartModel } from './startModel';

/** The environment of new notebooks, as it was chosen last in this browser. */
const ENVIRONMENT_KEY = 'ownlab:start-environment';

export interface IStartPanelOptions {
  model: StartModel;
  environments: EnvironmentsModel;
  live: LiveSnapshot;
  items: LauncherItems;
  actions: IStartActions;
}

export class StartPanel extends ReactWidget {
  constructor(private readonly _options: IStartPanelOptions) {
    super();
    this.addClass('ownlab-Start');
    this.title.icon = ownlabIcon;
    this.title.label = text('Start');
    this.title.caption = text('Start page');
    this.node.tabIndex = -1;
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._options.model.refresh();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    document.addEventListener('visibilitychange', this._onVisibility);
    // After the first paint: nothing on the page waits for it.
    requestAnimationFrame(() => this._options.model.refresh());
  }

  protected override onBeforeDetach(message: Message): void {
    document.removeEventListener('visibilitychange', this._onVisibility);
    super.onBeforeDetach(message);
  }

  protected override render(): React.JSX.Element {
    const { model, live, items } = this._options;
    return (
      <UseSignal signal={model.changed}>
        {() => (
          <UseSignal signal={live.changed}>
            {() => <UseSignal signal={items.changed}>{() => <StartContent {...this._options} />}</UseSignal>}
          </UseSignal>
        )}
      </UseSignal>
    );
  }

  private readonly _onVisibility = (): void => {
    if (document.visibilityState === 'visible' && this.isVisible) {
      this._options.model.refresh();
    }
  };
}

function StartContent({ model, environments, live, items, actions }: IStartPanelOptions): React.JSX.Element {
  const [dropping, setDropping] = React.useState(false);
  const [environment, chooseEnvironment] = React.useState(localStorage.getItem(ENVIRONMENT_KEY) ?? 'default');
  const setEnvironment = (name: string): void => {
    localStorage.setItem(ENVIRONMENT_KEY, name);
    chooseEnvironment(name);
  };
  React.useEffect(() => {
    // Whoever waits for an environment wants to use it next.
    const onCreated = (_: EnvironmentsModel, name: string): void => {
      if (name !== 'default') {
        setEnvironment(name); // "default" is what people have who did not choose
      }
    };
    environments.created.connect(onCreated);
    return () => void environments.created.disconnect(onCreated);
  }, [environments]);
  const isFiles = (event: React.DragEvent): boolean => actions.canUpload && event.dataTransfer.types.includes('Files');
  return (
    <div
      className={`ownlab-Start-scroll${dropping ? ' ownlab-mod-dropping' : ''}`}
      onDragOver={event => {
        if (isFiles(event)) {
          event.preventDefault();
          setDropping(true);
        }
      }}
      onDragLeave={event => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) {
          setDropping(false);
        }
      }}
      onDrop={event => {
        if (isFiles(event)) {
          event.preventDefault();
          setDropping(false);
          actions.upload([...event.dataTransfer.files]);
        }
      }}
    >
      <div className="ownlab-Start-page">
        <header className="ownlab-Start-head">
          <h1>{greeting(new Date().getHours())}</h1>
          {model.page && <span className="ownlab-Start-soft">{model.page.hostname}</span>}
        </header>
        <MachineLine model={model} live={live} showDoctor={actions.showDoctor} />
        {model.failure && (
          <p className="ownlab-Notice ownlab-mod-failure" role="alert">
            {model.failure}
          </p>
        )}
        <NewNotebook live={live} environment={environment} setEnvironment={setEnvironment} create={actions.createNotebook} />
        <OpenField actions={actions} />
        <div className="ownlab-Start-columns">
          <div>
            <RecentList model={model} live={live} open={actions.open} />
            <DataSetList dataSets={model.page?.data_sets ?? []} live={live} show={actions.showDataSet} />
            <OtherItems live={live} items={items} environment={environment} actions={actions} />
          </div>
          <div>
            <UseSignal signal={environments.changed}>{() => <EnvironmentList model={environments} />}</UseSignal>
            <ExampleList examples={model.page?.examples ?? []} open={actions.openExample} />
          </div>
        </div>
      </div>
      {dropping && <div className="ownlab-Start-drop">{text('Drop the files to upload them to {folder}', { folder: actions.folderName() })}</div>}
    </div>
  );
}

function MachineLine({ model, live, showDoctor }: { model: StartModel; live: LiveSnapshot; showDoctor: () => void }): React.JSX.Element {
  const { report, doctorFailure } = model;
  const dot = report?.gpu_work === 'no' && live.current?.cards.length === 0 ? 'cpu' : (report?.gpu_work ?? 'none');
  const verdict = report?.sentence ?? (doctorFailure || text('This machine is being examined.'));
  return (
    <p className="ownlab-Start-machine" role="status" aria-label={text('This machine')}>
      <span className={`ownlab-Start-dot ownlab-mod-${dot}`} aria-hidden="true" />
      <span>
        {describeMachine(verdict, live.current?.cards ?? [])}{' '}
        <button className="ownlab-Start-link" onClick={showDoctor}>
          {text('Details')}
        </button>
      </span>
    </p>
  );
}
