"""Import a notebook from an address or a file into a lab's folder. Nothing there is overwritten, and no name leads out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ownlab.download import Downloaded, download, without_secrets
from ownlab.errors import InputError
from ownlab.input_files import read_bytes
from ownlab.lab.colab.detection import wants_colab
from ownlab.lab.notebooks.parsing import parse_notebook
from ownlab.lab.remote_notebooks.addresses import RemoteFile, check_address, is_address, resolve
from ownlab.lab.secrets.store import forget_notebook
from ownlab.text import text

__all__ = [
    "ImportedNotebook",
    "filename_of",
    "import_address",
    "import_notebook",
    "is_visible_in",
    "read_notebook",
    "safe_name",
    "save_new",
]

_MAX_NAME_BYTES = 200  # file systems allow 255
_SUFFIX = ".ipynb"
_UNSAFE = str.maketrans(dict.fromkeys('/\\<>:"|?*', "_"))


class ImportedNotebook(NamedTuple):
    """A notebook in a lab's folder."""

    path: str
    source: str  # where it came from; an address without credentials
    copied: bool
    colab: bool  # it was written for Colab


def import_notebook(source: str, folder: str, root: str) -> ImportedNotebook:
    """Save the notebook at an address or path in `folder`. A file that the lab of `root` shows already stays where it is."""
    if is_address(source) and not os.path.exists(source):
        return import_address(source, folder)
    return _import_file(source, folder, root)


def is_visible_in(path: str, root: str) -> bool:
    """Return whether a lab shows this path: it is below `root`, not hidden, and has a name that Jupyter can serve."""
    relative = os.path.relpath(path, root)
    return relative.isprintable() and not any(
        part.startswith(".") for part in relative.split(os.sep) if relative != "."
    )


def import_address(address: str, folder: str) -> ImportedNotebook:
    """Download the notebook at an address into `folder`. UsageError if it is not an address."""
    check_address(address)
    remote = resolve(address)
    shown = without_secrets(remote.url)
    downloaded = download(remote.url)
    notebook = read_notebook(downloaded.data, shown)
    path = _save(folder, filename_of(remote, downloaded), downloaded.data)
    return ImportedNotebook(path, shown, copied=True, colab=wants_colab(notebook))


def _import_file(given: str, folder: str, root: str) -> ImportedNotebook:
    # The real path of the folder, but the file's own name: a link to a notebook is opened as itself, not as its target.
    parent, name = os.path.split(os.path.abspath(os.path.expanduser(given)))
    path = os.path.join(os.path.realpath(parent), name)
    shown = path.encode(errors="backslashreplace").decode()
    if not os.path.isfile(path):  # a folder; or a pipe, on which one would wait for ever
        hint = text("Pass the path of a notebook, or an address that begins with https://")
        if os.path.exists(path):
            raise InputError(text("{path} is not a regular file.", path=shown), hint=hint)
        raise InputError(text("{path} does not exist.", path=shown), hint=hint)
    data = read_bytes(path)
    colab = wants_colab(read_notebook(data, shown))
    if is_visible_in(path, root):
        return ImportedNotebook(path, shown, copied=False, colab=colab)
    return ImportedNotebook(_save(folder, name, data), shown, copied=True, colab=colab)


def read_notebook(data: bytes, source: str) -> dict[str, Any]:
    """Parse a notebook that may be something else. InputError names what it is instead: a web page, a Git LFS pointer."""
    begin = data[:512].decode(errors="replace").lstrip("\ufeff \t\r\n").lower()
    if begin.startswith(("<!doctype", "<html", "<?xml", "<head", "<!--")):
        raise InputError(
            text("{source} is a web page, not a notebook.", source=source),
            hint=text('The page may ask you to sign in, or have a link such as "Raw" or "Download".'),
        )
    if begin.startswith("version https://git-lfs"):
        raise InputError(
            text("{source} is a Git LFS pointer, not the notebook itself.", source=source),
            hint=text(
                "Open the file's page in a browser, download it there, then upload it on the start page, or run: ownlab open FILE"
            ),
        )
    notebook = parse_notebook(data, source)
    if not isinstance(notebook.get("cells"), list) and not isinstance(notebook.get("worksheets"), list):
        raise InputError(text("{name} is not a notebook: it is JSON of another kind.", name=source))
    return notebook


# --- file names -------------------------------------------------------------------------------------------------------


def filename_of(remote: RemoteFile, downloaded: Downloaded) -> str:
    """Choose a file name: from the address, else from the server, else from the address after all redirects."""
    if remote.name:
        return safe_name(remote.name)
    if downloaded.filename:
        return safe_name(downloaded.filename.replace("\\", "/").rpartition("/")[2])
    return safe_name(unquote(urlsplit(downloaded.url).path.rpartition("/")[2]))


def safe_name(suggested: str) -> str:
    """Make a name for a new notebook from what a stranger suggests: no path, not hidden, no control characters."""
    name = "".join(sign if sign.isprintable() else "_" for sign in suggested.translate(_UNSAFE))
    stem = (name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name).strip(" .~-")
    stem = stem.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").rstrip()
    return f"{stem or 'notebook'}{_SUFFIX}"


def save_new(folder: str, name: str, data: bytes) -> str:
    """Write a new file and return its path: "name (1).ipynb" where the name is taken.

    Existing files and links are neither overwritten nor followed, not even dangling links. Secrets that were granted to
    an earlier notebook of this path are revoked.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for free in _numbered(safe_name(name)):
            try:
                descriptor = os.open(free, flags, 0o666, dir_fd=directory)
            except FileExistsError:
                continue
            try:
                with open(descriptor, "wb") as file:
                    forget_notebook(os.path.join(folder, free))
                    file.write(data)
            except BaseException:
                os.unlink(free, dir_fd=directory)
                raise
            return os.path.join(folder, free)
    finally:
        os.close(directory)
    raise AssertionError("there is always another number")


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        yield f"{name[: -len(_SUFFIX)]} ({number}){_SUFFIX}"
        number += 1


def _save(folder: str, name: str, data: bytes) -> str:
    try:
        return save_new(folder, name, data)
    except OSError as exc:
        raise InputError(
            text("Cannot save the notebook in {folder}: {cause}.", folder=folder, cause=exc.strerror)
        ) from exc
