"""A text file with one source per line: `ADDRESS [out=NAME] [sha256=…]`, also as aria2 writes it, with indented options."""

from __future__ import annotations

import os

import msgspec

from ownlab.errors import UsageError
from ownlab.input_files import read_text
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.instruments.data.download.sources import resolve as resolve_source
from ownlab.instruments.data.download.web_address import with_checksum
from ownlab.text import text

__all__ = ["resolve"]


def resolve(argument: str, context: Context) -> Collection:
    """Return the files of all sources of a list. Folders keep their names."""
    files: list[RemoteFile] = []
    for number, line, options in _entries(read_text(argument), argument):
        if os.path.exists(line) and not os.path.isdir(line):
            raise UsageError(
                text(
                    "Line {number} of {path} names a local file. A list contains addresses.",
                    number=number,
                    path=argument,
                )
            )
        collection = resolve_source(line, context)
        files += _with_options(collection, options, argument, number)
    if not files:
        raise UsageError(text("{list} names no source.", list=argument))
    return Collection(argument, tuple(files))


def _entries(content: str, path: str) -> list[tuple[int, str, list[str]]]:
    """Return line number, source and options of each entry."""
    entries: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(content.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if line[0] in " \t":
            if not entries:
                raise UsageError(
                    text("Line {number} of {path} has options, but no source before it.", number=number, path=path)
                )
            entries[-1][2].extend(words)
        else:
            entries.append((number, words[0], words[1:]))
    return entries


def _with_options(collection: Collection, options: list[str], path: str, number: int) -> list[RemoteFile]:
    files = [
        msgspec.structs.replace(file, path=f"{collection.name}/{file.path}") if collection.name and file.path else file
        for file in collection.files
    ]
    for option in options:
        name, _, value = option.partition("=")
        if name == "checksum":  # aria2: checksum=sha-256=…
            name, _, value = value.partition("=")
        known = name.replace("-", "") in ("sha256", "md5") or name == "out"
        if not known or len(files) != 1:
            raise UsageError(
                text(
                    "Line {number} of {path}: the option {option!r} cannot be used here.",
                    number=number,
                    path=path,
                    option=option[:100],
                ),
                hint=text("A source of a single file may have out=NAME, sha256=… and md5=…"),
            )
        if name == "out":
            files = [msgspec.structs.replace(files[0], path=check_relative_path(value))]
        else:
            files = [with_checksum(files[0], f"{name}={value}")]
    return files
