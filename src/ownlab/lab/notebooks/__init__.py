"""Notebooks: how they are parsed, written, and updated from journals.

- `parsing`: the notebook parser, used everywhere (bytes to a dict, or to nbformat's type), and cell ids.
- `files`: read and write notebook files.
- `merging`: merge what runtimes sent, according to their journals, into a notebook.
- `edits`: code as pages type it, until the notebook's file contains it.
- `executed_code`: recovers code that ran from journals, if the file is older.
- `identity`: notebooks by an identity that survives renaming; the folder of a notebook's edits and history.
- `widget_state`: the state of widgets in a notebook's metadata.
- `vscode`: which notebook and which cell VS Code means.
- `trust`: which outputs were made on this machine and may be shown in full.
"""
