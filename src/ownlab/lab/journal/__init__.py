"""The journal: everything that a kernel and its clients sent, written to disk by the supervisor and replayed into notebooks.

- `records`: one numbered message or event, and its binary format; `json_parts`: its JSON, parsed leniently.
- `storage`: folders and file names, the notebook of each journal, how far it is saved in the notebook's file.
- `writer`: append records in segments; `reader`: read them while they are written and compacted.
- `state`: what a notebook shows after all records, as JupyterLab would (`execution`, `outputs`, `stream_text`, `comms`).
- `gaps`: records that are missing, and what that means for executions; `gap_notes`: what their cells say.
- `death`: why a kernel died, and the notes about it in its cells.
- `replay`: a state as messages for a page that reconnects, and as records for `compaction`.
- `installed_packages`: packages that cells installed, kept in the notebook's metadata.

Supervisors write journals: `records`, `death`, `storage`, `writer` and `reader` import only the standard library and small modules.
"""
