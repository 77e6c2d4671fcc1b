"""An archive that the host reads for us (7z, rar, zst, split ones): a child process writes its files as a plain tar."""

import contextlib
import json
import os
import subprocess
import tarfile
import tempfile
from typing import IO, Any, Dict, Iterator, Optional

from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.sources.source import ArchiveReader, Options
from ownlab_guest.data.sources.tar_file import CompressedTarSource
from ownlab_guest.text import text

_STDERR_KEPT = 4000
_BLOCK = 1 << 20


class ArchiveSource(CompressedTarSource):
    """The files of an archive, from its beginning to its end."""

    def __init__(self, path: str, options: Options, reader: ArchiveReader) -> None:
        super().__init__(path, options)
        self._reader = reader

    def identity(self) -> Dict[str, Any]:
        states = [os.stat(volume) for volume in self._reader.volumes]
        paths = [os.path.realpath(volume) for volume in self._reader.volumes]
        volumes = [[path, state.st_size, state.st_mtime_ns] for path, state in zip(paths, states)]
        return {"kind": "archive", "volumes": volumes}

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        with tempfile.TemporaryFile() as errors:
            command = self._reader.command
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
            assert child.stdout is not None
            try:
                with tarfile.open(fileobj=child.stdout, mode="r|", errors="surrogateescape") as archive:
                    yield archive
                while child.stdout.read(_BLOCK):  # the padding of the last record
                    pass
                self._check(child, errors)
            except (tarfile.TarError, EOFError, OSError, ValueError) as exc:
                # A reader that has failed ends in the middle of its tar; it says why.
                child.stdout.close()
                child.wait()
                failure = None if isinstance(exc, DataError) else _failure(errors)
                if failure is None:
                    raise
                raise failure from exc
            finally:
                child.kill()
                child.wait()
                child.stdout.close()

    def _check(self, child: "subprocess.Popen[bytes]", errors: "IO[bytes]") -> None:
        if child.wait():
            message = text("Reading {path} ended early (exit code {code}).", path=self.path, code=child.returncode)
            raise _failure(errors) or DamagedData(message)


def _failure(errors: "IO[bytes]") -> Optional[DataError]:
    """Return what the last line of stderr says."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _STDERR_KEPT))
    lines = errors.read().splitlines() or [b""]
    try:
        said = json.loads(lines[-1])
        return DataError(str(said["message"]), hint=str(said["hint"]))
    except (ValueError, KeyError, TypeError):
        return None
