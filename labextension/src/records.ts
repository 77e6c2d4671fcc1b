// Generated from the records in Python (make golden rewrites it). Do not edit.
// Sizes are in bytes, times in seconds since the epoch. null: not known, or there is none.

/** A card, or a part of it, that a runtime holds. */
export interface CardShare {
  readonly uuid: string;
  readonly index: number | null;
  readonly name: string;
  readonly parts: number;
  readonly vram: number | null;
  readonly booked: number | null;
  readonly utilisation: number | null;
}

export interface HostState {
  readonly cpu: number | null;
  readonly memory: number | null;
  readonly memory_used: number | null;
  readonly cores: number | null;
  readonly disk: number | null;
  readonly disk_used: number | null;
}

/** One runtime: a kernel with its supervisor, and what it holds. */
export interface Runtime {
  readonly id: string;
  readonly person: string;
  readonly mine: boolean;
  readonly notebook: string;
  readonly lab: string | null;
  readonly type: string;
  readonly label: string;
  readonly state: 'ending' | 'running' | 'starting' | 'waiting';
  readonly place: number | null;
  readonly why: string;
  readonly queued_at: number;
  readonly started_at: number | null;
  readonly busy: boolean;
  readonly changed_at: number;
  readonly cards: ReadonlyArray<CardShare>;
  readonly ram: number | null;
  readonly vram: number | null;
  readonly ends_at: number | null;
  readonly ends_why: string;
  readonly warned: boolean;
  readonly may_extend: boolean;
  readonly units_per_hour: number;
  readonly units: number;
  readonly kernel_pid: number | null;
  readonly cpu: number | null;
  readonly utilisation: number | null;
  readonly node: string;
  readonly host: HostState | null;
}

export interface CardHolder {
  readonly runtime: string;
  readonly person: string;
  readonly notebook: string;
  readonly parts: number;
  readonly since: number;
}

/** How much of a card was active, as NVML's GPM measures it (Hopper and newer): percent of what the card could do. */
export interface Saturation {
  readonly graphics: number | null;
  readonly sm: number | null;
  readonly occupancy: number | null;
  readonly tensor: number | null;
  readonly dram: number | null;
  readonly integer: number | null;
  readonly fp64: number | null;
  readonly fp32: number | null;
  readonly fp16: number | null;
  readonly nvlink_sent: number | null;
  readonly nvlink_received: number | null;
  readonly tensor_fp64: number | null;
}

/** What limits one card's work, over a window of samples. */
export interface Verdict {
  readonly card: string;
  readonly code: string;
  readonly sentence: string;
  readonly advice: string;
  readonly because: ReadonlyArray<string>;
  readonly seconds: number;
  readonly since: number | null;
  readonly inferred: boolean;
}

/** One card and its holders. */
export interface CardState {
  readonly uuid: string;
  readonly vendor: string;
  readonly index: number;
  readonly name: string;
  readonly memory: number | null;
  readonly memory_used: number | null;
  readonly utilisation: number | null;
  readonly free_parts: number;
  readonly holders: ReadonlyArray<CardHolder>;
  readonly strangers: ReadonlyArray<string>;
  readonly saturation: Saturation | null;
  readonly no_saturation: string;
  readonly power: number | null;
  readonly power_limit: number | null;
  readonly temperature: number | null;
  readonly verdict: Verdict | null;
}

/** A type of runtime that can be started; a kernelspec. */
export interface RuntimeType {
  readonly name: string;
  readonly label: string;
  readonly environment: string;
  readonly python: string;
  readonly kind: string | null;
  readonly cards: number;
  readonly parts: number;
  readonly units_per_hour: number;
  readonly free: boolean;
  readonly why_not: string;
  readonly starts_at: number | null;
  readonly engine: string;
  readonly partition: string;
  readonly time_limit: number | null;
}

/** A card in the graph of the last minutes, in percent. */
export interface CardPoint {
  readonly uuid: string;
  readonly utilisation: number | null;
  readonly sm: number | null;
}

/** A runtime in the graph of the last minutes, in percent: of one core, and of the time of its cards. */
export interface RuntimePoint {
  readonly id: string;
  readonly cpu: number | null;
  readonly utilisation: number | null;
}

/** One point of the graph of the last minutes. */
export interface Point {
  readonly at: number;
  readonly cpu: number | null;
  readonly memory_used: number | null;
  readonly vram_used: number | null;
  readonly utilisation: number | null;
  readonly cards: ReadonlyArray<CardPoint>;
  readonly runtimes: ReadonlyArray<RuntimePoint>;
}

/** A script of this user in the queue or on nodes of a cluster (`ownlab run --engine slurm train.py`). */
export interface ScriptJob {
  readonly id: string;
  readonly script: string;
  readonly label: string;
  readonly engine: string;
  readonly reference: string;
  readonly state: string;
  readonly folder: string;
  readonly submitted_at: number;
  readonly why: string;
  readonly nodes: ReadonlyArray<string>;
  readonly ends_at: number | null;
}

/** Everything that the panel shows. */
export interface Snapshot {
  readonly at: number;
  readonly person: string;
  readonly store: string;
  readonly shared: boolean;
  readonly runtimes: ReadonlyArray<Runtime>;
  readonly cards: ReadonlyArray<CardState>;
  readonly types: ReadonlyArray<RuntimeType>;
  readonly host: HostState;
  readonly notices: ReadonlyArray<string>;
  readonly history: ReadonlyArray<Point>;
  readonly jobs: ReadonlyArray<ScriptJob>;
}

/** One value that can be set. `value` is Python source; `start` and `end` are its position in the cell's source. */
export interface Field {
  readonly part: 'field';
  readonly name: string;
  readonly type: 'boolean' | 'date' | 'dropdown' | 'integer' | 'number' | 'raw' | 'slider' | 'string';
  readonly value: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly choices: ReadonlyArray<string> | null;
  readonly value_type: 'boolean' | 'date' | 'dropdown' | 'integer' | 'number' | 'raw' | 'slider' | 'string';
  readonly allow_input: boolean;
  readonly min: number | null;
  readonly max: number | null;
  readonly step: number | null;
  readonly placeholder: string | null;
}

/** Text between fields. */
export interface Markdown {
  readonly part: 'markdown';
  readonly text: string;
  readonly line: number;
}

/** What a cell shows next to, or instead of, its code. */
export interface Form {
  readonly title: string | null;
  readonly parts: ReadonlyArray<Field | Markdown>;
  readonly hidden: boolean;
  readonly auto: boolean;
  readonly vertical: boolean;
  readonly width: string | null;
}

/** The forms of the requested cells, in the same order; null for a cell without a form. Offsets count UTF-16 code units. */
export interface Forms {
  readonly forms: ReadonlyArray<Form | null>;
}

/** What a notebook was made for, and which runtime type fits. */
export interface Proposal {
  readonly made_for: string;
  readonly words: string;
  readonly type: string | null;
  readonly offer: string;
  readonly free: boolean;
}

/** The proposed runtime type; null if none is proposed. */
export interface Proposed {
  readonly proposal: Proposal | null;
}

/** GET …/leftovers: what a runtime has in /content. */
export interface Leftovers {
  readonly runtime: string;
  readonly content: boolean;
  readonly files: number;
  readonly size: number;
  readonly complete: boolean;
}

/** A package that stays, since another one needs it. */
export interface NeededPackage {
  readonly name: string;
  readonly by: string;
}

/** The packages of a notebook that a factory reset uninstalls, as NAME==VERSION, and those that stay. */
export interface RemovablePackages {
  readonly removable: ReadonlyArray<string>;
  readonly needed: ReadonlyArray<NeededPackage>;
  readonly restorable: ReadonlyArray<string>;
  readonly own: ReadonlyArray<string>;
}

/** The packages that were uninstalled; `failed`: why not all. */
export interface RemovedPackages {
  readonly removed: ReadonlyArray<string>;
  readonly failed: string;
  readonly restored: ReadonlyArray<string>;
}

/** A secret without its value. */
export interface Secret {
  readonly name: string;
  readonly where: 'file' | 'keyring';
  readonly notebooks: ReadonlyArray<string>;
  readonly changed: number;
}

/** All secrets of the user, without their values. */
export interface Secrets {
  readonly secrets: ReadonlyArray<Secret>;
  readonly notebook: string | null;
}

/** A cell's text now, and the text that the page had last exchanged with the server; None: the cell is new. */
export interface SourcePatch {
  readonly text: string;
  readonly base: string | null;
}

/** Top-level keys that were set or removed. */
export interface MetadataPatch {
  readonly set: Readonly<Record<string, unknown>>;
  readonly unset: ReadonlyArray<string>;
}

/** Outputs that no journal has: cleared, pasted, or of a kernel without a journal. */
export interface OutputsPatch {
  readonly outputs: ReadonlyArray<Readonly<Record<string, unknown>>>;
  readonly execution_count: number | null;
}

/** What changed in one cell. */
export interface CellPatch {
  readonly id: string;
  readonly type: string;
  readonly source?: SourcePatch | null;
  readonly metadata?: MetadataPatch | null;
  readonly attachments?: Readonly<Record<string, unknown>> | null;
  readonly outputs?: OutputsPatch | null;
}

/** The ids of all cells now, and when the page last exchanged them with the server. */
export interface OrderPatch {
  readonly base: ReadonlyArray<string>;
  readonly now: ReadonlyArray<string>;
}

/** The body of POST /ownlab/api/notebooks/edits. */
export interface Patch {
  readonly notebook: string;
  readonly page: string;
  readonly number: number;
  readonly version?: number;
  readonly seen?: string | null;
  readonly client?: string | null;
  readonly at?: number;
  readonly before?: Patch | null;
  readonly cells?: ReadonlyArray<CellPatch>;
  readonly deleted?: Readonly<Record<string, string>>;
  readonly order?: OrderPatch | null;
  readonly metadata?: MetadataPatch | null;
}

/** A cell that changed. */
export interface ChangedCell {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly attachments?: Readonly<Record<string, unknown>>;
  readonly outputs?: OutputsPatch;
}

/** Two edits of the same lines of a cell. `other` is the text that was not kept; the history has it too. */
export interface Conflict {
  readonly cell: string;
  readonly other: string;
  readonly at: number;
}

/** A cell that shows the code that ran, since its file had another text. `other` is that text. */
export interface Recovered {
  readonly cell: string;
  readonly other: string;
  readonly at: number;
}

/** What changed in a notebook after a version. */
export interface Changes {
  readonly version: number;
  readonly cells: ReadonlyArray<ChangedCell>;
  readonly deleted: ReadonlyArray<string>;
  readonly order: ReadonlyArray<string> | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly conflicts: ReadonlyArray<Conflict>;
  readonly recovered: ReadonlyArray<Recovered>;
}

/** A message to all pages: a notebook has changed. */
export interface NewVersion {
  readonly notebook: string;
  readonly version: number;
}

/** A message to all pages: a notebook or folder was renamed, perhaps by another client. */
export interface Renamed {
  readonly renamed: string;
  readonly path: string;
}

/** A version of a notebook. */
export interface Version {
  readonly id: string;
  readonly at: number;
  readonly reason: 'before-restore' | 'conflict' | 'deleted' | 'edited' | 'named' | 'opened' | 'recovered' | 'restored';
  readonly cells: number;
  readonly changed: number;
  readonly name: string | null;
  readonly content: string;
  readonly lost: number;
}

/** `ownlab history NOTEBOOK --json`, and GET /ownlab/api/notebooks/history: newest first. */
export interface NotebookHistory {
  readonly notebook: string;
  readonly versions: ReadonlyArray<Version>;
  readonly bytes: number;
}

/** A version with its notebook, in Jupyter's format. */
export interface VersionContent {
  readonly version: Version;
  readonly notebook: Readonly<Record<string, unknown>>;
}

/** A notebook that was deleted in a lab and can be restored. */
export interface DeletedNotebook {
  readonly id: string;
  readonly path: string;
  readonly deleted_at: number;
}

/** `ownlab history --deleted --json`, and GET /ownlab/api/notebooks/deleted: newest first. */
export interface DeletedNotebooks {
  readonly notebooks: ReadonlyArray<DeletedNotebook>;
}

/** A notebook that was used lately, and what happened to it. */
export interface RecentNotebook {
  readonly path: string;
  readonly file: string;
  readonly changed_at: number;
  readonly edited_at: number | null;
  readonly versions_today: number;
  readonly ran_at: number | null;
  readonly run_seconds: number | null;
  readonly failed_cells: number;
  readonly stopped: boolean;
  readonly died_at: number | null;
  readonly died_of: string;
  readonly owner: string;
  readonly read_only: boolean;
}

/** One example as the start page lists it. */
export interface Example {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly minutes: number;
  readonly packages: ReadonlyArray<string>;
}

/** A data set that `ownlab data` has brought here, unpacked, packed or staged. */
export interface ListedDataSet {
  readonly path: string;
  readonly place: string | null;
  readonly kind: 'downloaded' | 'packed' | 'staged' | 'unpacked';
  readonly source: string;
  readonly size: number;
  readonly files: number;
  readonly last_used: number;
  readonly state: 'complete' | 'copying' | 'missing' | 'partial';
}

/** How far a build is. */
export interface EnvironmentProgress {
  readonly phase: 'checking' | 'downloading' | 'installing' | 'resolving';
  readonly message: string;
  readonly fraction: number | null;
  readonly done_bytes: number | null;
  readonly total_bytes: number | null;
  readonly started_at: number;
}

/** An environment, or a build of one. */
export interface EnvironmentState {
  readonly name: string;
  readonly status: 'building' | 'cancelled' | 'failed' | 'interrupted' | 'missing' | 'ready' | 'updating';
  readonly created: boolean;
  readonly preset: string;
  readonly packages: ReadonlyArray<string>;
  readonly python: string;
  readonly version: string;
  readonly size_bytes: number | null;
  readonly proof: string;
  readonly proven: boolean | null;
  readonly progress: EnvironmentProgress | null;
  readonly error: string;
  readonly hint: string;
  readonly notes: ReadonlyArray<string>;
}

/** A set of packages under a name. */
export interface EnvironmentPreset {
  readonly name: string;
  readonly environment: string;
  readonly packages: ReadonlyArray<string>;
}

/** GET /ownlab/api/environments, and `ownlab env list --json` under the key `states`. */
export interface Environments {
  readonly environments: ReadonlyArray<EnvironmentState>;
  readonly presets: ReadonlyArray<EnvironmentPreset>;
}

/** A finding of the doctor. */
export interface ReportedFinding {
  readonly code: string;
  readonly severity: 'error' | 'note' | 'warning';
  readonly title: string;
  readonly evidence: ReadonlyArray<string>;
  readonly meaning: string;
  readonly fix: ReadonlyArray<string>;
}

/** The doctor's verdict on this machine and one environment: GET /ownlab/api/doctor. */
export interface DoctorReport {
  readonly gpu_work: 'no' | 'unknown' | 'yes';
  readonly sentence: string;
  readonly environment: string;
  readonly python: string;
  readonly checked_at: number;
  readonly findings: ReadonlyArray<ReportedFinding>;
}

/** GET /ownlab/api/start. `doctor`: null until the machine has been examined; `environments`: null if they cannot be listed. */
export interface StartPage {
  readonly hostname: string;
  readonly recent: ReadonlyArray<RecentNotebook>;
  readonly examples: ReadonlyArray<Example>;
  readonly data_sets: ReadonlyArray<ListedDataSet>;
  readonly environments: Environments | null;
  readonly doctor: DoctorReport | null;
}

/** The result of opening an address or an example: JupyterLab's path of the notebook. */
export interface PlacedNotebook {
  readonly path: string;
  readonly colab: boolean;
}

/** A request for an environment. With a name alone it continues what was requested before under that name. */
export interface NewEnvironment {
  readonly name: string;
  readonly preset: string;
  readonly packages: ReadonlyArray<string>;
  readonly python: string;
}

/** A package that a request needs. */
export interface PlannedPackage {
  readonly name: string;
  readonly version: string;
  readonly size_bytes: number | null;
}

/** What a request would install. */
export interface EnvironmentPlan {
  readonly packages: ReadonlyArray<PlannedPackage>;
  readonly download_bytes: number | null;
  readonly notes: ReadonlyArray<string>;
  readonly python: string;
}

/** The file system with the lab's folder. Sizes are in bytes. */
export interface DiskUse {
  readonly folder: string;
  readonly total: number;
  readonly free: number;
  readonly nearly_full: boolean;
  readonly drive: string | null;
}

export interface FailureDetails {
  readonly kind: string;
  readonly message: string;
  readonly meaning: string;
  readonly hint: string;
  readonly exit_code: number;
}

/** The document that every command prints with --json if it fails. */
export interface Failure {
  readonly error: FailureDetails;
}
