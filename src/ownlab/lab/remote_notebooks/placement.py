"""Puts a notebook, from an address or a file, where a lab can show it."""

from __future__ import annotations

import os
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.lab.colab.mode import wants_colab
from ownlab.lab.remote_notebooks.addresses import download_of, is_address, without_secrets
from ownlab.lab.remote_notebooks.download import fetch, notebook_in, save_new

__all__ = ["Placed", "is_shown_in", "place"]


class Placed(NamedTuple):
    """A notebook in a lab's folder."""

    path: str
    source: str  # where it was before; an address without what may be secret
    copied: bool
    colab: bool  # it was written for Colab


def place(source: str, folder: str, root: str) -> Placed:
    """Save what an address or a file holds in `folder`; a file that the lab of `root` shows already stays where it is."""
    if is_address(source) and not os.path.exists(source):
        return _from_address(source, folder)
    return _from_file(source, folder, root)


def is_shown_in(path: str, root: str) -> bool:
    """Whether a lab shows it: below its folder, and neither hidden nor of a name that Jupyter cannot serve."""
    relative = os.path.relpath(path, root)
    return relative.isprintable() and not any(
        part.startswith(".") for part in relative.split(os.sep) if relative != "."
    )


def _from_address(address: str, folder: str) -> Placed:
    download = download_of(address)
    shown = without_secrets(download.url)
    fetched = fetch(download)
    notebook = notebook_in(fetched.data, shown)
    return Placed(_save(folder, fetched.name, fetched.data), shown, copied=True, colab=wants_colab(notebook))


def _from_file(given: str, folder: str, root: str) -> Placed:
    # The folder's real path, with the file's own name: a link to a notebook is what is opened, not what it leads to.
    parent, name = os.path.split(os.path.abspath(os.path.expanduser(given)))
    path = os.path.join(os.path.realpath(parent), name)
    told = path.encode(errors="backslashreplace").decode()
    if not os.path.isfile(path):  # a folder, or a pipe, on which one would wait for ever
        raise InputError(
            f"{told} is {'no file' if os.path.exists(path) else 'not there'}",
            hint="Give a notebook's file, or an address that begins with https://",
        )
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as exc:
        raise InputError(f"{told} cannot be read: {exc.strerror}") from exc
    colab = wants_colab(notebook_in(data, told))
    if is_shown_in(path, root):
        return Placed(path, told, copied=False, colab=colab)
    return Placed(_save(folder, name, data), told, copied=True, colab=colab)


def _save(folder: str, name: str, data: bytes) -> str:
    try:
        return save_new(folder, name, data)
    except OSError as exc:
        raise InputError(f"the notebook cannot be saved in {folder}: {exc.strerror}") from exc
