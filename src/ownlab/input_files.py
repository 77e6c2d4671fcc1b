"""Files that a person names: read with one limit on their size, and with one message for each thing that can be wrong.

A path may name anything: a folder, a pipe without a writer, /dev/zero, a film. No command waits for ever, fills the memory or shows a
traceback because of that. Standard library only.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from ownlab.errors import InputError
from ownlab.text import text
from ownlab.units import MIB, format_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "LIMIT",
    "LINE_LIMIT",
    "STDIN",
    "decode_utf8",
    "open_regular",
    "parse_toml",
    "read_bytes",
    "read_lines",
    "read_parts",
    "read_text",
]

# The limit on every file that is read as a whole: that of Jupyter's own server (ServerApp.max_body_size), since the largest are
# notebooks. Files of which a large one makes no sense have lower limits.
LIMIT = 512 * MIB
# The limit on a line of a file that is read line by line and may have any size. A sample of 64 cards has 100 kB.
LINE_LIMIT = 16 * MIB
# Standard input, where a command accepts it.
STDIN = "-"

_PART = 4 * MIB

# Seconds to wait for the writer of a named pipe. One from a shell (`<(…)`, `|`) has its writer from the start.
_WRITER_SECONDS = 5.0
_WRITER_PAUSE = 0.02
_NULL = os.makedev(1, 3)  # /dev/null: Documentation/admin-guide/devices.txt of Linux
# Brackets in a row, and parts of a dotted key: no table that people write has as many levels. Without a limit, the parser needs
# time that grows with the square of their number. The bounds inside keep the search itself fast.
_NESTED = re.compile(rb"(?:[\[{]\s{0,99}){100}|(?:\.[ \t]{0,9}[\w\"'-]{1,99}[ \t]{0,9}){99}")


def read_bytes(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = LIMIT,
    stdin: bool = False,
    hint: str = "",
    if_too_large: str = "",
) -> bytes:
    """Read a whole file or pipe; with `stdin`, "-" is standard input. InputError, with a hint, if that is impossible."""
    shown, large = _shown(path), if_too_large or hint
    with _Errors(shown, hint):
        if stdin and path == STDIN:
            content = _read(sys.stdin.buffer, max_bytes + 1)
        else:
            descriptor, begin = _open(path, shown, hint)
            with open(descriptor, "rb") as file:
                if os.fstat(descriptor).st_size > max_bytes:
                    raise _too_large(shown, max_bytes, large)
                content = begin + _read(file, max_bytes + 1)
    if len(content) > max_bytes:
        raise _too_large(shown, max_bytes, large)
    return content


def read_text(path: str | os.PathLike[str], *, max_bytes: int = LIMIT, stdin: bool = False, hint: str = "") -> str:
    """Read a file in UTF-8, with or without a byte order mark."""
    return decode_utf8(read_bytes(path, max_bytes=max_bytes, stdin=stdin, hint=hint), _shown(path), hint=hint)


def read_lines(path: str | os.PathLike[str], *, hint: str = "") -> Iterator[bytes]:
    """Yield the lines of a file of any size, with their ends. InputError if one of them is too long."""
    shown = _shown(path)
    with _Errors(shown, hint):
        descriptor, begin = _open(path, shown, hint)
    number = 0
    with open(descriptor, "rb") as file, _Errors(shown, hint):
        while line := begin if begin == b"\n" else begin + file.readline(LINE_LIMIT + 1):
            number, begin = number + 1, b""
            if len(line) > LINE_LIMIT:
                limit = format_bytes(LINE_LIMIT)
                message = text("{path}, line {number} is longer than {limit}.", path=shown, number=number, limit=limit)
                raise InputError(message, hint=hint)
            yield line


def read_parts(path: str | os.PathLike[str], *, hint: str = "") -> Iterator[bytes]:
    """Yield a file of any size in parts: for readers that need no lines, and keep only what they make of it."""
    shown = _shown(path)
    with _Errors(shown, hint):
        descriptor, begin = _open(path, shown, hint)
    with open(descriptor, "rb") as file, _Errors(shown, hint):
        while part := begin + file.read(_PART):
            begin = b""
            yield part


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open data, which may have any size, but are read more than once: neither a pipe nor a device. InputError for all else."""
    shown = _shown(path)
    with _Errors(shown, ""):
        _check_regular(os.stat(path).st_mode, shown)  # opening a device may do something
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check_regular(os.fstat(descriptor).st_mode, shown)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _check_regular(mode: int, shown: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise InputError(text("{path} is a folder, not a file.", path=shown))
    if stat.S_ISFIFO(mode):
        hint = text("Data are read more than once: save them in a file first.")
        raise InputError(text("{path} is a pipe, not a file.", path=shown), hint=hint)
    if stat.S_ISSOCK(mode):
        raise InputError(text("{path} is a socket, not a file.", path=shown))
    raise InputError(text("{path} is a device, not a file.", path=shown))


def decode_utf8(data: bytes, name: str, *, hint: str = "") -> str:
    """Decode UTF-8, with or without a byte order mark. InputError names the first byte that is wrong."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as exc:
        byte = f"{exc.object[exc.start]:#x}"
        message = text("{name} is not UTF-8 text: byte {at} is {byte}.", name=name, at=exc.start, byte=byte)
        raise InputError(message, hint=hint) from exc


def parse_toml(data: bytes | str, name: str, *, hint: str = "") -> dict[str, Any]:
    """Parse TOML. InputError, with `name` in it, if it is not TOML, or is nested too deeply."""
    data = data.encode(errors="replace") if isinstance(data, str) else data
    content = decode_utf8(data, name, hint=hint)
    nested = InputError(text("{name} is not valid TOML: its values are nested too deeply.", name=name), hint=hint)
    if _NESTED.search(data):
        raise nested
    try:
        table: dict[str, Any] = tomllib.loads(content)
    except RecursionError as exc:
        raise nested from exc
    except ValueError as exc:  # also a number with thousands of digits
        hint = hint or text("See https://toml.io for the syntax.")
        raise InputError(text("{name} is not valid TOML: {reason}.", name=name, reason=exc), hint=hint) from exc
    return table


def _read(file: BinaryIO, most: int) -> bytes:
    """Read in parts: a single read of this many bytes would reserve memory for all of them."""
    parts: list[bytes] = []
    while most > 0 and (part := file.read(min(_PART, most))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _open(path: str | os.PathLike[str], shown: str, hint: str) -> tuple[int, bytes]:
    """Open what can be read to an end. Reading blocks only as long as a program may write. Return what was read already, too."""
    # Not blocking: opening a pipe would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        is_pipe = _check_kind(descriptor, shown, hint)
        begin = _wait_for_writer(descriptor, shown, hint) if is_pipe and _has_a_name(path) else b""
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, begin


def _check_kind(descriptor: int, shown: str, hint: str) -> bool:
    """Refuse folders and devices, which have no end; return whether it is a pipe. /dev/null is an empty file for everyone."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise InputError(text("{path} is a folder, not a file.", path=shown), hint=hint)
    endless = stat.S_ISCHR(status.st_mode) and status.st_rdev != _NULL and not os.isatty(descriptor)
    if endless or stat.S_ISBLK(status.st_mode):
        raise InputError(text("{path} is a device, not a file.", path=shown), hint=hint)
    return stat.S_ISFIFO(status.st_mode)


def _has_a_name(path: str | os.PathLike[str]) -> bool:
    """Whether a pipe is a file; one of a shell's `<(…)` is only a number below /dev/fd."""
    return os.path.exists(os.path.realpath(path))


def _wait_for_writer(descriptor: int, shown: str, hint: str) -> bytes:
    """Wait until a program has opened the other end. Return a byte if one was read: only reading tells whether there is one."""
    deadline = time.monotonic() + _WRITER_SECONDS
    while time.monotonic() < deadline:
        try:
            first = os.read(descriptor, 1)
        except BlockingIOError:  # there is a writer, which has not written yet
            return b""
        if first:
            return first
        time.sleep(_WRITER_PAUSE)
    raise InputError(
        text("{path} is a pipe, and no program writes to it.", path=shown),
        hint=hint or text("Start the program that writes to it first, or pass a file."),
    )


def _too_large(shown: str, limit: int, hint: str) -> InputError:
    return InputError(text("{path} is larger than {limit}.", path=shown, limit=format_bytes(limit)), hint=hint)


def _shown(path: str | os.PathLike[str]) -> str:
    """The path as it can be printed."""
    name = os.fspath(path)
    return "stdin" if name == STDIN else name.encode(errors="backslashreplace").decode()


class _Errors:
    """Turns errors of the operating system into InputErrors. A class, since a generator must not yield inside of another's block."""

    def __init__(self, shown: str, hint: str) -> None:
        self._shown, self._hint = shown, hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise InputError(text("{path} does not exist.", path=self._shown), hint=self._hint) from error
        if isinstance(error, PermissionError):
            raise InputError(
                text("You have no permission to read {path}.", path=self._shown), hint=self._hint
            ) from error
        if isinstance(error, OSError):
            reason = error.strerror or error
            message = text("{path} cannot be read: {reason}.", path=self._shown, reason=reason)
            raise InputError(message, hint=self._hint) from error
        if isinstance(error, ValueError) and not isinstance(error, UnicodeError):  # a NUL in the path
            message = text("{path!r} cannot be read: {reason}.", path=self._shown, reason=error)
            raise InputError(message, hint=self._hint) from error
