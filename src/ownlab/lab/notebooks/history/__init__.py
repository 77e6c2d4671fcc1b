"""The history of notebooks: versions by time, which can be compared and restored.

- `records`: a version, and lists of versions.
- `version_store`: the versions of one notebook on disk; content that versions share is stored once.
- `recorder`: adds versions when something happens to a notebook.
- `retention`: which versions are kept.
- `comparison`: the differences of two versions, cell by cell.
- `deleted`: notebooks that were deleted in a lab.
"""
