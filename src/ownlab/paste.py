"""Pasted text: reads it, decodes it, and removes what pasting adds (colors, quoting, fences, line numbers, log prefixes)."""

from __future__ import annotations

import codecs
import html
import re
from itertools import pairwise
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.input_files import read_bytes
from ownlab.text import text
from ownlab.units import MIB, format_bytes

__all__ = ["LIMIT", "Lines", "clean", "decode", "read_file"]

# Longer lines are cut: the longest line that is useful (a CSV with every field) has 6,000 characters.
_LONGEST = 20_000

# More lines than a log of 50 MB has; in a longer text, lines in the middle are left out.
_MOST = 1_000_000

# A web page often loses the escape character itself; "[0m" remains.
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\[\d{1,3}(?:;\d{1,3})*m")
_REPLACED = {
    "\r\n": "\n",
    "\r": "\n",
    "\x0c": "\n",
    "\xa0": " ",
    "\u2007": " ",
    "\u202f": " ",
    "\u200b": "",
    "\ufeff": "",
}
_CURLY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "..."})
_QUOTED = re.compile(r"^[ \t]{0,3}(?:>(?!>>)[ \t]?)+", re.MULTILINE)
_FENCE = re.compile(r"^\s*(?:```|~~~|</?(?:details|summary|pre|code|br)\b)")
_NUMBERED = re.compile(r"^\s*(\d{1,7})(?:[:|] ?|\t|\s{2})")

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?:?"
_PREFIX = re.compile(
    rf"""^\s*(?:
        {_TIME}[ \t]
      | \[[^\]\n]{{0,40}}\d\d:\d\d[^\]\n]{{0,40}}\][ \t]?(?:\[(?!pip|conda)[^\]\n]{{1,40}}\][ \t]?)*   # CI: [task 12:00] [train]
      | \[\s*\d+\.\d{{6}}\][ \t]?                                     # dmesg
      | \[rank\d+\]:[ ]?
      | \([^()\n]{{1,60}}\bpid=\d+[^()\n]{{0,40}}\)[ ]?               # Ray, vLLM
      | [\w.-]{{1,60}}[-_]\d+[ \t]+\|(?:[ ]|$)                        # docker compose
    ){{1,3}}""",
    re.VERBOSE,
)
# A quick check before the search above: nearly all lines of a long log fail it.
_PREFIXED = re.compile(r"^\s*(?:\d{4}-\d\d-\d\d[T ]|\[|\(|[\w.-]+[-_]\d+[ \t]+\|)")


class Lines(NamedTuple):
    """The lines of a text in two forms: as shown to users, and bare, for recognizing reports."""

    shown: list[str]
    bare: list[str]
    left_out: int  # how many lines in the middle of a long text were dropped


def clean(content: str) -> Lines:
    """Remove what pasting adds to a text, and split it into lines."""
    if "\x1b" in content or "[0m" in content:
        content = _COLOR.sub("", content)
    for odd, plain in _REPLACED.items():
        if odd in content:
            content = content.replace(odd, plain)
    if "\n>" in content or content.startswith(">"):
        content = _QUOTED.sub("", content)
    lines = content.split("\n")
    left_out = max(0, len(lines) - _MOST)
    if left_out:
        del lines[_MOST // 2 : -_MOST // 2]
    shown = [_tidy(line) for line in lines]
    if _are_numbered(shown):
        shown = [_NUMBERED.sub("", line, count=1) for line in shown]
    return Lines(shown, [_bare(line) for line in shown], left_out)


def _tidy(line: str) -> str:
    if len(line) > _LONGEST and line[0] not in "<{[":  # XML and JSON may be one line
        line = line[:_LONGEST]
    # XML needs its entities and JSON its quotes: replacing them would break the document.
    if "&" in line and not line.lstrip().startswith("<"):
        line = html.unescape(line).replace("\xa0", " ")
    if not line.isascii() and line.lstrip()[:1] not in ('"', "{", "["):
        line = line.translate(_CURLY)
    if line and _FENCE.match(line):
        return ""
    return line.rstrip()


def _bare(line: str) -> str:
    return _PREFIX.sub("", line, count=1) if _PREFIXED.match(line) else line


def _are_numbered(lines: list[str]) -> bool:
    """Return whether all lines begin with their numbers, as in `cat -n` and on some web pages."""
    if len(lines) < 3:
        return False
    numbers = []
    for line in lines[:200]:
        match = _NUMBERED.match(line + "  ")
        if match is None and line:
            return False
        if match is not None:
            numbers.append(int(match[1]))
    return len(numbers) >= 3 and all(later - number == 1 for number, later in pairwise(numbers))


LIMIT = 50 * MIB
_SHORTEN = text(
    "Paste the part around the first error, or: grep -iE 'error|cuda|nvidia|nvrm|xid' FILE | ownlab doctor --from -"
)
_NOT_TEXT = text("Paste text: the output of `nvidia-smi` or `python -m torch.utils.collect_env`, or an error message.")

# Longer byte order marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),  # written by PowerShell's >
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
# Control characters that terminal output never contains; ESC, BEL, backspace and form feed are allowed.
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_SAMPLE = 65536


def read_file(path: str) -> bytes:
    """Read a file, or standard input if the path is `-`. Raises InputError if it cannot be used."""
    return read_bytes(path, max_bytes=LIMIT, stdin=True, if_too_large=_SHORTEN)


def decode(data: bytes | str, name: str) -> str:
    """Decode UTF-8, UTF-16 with or without a byte order mark, or an old Windows code page. Raises InputError if binary."""
    if len(data) > LIMIT:
        raise InputError(text("{name} is larger than {limit}.", name=name, limit=format_bytes(LIMIT)), hint=_SHORTEN)
    content = data if isinstance(data, str) else _decode_bytes(data, name)
    if "\x00" in content:
        raise InputError(text("{name} is not text: it contains NUL bytes.", name=name), hint=_NOT_TEXT)
    return content


def _decode_bytes(data: bytes, name: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    unmarked = _unmarked(data[:_SAMPLE])
    if unmarked is not None:
        return codecs.getincrementaldecoder(unmarked)(errors="replace").decode(data, final=False)
    try:
        # Not final: a character that is cut in two at the end must not spoil the rest.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=False)
    except UnicodeDecodeError:
        sample = data[:_SAMPLE]
        if len(_CONTROL.findall(sample)) * 100 > len(sample):
            raise InputError(text("{name} is not text.", name=name), hint=_NOT_TEXT) from None
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _unmarked(sample: bytes) -> str | None:
    """Recognize UTF-16 without a mark: in every ASCII character one byte is NUL, always on the same side."""
    low, high = sample[::2].count(0), sample[1::2].count(0)
    if not low and not high:
        return None
    encoding, nuls, others = ("utf-16-le", high, low) if high > low else ("utf-16-be", low, high)
    # A tenth is enough: Chinese text has few ASCII characters, but has line ends and digits. Binaries have NULs on both sides.
    return encoding if not others and nuls * 20 >= len(sample) else None
