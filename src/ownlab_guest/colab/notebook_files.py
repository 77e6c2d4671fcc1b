"""Copies of files that are beside a notebook, in its /content: what the notebook reads is there, and the originals stay as they are.

Copies on request, and no overlay of the notebook's folder: there `git clone`, `mkdir` and `unzip` would meet what is beside the
notebook already, /content would list a whole home, and an overlay does not notice what changes in its lower folder, such
as a picture that is uploaded after a cell has missed it.
"""

import contextlib
import fcntl
import fnmatch
import glob
import json
import os
import shutil
import stat
import threading
from typing import Dict, Iterator, List, NamedTuple, Tuple

from ownlab_guest.atomic_files import replace_file

__all__ = ["NotebookFiles"]

RECORD = os.path.join(".config", "notebook_files.json")  # in /content, for the runtime's next kernel
# Colab has these, and the drive's folder has to be empty before it is mounted.
NEVER = (".config", "drive", "gdrive", "sample_data")
SKIPPED = (".git", ".ipynb_checkpoints", "__pycache__")  # in a folder that is copied
# More takes so long that nobody would expect it of open(): what is larger is named in the hint after the error.
MAX_BYTES = 4 << 30
MAX_FILES = 20_000
# Of what a cell only might read, or lists without a name.
MAYBE_BYTES = 256 << 20
MAYBE_FILES = 2_000
DISK_PART = 4  # copies take at most this part of the free space
FICLONE = 0x40049409  # linux/fs.h: share the blocks, where the file system can


class Stamp(NamedTuple):
    """What an original looked like when it was copied; its copy looks the same until the notebook changes it."""

    changed_ns: int
    size: int


class NotebookFiles:
    """Files of the notebook's folder that are copied into /content when the notebook asks for them."""

    def __init__(self, content: str, folder: str) -> None:
        self._content, self._folder = content, os.path.realpath(folder)
        self._owner = os.getpid()
        self._files: Dict[str, Stamp] = {}
        self._folders: List[str] = []  # made by us: they may lack what nobody has asked for
        self._new: List[str] = []
        self._load()

    def has_any(self) -> bool:
        """Return whether there is anything but notebooks beside the notebook."""
        try:
            with os.scandir(self._folder) as entries:
                return any(not entry.name.startswith(".") and not entry.name.endswith(".ipynb") for entry in entries)
        except OSError:
            return False

    def name_of(self, path: str) -> str:
        """Return the name in /content that a path means, whether there is such a file or not; "" if it is elsewhere."""
        if path.startswith("/") and not path.startswith(self._content + "/"):
            return ""
        try:
            full = os.path.normpath(os.path.join(os.getcwd(), path))
        except OSError:  # the working folder was deleted
            return ""
        name = full[len(self._content) + 1 :] if full.startswith(self._content + "/") else ""
        return name if name.split("/")[0] not in NEVER else ""

    def bring_file(self, name: str) -> bool:
        """Copy a file that is missing, or has changed beside the notebook since it was copied. Return whether it is one."""
        if name in self._files:
            self._update(name)
            return True
        target, source = os.path.join(self._content, name), os.path.join(self._folder, name)
        if os.path.lexists(target) or not self._is_ours(source, stat.S_ISREG):
            return False
        if os.stat(source).st_size > self._room():
            return False
        self._copy(name)
        self._finish(name)
        return True

    def has_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name beside the notebook."""
        return self._is_ours(os.path.join(self._folder, name), stat.S_ISDIR)

    def begin_folder(self, name: str) -> bool:
        """Make a folder that is missing, without its files: they come when it is listed. Return whether it is one of ours."""
        if name in self._folders or not self.has_folder(name):
            return False  # what the notebook has deleted stays away
        self._make_folder(name)
        return True

    def bring_folder(self, name: str, maybe: bool = False) -> None:
        """Copy a folder that is missing, or the rest of one of which some files were copied before.

        `maybe`: nobody has asked for it yet, so that it must be small.
        """
        if not self.has_folder(name):
            return
        exists, is_ours = os.path.lexists(self.path_of(name)), name in self._folders
        if exists != is_ours:
            return  # the notebook has made or deleted it
        for each in [each for each in self._files if each.startswith(name + "/")]:
            self._update(each)
        missing = self._missing(name, *((MAYBE_BYTES, MAYBE_FILES) if maybe else (self._room(), MAX_FILES)))
        if missing is None:
            return
        folders, files = missing
        for each in folders:
            self._make_folder(each)
        for each in files:
            self._copy(each)
        if folders or files:
            self._finish(name + "/")

    def bring_matching(self, pattern: str, maybe: bool = False) -> None:
        """Copy the files directly in the notebook's folder that match a pattern, unless it matches everything.

        `maybe`: nobody has asked for them yet, so that they must be few and small.
        """
        if pattern.strip("*.") and glob.has_magic(pattern):
            self._bring_some(fnmatch.filter(self._beside(), pattern), maybe)

    def bring_all(self, deep: bool = False) -> None:
        """Copy the files directly in the notebook's folder, if they are few and small, and make its folders: it is listed.

        `deep`: with what is in these folders, because a command lists them.
        """
        names = [name for name in self._beside() if name not in SKIPPED]
        self._bring_some(names, maybe=True)
        for name in names[:MAYBE_FILES]:
            if deep:
                self.bring_folder(name, maybe=True)
            else:
                self.begin_folder(name)

    def _beside(self) -> List[str]:
        try:
            return [name for name in sorted(os.listdir(self._folder)) if name not in NEVER]
        except OSError:
            return []

    def _bring_some(self, names: List[str], maybe: bool) -> None:
        files = [name for name in names if self._is_ours(os.path.join(self._folder, name), stat.S_ISREG)]
        if maybe:  # notebooks beside a notebook are seldom its data; one that is named is copied
            files = [name for name in files if not name.endswith(".ipynb")]
        size = sum(os.stat(os.path.join(self._folder, name)).st_size for name in files)
        if not maybe or (len(files) <= MAYBE_FILES and size <= min(MAYBE_BYTES, self._room())):
            for name in files:
                self.bring_file(name)

    def bring_module(self, name: str) -> List[str]:
        """Copy a module, or a package, for a script that runs in a process of its own. Return the names of its files."""
        if os.path.isfile(os.path.join(self._folder, name, "__init__.py")):
            is_new = not os.path.lexists(os.path.join(self._content, name))
            self.bring_folder(name)
            return (
                [each for each in self._files if each.startswith(name + "/") and each.endswith(".py")] if is_new else []
            )
        is_new = name + ".py" not in self._files
        return [name + ".py"] if self.bring_file(name + ".py") and is_new else []

    def path_of(self, name: str) -> str:
        """Return the path of a copy."""
        return os.path.join(self._content, name)

    def take_new(self) -> List[str]:
        """Return the names that were copied since the last call; those of folders end with a slash."""
        new, self._new = self._new, []
        return new

    def _is_ours(self, source: str, kind: "object") -> bool:
        """Return whether this is a file (or a folder) in the notebook's folder, also by its links, and not around /content."""
        try:
            mode, real = os.stat(source).st_mode, os.path.realpath(source)
        except (OSError, ValueError):
            return False
        content = os.path.realpath(os.environ.get("OWNLAB_CONTENT") or self._content)
        is_around = content.startswith(real + "/") or content == real
        return bool(kind(mode)) and real.startswith(self._folder + "/") and not is_around  # type: ignore[operator]

    def _room(self) -> int:
        disk = os.statvfs(self._content)
        return min(MAX_BYTES, disk.f_bavail * disk.f_frsize // DISK_PART)

    def _missing(self, name: str, left: int, most: int) -> "Tuple[List[str], List[str]] | None":
        """Return the folders and files to copy, or None if they are too many or too large."""
        folders, files = [], []
        left = min(left, self._room())
        for each, size in self._walk(name):
            if size is None:
                folders.append(each)
            elif each not in self._files and not os.path.lexists(self.path_of(each)):
                files.append(each)
                left -= size
            if left < 0 or len(folders) + len(files) > most:
                return None
        return [each for each in folders if not os.path.lexists(self.path_of(each))], files

    def _walk(self, name: str) -> "Iterator[Tuple[str, int | None]]":
        """Yield the folders, without a size, and the files of a folder. Links to folders are not followed."""
        yield name, None
        with os.scandir(os.path.join(self._folder, name)) as entries:
            below = sorted(entries, key=lambda entry: entry.name)
        for entry in below:
            each = os.path.join(name, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    yield from self._walk(each)
            elif self._is_ours(entry.path, stat.S_ISREG):
                yield each, entry.stat().st_size

    def _make_folder(self, name: str) -> None:
        if name and not os.path.lexists(self.path_of(name)):
            self._make_folder(os.path.dirname(name))
            os.mkdir(self.path_of(name))
            self._folders.append(name)

    def _update(self, name: str) -> None:
        """Copy a file again that has changed, unless the notebook changed or deleted the copy."""
        try:
            original, copy = (_stamp(os.path.join(each, name)) for each in (self._folder, self._content))
        except OSError:
            return
        if copy == self._files[name] != original and original.size <= self._room():
            self._copy(name)
            self._finish(name)

    def _copy(self, name: str) -> None:
        """Copy a file as a whole: an interrupt, or a full disk, leaves nothing of it."""
        source, target = os.path.join(self._folder, name), self.path_of(name)
        self._make_folder(os.path.dirname(name))
        part = "{}.{}-{}.part".format(target, os.getpid(), threading.get_ident())
        try:
            with open(source, "rb") as original, open(part, "wb") as copy:
                _copy_content(original.fileno(), copy.fileno(), source, part)
            shutil.copystat(source, part)
            os.chmod(part, stat.S_IMODE(os.stat(part).st_mode) | stat.S_IRUSR | stat.S_IWUSR)
            stamp = _stamp(part)
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        self._files[name] = stamp

    def _finish(self, name: str) -> None:
        """Remember what was copied. Forked workers copy too, but only the kernel keeps the record."""
        if os.getpid() != self._owner:
            return
        if name not in self._new:
            self._new.append(name)
        path = self.path_of(RECORD)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_file(path, json.dumps({"folder": self._folder, "files": self._files, "folders": self._folders}))

    def _load(self) -> None:
        try:
            with open(self.path_of(RECORD), encoding="utf-8") as file:
                record = json.load(file)
            if record["folder"] != self._folder:  # the notebook was moved: its copies are the runtime's own files now
                return
            files = {str(name): Stamp(int(stamp[0]), int(stamp[1])) for name, stamp in record["files"].items()}
            folders = [str(name) for name in record["folders"]]
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            return  # none, or damaged by the notebook
        # What was deleted may be asked for again in a new kernel.
        self._files = {name: stamp for name, stamp in files.items() if os.path.lexists(self.path_of(name))}
        self._folders = [name for name in folders if os.path.isdir(self.path_of(name))]


def _stamp(path: str) -> Stamp:
    status = os.stat(path)
    return Stamp(status.st_mtime_ns, status.st_size)


def _copy_content(source: int, target: int, source_path: str, target_path: str) -> None:
    try:
        fcntl.ioctl(target, FICLONE, source)
    except OSError:
        shutil.copyfile(source_path, target_path)
