"""Tells what a program said from what only looks like it: source code, words quoted in passing, errors that were caught."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["spoken"]

_LONGEST = 2000

_FRAME = re.compile(r'File ".{1,400}?", line \d+')
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning|Interrupt)\b:\s")

# Before the code: a prompt, a line number, IPython's arrow, the sign of a difference.
_BEFORE_CODE = r"\s*(?:(?:>>>|\.\.\.|In[ ]\[\d+\]:)\s+|-{1,9}>[ ]?\d{0,5}[ ]{1,20}|\d{1,5}\s+|[+-]\s+)?"
_STATEMENT = re.compile(
    _BEFORE_CODE
    + r"""(?:raise\s+[\w.]+\s*(?:\(|$|from\b)
      | throw\s+(?:new\s+)?[\w:]+\s*[({]
      | (?:return|assert|yield)\s+(?:not\s+)?(?:[rbfu]?["']|[\w.]+\()
      | [A-Za-z_][\w.]*(?:\[[^\]]{0,80}\])?(?:[ ]?:[ ]?[\w\[\],.|]{1,60})?[ ][+]?=[ ](?:[rbfu]?["'(\[{]|[\w.]+\())""",
    re.VERBOSE,
)
_BLOCK = re.compile(_BEFORE_CODE + r"(?:(?:el)?if|while|for|with|except|case)\b")
_CALL = re.compile(
    _BEFORE_CODE + r"(?:print|warn|sys\.exit|warnings\.warn|console\.\w+|(?:self\.)?_?log(?:ger|ging)?\.\w+"
    r"|self\.assert\w+|pytest\.\w+|TORCH_\w+|AT_ERROR|CHECK\w*)\("
)
_COMPARED = re.compile(r"""["'][ ](?:not[ ])?in[ ](?:str|repr)\(""")

_PROGRAM = re.compile(
    r"Error\b|Exception\b|Warning\b|\berror\s*[:(\]=]|\b(?:ERROR|FATAL|WARN|WARNING|CRITICAL|INFO|DEBUG)\b|\bfatal\b|\bdaemon\b"
    r"|\bcaused\b|^\s*\[|^\s*[\d{]"
)
_QUOTED = re.compile(r"""(?<=[A-Za-z])(?P<open>[ (])(?P<mark>["'`])(?P<words>[^"'`]{5,300})(?P=mark)(?!\w)""")
# Before the quoted words: what says that it happened here.
_HAPPENED = re.compile(
    r"\b(?:gets?|got|getting|gives?|gave|giving|says?|said|saying|shows?|showed|showing|throws?|threw|raises?|raised|fail\w*|crash\w*"
    r"|errors?|messages?|warnings?|reports?|reported|prints?|printed|printing|outputs?|receiv\w+|encounter\w*|facing|hits?|hitting"
    r"|sees|saw|seeing|(?:I|we|still|always|now) see|complain\w*|returns?|returned|ends?|ended|die[sd]|because|due|problem|issue)\b",
    re.IGNORECASE,
)
_NEVER = re.compile(r"\b(?:never|no longer|without|not|no)\b|n't\b", re.IGNORECASE)
_CAUGHT = re.compile(
    r"\b(?:caught|catching|handled|recovered from)\b.{0,200}\b(?:retry|retri|continu|skip|ignor|recover|reduc|resum|falling back|fell back)",
    re.IGNORECASE,
)
_CAUGHT_WORDS = ("aught", "atching", "andled", "ecovered")


def spoken(lines: Sequence[str]) -> list[str]:
    """The lines that a program said. Source lines of a traceback and other code are left out; words that are only quoted
    inside a sentence are blanked out there."""
    said: list[str] = []
    frame = -1  # the column of the frame that the line before belongs to; its source stands deeper
    for line in lines:
        place = line.find('File "')
        if place >= 0 and _FRAME.match(line, place):
            frame = place
            said.append(line)
            continue
        if frame >= 0:
            if line[frame : frame + 2] == "  " and not _EXCEPTION.match(line[frame:].strip()):
                continue
            frame = -1
        if _is_said(line):
            said.append(_without_quotes(line) if "'" in line or '"' in line or "`" in line else line)
    return said


def _is_said(line: str) -> bool:
    if len(line) > _LONGEST:
        return True
    if any(word in line for word in _CAUGHT_WORDS) and _CAUGHT.search(line):
        return False
    return not _is_code(line)


def _is_code(line: str) -> bool:
    # Nearly every line of a log has none of these, and is asked no more.
    quoted = '"' in line or "'" in line
    if not quoted and "(" not in line and "except" not in line and "raise" not in line:
        return False
    if "environ" in line:  # setting a variable tells of the machine
        return False
    end = line.rstrip()[-1:]
    if end == ":" and _BLOCK.match(line):
        return True
    if quoted and (_COMPARED.search(line) or (end in "(),;" and _CALL.match(line))):
        return True
    return _STATEMENT.match(line) is not None


def _without_quotes(line: str) -> str:
    """The line without words that somebody quoted in passing ("I read about 'CUDA out of memory'")."""
    if len(line) > _LONGEST or _PROGRAM.search(line):
        return line
    return _QUOTED.sub(_keep_or_blank, line)


def _keep_or_blank(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 60) : match.start()]
    if " " not in match["words"].strip() or (_HAPPENED.search(before) and not _NEVER.search(before)):
        return match[0]
    return f"{match['open']}{match['mark']}…{match['mark']}"
