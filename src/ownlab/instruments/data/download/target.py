"""The folder that downloads go into: which names are free, which files are here already, and whether there is room."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
from pathlib import Path

from ownlab.errors import InputError
from ownlab.instruments.data.download.digests import Digests
from ownlab.instruments.data.download.manifest import ManifestFile, ManifestStore, sha256_of
from ownlab.instruments.data.download.part_file import find_parts, parts_folder
from ownlab.instruments.data.download.records import RemoteFile
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["Target", "address_digest", "check_room", "entry_of"]

_BLOCK = 2**20
_RESERVE = 64 * 2**20  # bytes that a download leaves free: a full disk stops other programs too


def address_digest(url: str) -> str:
    """Return what identifies an address without revealing a token in it."""
    return hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()


def check_room(folder: Path, needed: int, what: str) -> None:
    """Raise InputError if so many bytes do not fit. Does nothing where the file system does not say."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        system = os.statvfs(folder)
    except OSError:
        return
    free = system.f_bavail * system.f_frsize
    if needed and needed + min(_RESERVE, needed // 10) > free:
        raise InputError(
            text(
                "{what} needs {needed}, but {folder} has only {free} free.",
                what=what,
                needed=format_bytes(needed),
                folder=folder,
                free=format_bytes(free),
            ),
            hint=text("Make room, or choose another disk with -o. What has arrived already is kept."),
        )


class Target:
    """For several threads."""

    def __init__(self, folder: Path, *, force: bool = False) -> None:
        self.folder = folder
        self.force = force
        self.manifest = ManifestStore(folder)
        self._parts = find_parts(folder)
        self._claimed: dict[str, str] = {}  # path -> digest of the address that it comes from
        self._lock = threading.Lock()

    def arrived(self) -> int:
        """Return the bytes that earlier runs have left in parts."""
        arrived = 0
        for part in parts_folder(self.folder).glob("*.part"):
            with contextlib.suppress(OSError):
                arrived += part.stat().st_blocks * 512
        return arrived

    def tidy(self) -> None:
        """Remove the folder of parts if it is empty."""
        with contextlib.suppress(OSError):
            parts_folder(self.folder).rmdir()

    def expected_path(self, remote: RemoteFile) -> str:
        """Return the path of a file whose name the source leaves to the server, if an earlier run has learnt it."""
        if remote.path:
            return remote.path
        digest = address_digest(remote.url)
        if header := self._parts.get(digest):
            return header.path
        entry = self.manifest.by_address(digest)
        return entry.path if entry is not None else ""

    def claim(self, path: str, remote: RemoteFile) -> None:
        """Reserve a path for a file. Raises InputError if another file of this run has it."""
        with self._lock:
            other = self._claimed.setdefault(path, address_digest(remote.url))
        if other != address_digest(remote.url):
            raise InputError(
                text("Two sources have a file named {path}.", path=path),
                hint=text("Download them into different folders, or name them in a list: ADDRESS out=NAME"),
            )

    def present(self, path: str, remote: RemoteFile) -> ManifestFile | None:
        """Return the entry of a file that is here, as it arrived. Raises InputError if something else has its name."""
        entry = self.manifest.files.get(path)
        place = self.folder / path
        if not os.path.lexists(place):
            return None
        if self.force:
            return None
        if place.is_dir() and not place.is_symlink():
            raise InputError(text("{path} is a folder.", path=place))
        if entry is not None and entry.source == remote.label:
            if self.manifest.is_intact(entry) or _same(place, entry):
                return entry
            raise InputError(
                text("{path} was changed after it had been downloaded.", path=place),
                hint=text("Move it away to keep it, or replace it: --force"),
            )
        adopted = _adopt(place, path, remote)
        if adopted is not None:
            return self.manifest.announce(adopted)
        raise InputError(
            text("{path} exists, and was not downloaded from {source}.", path=place, source=remote.label),
            hint=text("Choose another folder with -o, move it away, or replace it: --force"),
        )


def _same(place: Path, entry: ManifestFile) -> bool:
    """Whether a file whose time has changed (copied, touched) has the same content."""
    try:
        return place.is_file() and place.stat().st_size == entry.size and sha256_of(place) == entry.sha256
    except OSError:
        return False


def _adopt(place: Path, path: str, remote: RemoteFile) -> ManifestFile | None:
    """Return an entry for a file that came here in another way, if it agrees with an announced checksum."""
    try:
        status = place.stat()
        if not stat.S_ISREG(status.st_mode) or (remote.size is not None and status.st_size != remote.size):
            return None
        digests = Digests(remote, status.st_size)
        with open(place, "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                digests.update(block)
        verified = digests.verify()
    except (OSError, InputError):
        return None
    if verified is None:
        return None
    return entry_of(path, remote, status, digests, verified=verified, etag=remote.git_sha1)


def entry_of(path: str, remote: RemoteFile, status: os.stat_result, digests: Digests, **more: str) -> ManifestFile:
    """Return the manifest's entry of a file."""
    return ManifestFile(
        path=path,
        source=remote.label,
        size=status.st_size,
        sha256=digests.sha256,
        mtime_ns=status.st_mtime_ns,
        downloaded=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        md5=remote.md5,
        address_digest=address_digest(remote.url),
        **more,  # type: ignore[arg-type]
    )
