"""The data sets of `ownlab data`, those that were used last. Nothing of them is read, and nothing is removed."""

from __future__ import annotations

import os

from ownlab.lab.start_page.records import ListedDataSet

__all__ = ["recent_data_sets"]


def recent_data_sets(root: str, most: int) -> tuple[ListedDataSet, ...]:
    """Return the data sets of this person. `root`: the folder of the lab."""
    from ownlab.instruments.data.staging.pipeline import list_data_sets  # not while the server starts

    root = os.path.realpath(root)
    return tuple(
        ListedDataSet(
            row.path, _place(row.path, root), row.kind, row.source, row.size, row.files, row.last_used, row.state
        )
        for row in list_data_sets().data_sets[:most]
    )


def _place(path: str, root: str) -> str | None:
    """Return JupyterLab's path of a folder, if the file browser shows it."""
    inside = os.path.relpath(os.path.realpath(path), root)
    hidden = inside == os.pardir or any(part.startswith(".") and part != os.curdir for part in inside.split(os.sep))
    return None if hidden else inside.replace(os.sep, "/")
