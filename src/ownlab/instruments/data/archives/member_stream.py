"""The files of any archive as a plain tar: how packing reads what its own readers do not know (7z, rar, zst, split archives).

`python -m ownlab.instruments.data.archives.member_stream NAMES MAX-RATIO ARCHIVE` writes to stdout; nothing is extracted. If it fails, the
last line of stderr is a JSON object with `message` and `hint`.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any, BinaryIO, cast

from ownlab.errors import InputError, OwnlabError
from ownlab.instruments.data.archives.errors import CorruptArchive
from ownlab.instruments.data.archives.limits import Limits, SizeLimit
from ownlab.instruments.data.archives.member_path import check_encoding, safe_path
from ownlab.instruments.data.archives.reader import DAMAGE, MemberReader, open_members
from ownlab.instruments.data.archives.recognition import Format, recognise
from ownlab.instruments.data.archives.volumes import find_volumes, open_volumes, stem_of
from ownlab.text import text

__all__ = ["stream_request", "write_members"]

# The endings by which packing's own readers (ownlab_guest/data/sources) choose, and what has to be behind them. They read zips
# and plain tars at any place, with several threads.
_READ_THERE: dict[str, Format] = {
    ".zip": "zip",
    ".tar": "tar",
    ".tar.gz": "gz",
    ".tgz": "gz",
    ".tar.bz2": "bz2",
    ".tbz2": "bz2",
    ".tar.xz": "xz",
    ".txz": "xz",
}
_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".txt")


def stream_request(path: str, encoding: str = "", limits: Limits = Limits()) -> dict[str, Any] | None:  # noqa: B008  # immutable
    """Return the part `archive` of a request to the guest: how to read this path. None if it needs no help with it.

    Raises InputError for what is named like an archive and is none, and for a missing volume.
    """
    check_encoding(encoding)
    archive = Path(path)
    if not archive.is_file() or path.lower().endswith(_TABLES):
        return None
    try:
        volumes = find_volumes(archive)
        with open_volumes(volumes) as file:
            kind = recognise(cast("BinaryIO", file), archive.name)
    except InputError:
        if stem_of(archive) == archive.name:
            return None  # the guest says what can be packed
        raise
    if (
        len(volumes) == 1
        and not encoding
        and any(path.lower().endswith(ending) and kind == expected for ending, expected in _READ_THERE.items())
    ):
        return None
    module = "ownlab.instruments.data.archives.member_stream"
    command = [sys.executable, "-m", module, encoding, str(limits.ratio), str(archive)]
    return {"command": command, "volumes": [str(volume) for volume in volumes]}


def write_members(archive: Path, out: BinaryIO, encoding: str, limits: Limits) -> None:
    """Write the regular files of an archive as a tar. Raises OwnlabError and OSError."""
    volumes = find_volumes(archive)
    with open_volumes(volumes) as file:
        kind = recognise(cast("BinaryIO", file), archive.name)
        try:
            reader = open_members(file, kind, volumes, encoding)
            _write(reader, out, SizeLimit(limits, file.size))
        except OwnlabError:
            raise
        except DAMAGE as exc:
            raise _corrupt(volumes[0], str(exc)) from exc
        except OSError as exc:
            if exc.errno is None:  # of a decompressor (gzip, bz2), not of the disk
                raise _corrupt(volumes[0], str(exc)) from exc
            raise


def _write(reader: MemberReader, out: BinaryIO, limit: SizeLimit) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        for member in reader.members():
            if member.kind != "file":
                continue
            if member.size < 0:
                raise InputError(
                    text("{name} is one compressed file, not an archive of samples.", name=member.name),
                    hint=text("Unpack it, then pack what comes out: ownlab data unpack FILE"),
                )
            info = tarfile.TarInfo(safe_path(member.name))
            info.size = member.size
            limit.count(member.size)
            with member.open() as source:
                tar.addfile(info, source)
                if source.read(1):  # also lets a zip compare its checksum
                    raise CorruptArchive(text("{path} is longer than the archive says.", path=member.name))
            tar.members = []  # type: ignore[attr-defined]  # it would keep every header of a million members


def _corrupt(archive: Path, cause: str) -> CorruptArchive:
    return CorruptArchive(
        text(
            "{archive} is damaged or incomplete: {cause}.",
            archive=archive.name,
            cause=cause or text("it ends too early"),
        ),
        hint=text("Download it again; `ownlab data get` checks it on its way."),
    )


def _main(encoding: str, ratio: str, archive: str) -> None:
    try:
        write_members(Path(archive), sys.stdout.buffer, encoding, Limits(float(ratio)))
        sys.stdout.buffer.flush()
    except OwnlabError as exc:
        sys.exit(json.dumps({"message": exc.message, "hint": exc.hint}))
    except BrokenPipeError:  # packing ended first
        sys.exit(1)
    except OSError as exc:
        message = text("Cannot read {path}: {reason}.", path=archive, reason=exc.strerror or exc)
        sys.exit(json.dumps({"message": message, "hint": ""}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
