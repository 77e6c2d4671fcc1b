/** A notebook in memory, as edits see it. */
import type { ICellState, Metadata } from '../src/edits/baseline';
import type { ChangedCell, MetadataPatch, OutputsPatch } from '../src/records';
import type { IEditableNotebook } from '../src/edits/remoteChanges';

export class MemoryNotebook implements IEditableNotebook {
  constructor(sources: Record<string, string>) {
    Object.entries(sources).forEach(([id, source]) => this.add(id, source));
  }

  order: string[] = [];
  metadata: Metadata = {};
  focused = '';
  running = '';
  /** What happened, apart from edits of the user. */
  readonly log: string[] = [];

  add(id: string, source: string, index = this.order.length): void {
    this.order.splice(index, 0, id);
    this.cells.set(id, { type: 'code', source, metadata: {}, attachments: null });
  }

  type(id: string, source: string): void {
    this.cells.set(id, { ...this.existing(id), source });
  }

  remove(id: string): void {
    this.order = this.order.filter(other => other !== id);
    this.cells.delete(id);
  }

  get text(): string {
    return this.order.map(id => `${id}=${this.existing(id).source}`).join(' ');
  }

  cell(id: string): ICellState | undefined {
    return this.cells.get(id);
  }

  setSource(id: string, source: string): void {
    this.type(id, source);
    this.log.push(`source ${id}`);
  }

  replace(id: string, { type, source, metadata, attachments }: ChangedCell): void {
    this.cells.set(id, { type, source, metadata, attachments: attachments ?? null });
    this.log.push(`replace ${id}`);
  }

  patchCellMetadata(id: string, { set, unset }: MetadataPatch): void {
    const metadata = Object.fromEntries(Object.entries({ ...this.existing(id).metadata, ...set }).filter(([key]) => !unset.includes(key)));
    this.cells.set(id, { ...this.existing(id), metadata });
  }

  setAttachments(id: string, attachments: Metadata | null): void {
    this.cells.set(id, { ...this.existing(id), attachments });
  }

  setOutputs(id: string, { outputs }: OutputsPatch): void {
    this.log.push(`outputs ${id} ${outputs.length}`);
  }

  insert(index: number, { id, type, source, metadata, attachments }: ChangedCell): void {
    this.order.splice(index, 0, id);
    this.cells.set(id, { type, source, metadata, attachments: attachments ?? null });
    this.log.push(`insert ${id}`);
  }

  move(from: number, to: number): void {
    const [id = ''] = this.order.splice(from, 1);
    this.order.splice(to, 0, id);
    this.log.push(`move ${id}`);
  }

  delete(index: number): void {
    const [id = ''] = this.order.splice(index, 1);
    this.cells.delete(id);
    this.log.push(`delete ${id}`);
  }

  patchMetadata({ set, unset }: MetadataPatch): void {
    this.metadata = Object.fromEntries(Object.entries({ ...this.metadata, ...set }).filter(([key]) => !unset.includes(key)));
  }

  isFocused(id: string): boolean {
    return id === this.focused;
  }

  isRunning(id: string): boolean {
    return id === this.running;
  }

  existing(id: string): ICellState {
    const cell = this.cells.get(id);
    if (!cell) {
      throw new Error(`no cell ${id}`);
    }
    return cell;
  }

  private readonly cells = new Map<string, ICellState>();
}
