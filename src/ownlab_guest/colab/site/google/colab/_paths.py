"""Files between this kernel and the server, which does not see all that the kernel sees.

In Colab mode the kernel has a view of the file system of its own: the runtime's folder (OWNLAB_CONTENT) is /content, and
a person's Drive (OWNLAB_DRIVE) is where it was mounted.
"""

import atexit
import os
import shutil
import tempfile
from typing import Optional

CONTENT = "/content"


def for_server(path: str) -> str:
    """A path under which the server finds this file: its own, or that of a copy which goes with the kernel.

    A folder becomes a zip file.
    """
    name = os.path.basename(os.path.abspath(path))
    if os.path.isdir(path):
        return shutil.make_archive(os.path.join(_kept(), name), "zip", path)
    known = seen_outside(path)
    return known if known and _is_open(known) else shutil.copy2(path, os.path.join(_kept(), name))


def seen_outside(path: str) -> Optional[str]:
    """Where the server finds this file; None where it does not."""
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
    """A new folder for files that come from the server or go there; both see it under this path."""
    return tempfile.mkdtemp(prefix=".ownlab-", dir=os.environ.get("OWNLAB_CONTENT") or None)


def _is_open(path: str) -> bool:
    """Whether the server gives files of this folder to a page: the runtime's own, the Drive, the notebook's."""
    notebook = os.environ.get("JPY_SESSION_NAME", "")
    folders = [os.environ.get("OWNLAB_CONTENT", ""), os.environ.get("OWNLAB_DRIVE", ""), os.path.dirname(notebook)]
    real = os.path.realpath(path)
    return any(real.startswith(os.path.join(os.path.realpath(each), "")) for each in folders if each)


def _kept() -> str:
    folder = staging()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _drive_of(real: str) -> str:
    """Where the Drive is mounted that this file is in; "" where it is in none."""
    for name in ("MyDrive", "My Drive"):
        before, found, _ = real.partition(os.sep + name + os.sep)
        if found:
            return os.path.join(before, name)
    return ""
