"""Notebooks: how they are parsed, written, and updated from journals.

- `parsing`: the notebook parser, used everywhere (bytes to a dict, or to nbformat's type), and cell ids.
- `files`: read and write notebook files.
- `merging`: merge what runtimes sent, according to their journals, into a notebook.
- `trust`: which outputs were made on this machine and may be shown in full.
"""
