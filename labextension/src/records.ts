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
}

export interface HostState {
  readonly cpu: number | null;
  readonly memory: number | null;
  readonly memory_used: number | null;
  readonly cores: number | null;
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
