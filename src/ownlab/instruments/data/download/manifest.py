"""The manifest beside the data: which files came from where, when, with which checksums. Never tokens.

`.ownlab-data/manifest.json` is rewritten at the end of a run. In between, each finished file is one line of `finished.jsonl`,
written before the file gets its name: a killed run leaves either the line and the file, or the line and the part. Small files
are not flushed to the disk one by one; they carry the boot in which they were written, and in a later one they are believed only
if their checksum agrees, since a power cut may keep the line and lose the bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.errors import InputError, RecordError
from ownlab.file_lock import try_lock, wait_for_lock
from ownlab.instruments.data.download.names import RESERVED
from ownlab.instruments.data.download.records import Verification
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text

__all__ = ["Manifest", "ManifestFile", "ManifestStore", "boot_id", "read_manifest", "sha256_of"]

_FORMAT = 1
_BLOCK = 2**20
_PATIENCE = 300.0  # seconds: its owner may be waiting for a slow disk


class ManifestFile(Struct, frozen=True):
    """One file as it was when it arrived."""

    path: str
    source: str  # without tokens
    size: int
    sha256: str
    mtime_ns: int
    downloaded: str  # date and time, UTC
    verified: Verification = "none"
    md5: str = ""
    etag: str = ""
    modified: str = ""  # Last-Modified of the server
    address_digest: str = ""  # SHA-256 of the whole address: finds the file again, and reveals no token
    boot: str = ""  # in which it was written, if it was not flushed to the disk


class Manifest(Struct, frozen=True):
    """`.ownlab-data/manifest.json`."""

    format: int
    files: tuple[ManifestFile, ...]
    sources: tuple[str, ...] = ()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, without what a killed run has left beside it. Raises RecordError."""
    path = folder / RESERVED / "manifest.json"
    try:
        with open(path, "rb") as file:
            manifest = decode_json(file.read(), Manifest)
    except FileNotFoundError:
        return Manifest(_FORMAT, ())
    except OSError as exc:
        raise InputError(text("Cannot read {path}: {reason}.", path=path, reason=exc.strerror)) from exc
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{path} is damaged: {cause}.", path=path, cause=str(exc)),
            hint=text(
                "Move it away. The files are then compared with their source, and downloaded again if they differ."
            ),
        ) from exc
    if manifest.format > _FORMAT:
        raise RecordError(text("{path} was written by a newer version of ownlab.", path=path))
    return manifest


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def boot_id() -> str:
    """Return what identifies this boot of the machine; "" where the system does not say."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


class ManifestStore:
    """The manifest of one folder, for several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._private = folder / RESERVED
        self._journal = str(self._private / "finished.jsonl")
        self._lock_path = str(self._private / "lock")
        self._boot = boot_id()
        # Threads would wait for each other's file lock by sleeping.
        self._threads = threading.Lock()
        self._checked: set[str] = set()  # files of an earlier boot whose checksum agrees
        self.files: dict[str, ManifestFile] = {}
        self.sources: tuple[str, ...] = ()

    def load(self) -> None:
        """Read the manifest, with what a killed run has left. Raises RecordError and InputError."""
        manifest = read_manifest(self.folder)
        self.sources = manifest.sources
        self.files = {entry.path: entry for entry in manifest.files}
        for entry in self._unmerged():
            if self.is_intact(entry):
                self.files[entry.path] = entry
        self._by_address = {entry.address_digest: entry for entry in self.files.values() if entry.address_digest}

    def by_address(self, digest: str) -> ManifestFile | None:
        """Return the file that came from an address."""
        return self._by_address.get(digest)

    def is_intact(self, entry: ManifestFile) -> bool:
        """Whether a file looks as it did when it arrived."""
        try:
            status = os.stat(self.folder / entry.path)
        except (OSError, ValueError):  # no path at all: the manifest is damaged
            return False
        if not stat.S_ISREG(status.st_mode) or (status.st_size, status.st_mtime_ns) != (entry.size, entry.mtime_ns):
            return False
        if entry.boot in ("", self._boot) or entry.path in self._checked:
            return True
        if sha256_of(self.folder / entry.path) != entry.sha256:
            return False
        self._checked.add(entry.path)
        return True

    def announce(self, entry: ManifestFile, *, flushed: bool = False) -> ManifestFile:
        """Write that a file is about to get its name."""
        entry = msgspec.structs.replace(entry, boot="" if flushed else self._boot)
        with self._locked():
            descriptor = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                try:
                    data = encode_json(entry) + b"\n"
                    while data:
                        data = data[os.write(descriptor, data) :]
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)
        self.files[entry.path] = entry
        return entry

    def save(self, sources: tuple[str, ...] = ()) -> None:
        """Write the manifest. Other processes may have finished files meanwhile."""
        if not self.files and not sources:
            return
        with self._locked():
            disk = read_manifest(self.folder)
            files = {entry.path: entry for entry in disk.files}
            for entry in self._unmerged():
                if self.is_intact(entry):
                    files[entry.path] = entry
            for path in self._checked & files.keys():
                files[path] = msgspec.structs.replace(files[path], boot="")
            merged = Manifest(
                _FORMAT,
                tuple(files[path] for path in sorted(files)),
                tuple(dict.fromkeys((*disk.sources, *sources))),
            )
            document = msgspec.json.format(encode_json(merged), indent=1) + b"\n"
            replace_file(self._private / "manifest.json", document, mode=0o644, durable=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._journal)

    def _unmerged(self) -> Iterator[ManifestFile]:
        try:
            with open(self._journal, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # half a line of a machine that lost power
                yield decode_json(line, ManifestFile)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._threads, self._locked_file():
            yield

    @contextlib.contextmanager
    def _locked_file(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._lock_path, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(self._private, exist_ok=True)
            descriptor = os.open(self._lock_path, flags, 0o644)
        try:
            if not try_lock(descriptor):
                message = text(
                    "Another process has been writing the manifest of {folder} for {seconds:g} s.",
                    folder=self.folder,
                    seconds=_PATIENCE,
                )
                wait_for_lock(descriptor, InputError(message), _PATIENCE)
            yield
        finally:
            os.close(descriptor)
