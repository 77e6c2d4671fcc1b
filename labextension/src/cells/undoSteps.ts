/** What one Ctrl+Z undoes in a cell. */

/** Let the next change of a cell be an undo step of its own, however soon it follows. */
export function endUndoStep(shared: object): void {
  const { undoManager } = shared as { undoManager?: { stopCapturing(): void } | null };
  undoManager?.stopCapturing();
}
