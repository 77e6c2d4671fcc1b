"""Paths for files that the kernel and the server exchange: the server does not see all of the kernel's files.

In Colab mode the kernel has its own view of the file system: the runtime's folder (OWNLAB_CONTENT) is /content, and the
person's Drive (OWNLAB_DRIVE) is where it was mounted.
"""

import atexit
import os
import shutil
import tempfile
from typing import Optional

CONTENT = "/content"


def for_server(path: str) -> str:
    """Return a path under which the server finds this file: its own, or of a copy that is deleted with the kernel.

    A folder becomes a zip file.
    """
    name = os.path.basename(os.path.abspath(path))
    if os.path.isdir(path):
        return shutil.make_archive(os.path.join(_kernel_folder(), name), "zip", path)
    outside = path_outside(path)
    return outside if outside and _is_served(outside) else shutil.copy2(path, os.path.join(_kernel_folder(), name))


def path_outside(path: str) -> Optional[str]:
    """Return the file's path as the server sees it; None where it does not see it."""
    real, content = os.path.realpath(path), os.environ.get("OWNLAB_CONTENT", "")
    drive = _drive_of(real)
    for inside, outside in ((drive, os.environ.get("OWNLAB_DRIVE", "")), (CONTENT, content)):
        if inside and outside and real.startswith(inside + os.sep):
            candidate = outside + real[len(inside) :]
            if os.path.exists(candidate) and os.path.samefile(real, candidate):
                return candidate
    is_private = bool(drive) or real.startswith(CONTENT + os.sep)
    return None if content and is_private else real


def staging() -> str:
    """Create a folder to exchange files with the server; both see it under this path."""
    return tempfile.mkdtemp(prefix=".ownlab-", dir=os.environ.get("OWNLAB_CONTENT") or None)


def _is_served(path: str) -> bool:
    """Return whether the server gives this file to a page: in the runtime's folder, the Drive, or the notebook's folder."""
    notebook = os.environ.get("JPY_SESSION_NAME", "")
    folders = [os.environ.get("OWNLAB_CONTENT", ""), os.environ.get("OWNLAB_DRIVE", ""), os.path.dirname(notebook)]
    real = os.path.realpath(path)
    return any(real.startswith(os.path.join(os.path.realpath(each), "")) for each in folders if each)


def _kernel_folder() -> str:
    folder = staging()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _drive_of(real: str) -> str:
    """Return the mount point of the Drive that contains this file; "" where none does."""
    for name in ("MyDrive", "My Drive"):
        before, found, _ = real.partition(os.sep + name + os.sep)
        if found:
            return os.path.join(before, name)
    return ""
