"""Where pasted text comes from: a file or standard input, as bytes, and the text that those bytes are."""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path

from ownlab.errors import InputError
from ownlab.units import MIB, format_bytes

__all__ = ["LIMIT", "decode", "read_file"]

LIMIT = 50 * MIB
_TOO_LONG = f"it is longer than {format_bytes(LIMIT)}"
_CUT_IT = (
    "Paste the part around the first error, or: grep -iE 'error|cuda|nvidia|nvrm|xid' FILE | ownlab doctor --from -"
)
_NOT_TEXT = "Paste text: what `nvidia-smi` or `python -m torch.utils.collect_env` prints, or an error message."

# The longer mark first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),  # what PowerShell's > writes
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
# Control characters that no terminal output holds; ESC, BEL, backspace and form feed are left out.
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_SAMPLE = 65536


def read_file(path: str) -> bytes:
    """The bytes of a file, or of standard input where the path is `-`; InputError where it cannot be used."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LIMIT + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(LIMIT + 1)
    except IsADirectoryError as exc:
        raise InputError(f"{path} is a folder; a file is needed") from exc
    except FileNotFoundError as exc:
        raise InputError(f"{path} does not exist") from exc
    except PermissionError as exc:
        raise InputError(f"{path} may not be read by you") from exc
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        raise InputError(f"{path!r} cannot be read: {exc}") from exc
    if len(data) > LIMIT:
        raise InputError(f"{path} cannot be read: {_TOO_LONG}", hint=_CUT_IT)
    return data


def decode(data: bytes | str, name: str) -> str:
    """The text: UTF-8, UTF-16 with its mark or without, else what old Windows consoles write. InputError where it is not text."""
    if len(data) > LIMIT:
        raise InputError(f"{name} cannot be read: {_TOO_LONG}", hint=_CUT_IT)
    text = data if isinstance(data, str) else _decode_bytes(data, name)
    if "\x00" in text:
        raise InputError(f"{name} is not text: it holds NUL bytes", hint=_NOT_TEXT)
    return text


def _decode_bytes(data: bytes, name: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    unmarked = _unmarked(data[:_SAMPLE])
    if unmarked is not None:
        return codecs.getincrementaldecoder(unmarked)(errors="replace").decode(data, final=False)
    try:
        # Not final: a character that was cut in two at the end is no reason to refuse the rest.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=False)
    except UnicodeDecodeError:
        sample = data[:_SAMPLE]
        if len(_CONTROL.findall(sample)) * 100 > len(sample):
            raise InputError(f"{name} is not text", hint=_NOT_TEXT) from None
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _unmarked(sample: bytes) -> str | None:
    """UTF-16 that lost its mark: the upper half of every ASCII character is a NUL, always on the same side."""
    low, high = sample[::2].count(0), sample[1::2].count(0)
    if not low and not high:
        return None
    encoding, nuls, others = ("utf-16-le", high, low) if high > low else ("utf-16-be", low, high)
    # A tenth: Chinese text has few such characters, but it has line ends and digits. A program has NULs on both sides.
    return encoding if not others and nuls * 20 >= len(sample) else None
