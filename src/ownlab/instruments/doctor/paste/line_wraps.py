"""Joins sentences that a console, an e-mail program or `fold` broke into lines: rules search within a line."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["unwrap"]

_SHORTEST = 30  # a shorter line was not wrapped: no console is that narrow
_WIDEST = 200
_MOST = 20  # lines in a sentence

# The usual widths of consoles, e-mail programs and formatters.
_USUAL = (60, 64, 66, 68, 70, 72, 74, 76, 78, 79, 80, 88, 90, 96, 100, 110, 118, 119, 120, 132, 140, 160, _WIDEST + 1)

# Words of ordinary sentences. A line that ends with one of these certainly continues.
_SENTENCE = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "can't", "cannot", "could", "couldn't", "did", "does",
    "failed", "for", "from", "had", "has", "have", "if", "in", "into", "is", "it", "its", "more", "no", "not", "of", "on", "only",
    "or", "our", "than", "that", "the", "their", "there", "these", "this", "to", "unable", "using", "via", "was", "were", "when",
    "where", "which", "while", "will", "with", "would", "your",
))  # fmt: skip
# What begins a new message and never continues the previous line.
_BEGINS = re.compile(
    r"[\w.:]*(?:Error|Exception|Warning|Interrupt|Exit)\b\s*(?:[:(]|$)"
    r"|(?:Traceback|File|During handling|The above exception|terminate called|what\(\)|Process|Thread|Collecting|Requirement)\b"
    r"|\d+[.)]\s|\d{4}-\d\d|\d{1,2}:\d\d|\d+(?:\.\d+)?(?:it|s|%)\b"
    r"|(?i:info|warn|warning|error|debug|critical|fatal|note)\b\s*[:\[(]"
    r"|[\w./\\-]+\.\w{1,4}(?::\d|\(\d)"  # file.cpp:12, file.cu(12)
    r"|(?:\S*/)?(?:bash|sh|zsh|make|kernel|ollama|systemd|srun|mpirun|nvcc|gcc|g\+\+|cc1plus|ld|modprobe|insmod|nvidia-\w+|nvidia-container-cli|docker|python\d?)\s*(?:fatal|error)?\s*:"
    r"|(?:pip3?|conda|mamba|python\S*|sudo|docker|apt|apt-get|import|def|class|export|cd|git|nvidia-smi|nvcc|torchrun|print|raise|return)\b[ (]"
    r"|from \S+ import\b|\S{0,40}[$#] |(?:[A-Z][A-Z_\d]{2,}|[a-z_]+)=\S"
)
# A key before a colon mostly begins a new message, too; a single plain word does not ("object file: No such file").
_KEY = re.compile(r"[A-Z][\w /.-]{0,40}: |[a-z]+[_-][\w.-]{0,40}: |[\w.-]{1,40}\[\d+\]: ")
_COLUMNS = re.compile(r"\S(?: {3,}|\t)\S|\||={4}|-{4}")
# A capital letter inside a sentence: an abbreviation, a name with further capitals, or a name with a number.
_PROPER = re.compile(
    r"[A-Z]{2}|[A-Z][a-z]+[A-Z]|[A-Z][a-z]+[=\d]|(?:Python|Linux|Windows|Torch|Ampere|Hopper|Ada|Volta|Docker)\b"
)
_ENDS_OPEN = frozenset(",()/-'\"`")


def unwrap(lines: Sequence[str]) -> list[str]:
    """Return the lines, with wrapped sentences joined again. Other lines stay as they are."""
    joined: list[str] = []
    before = ""  # the previous line, unchanged
    count = widest = 0  # lines in the sentence, and the longest of them
    for line in lines:
        if _SHORTEST <= len(before) <= _WIDEST and line and count < _MOST and _continues(before, line, widest, count):
            joined[-1] += f" {line.strip()}"
            before, count, widest = line, count + 1, max(widest, len(line))
            continue
        if before == "  File" and line.startswith('"'):
            joined[-1] = before = f"{before} {line}"
            continue
        joined.append(line)
        before, count, widest = line, 1, len(line)
    return joined


def _continues(before: str, line: str, widest: int, count: int) -> bool:
    """Return whether a line continues the sentence of the previous line, which has `count` lines so far."""
    if line[:12] == before[:12] and line[0] != " ":  # the next line of a list or a log
        return False
    first = line[0]
    if first == " ":  # indented: as deep as the previous line, or not at all
        indent = len(line) - len(line.lstrip())
        if before[:indent].strip() or before[indent : indent + 1] == " ":
            return False
        first = line[indent]
    last = before[-1]
    # Most lines of a log cannot end or begin a wrapped line: this first check is fast.
    if not (last.isalnum() or last in _ENDS_OPEN or last == ":") or not (first.isalnum() or first in "('\"/_"):
        return False
    word = line.split(maxsplit=1)[0]
    filled = len(before) + 1 + len(word)  # the word would have been there if there had been room
    if filled <= max(widest, len(line)) or len(line) > _WIDEST:
        return False
    usual = _USUAL[bisect_left(_USUAL, max(widest, len(line)))] < filled
    words = before.split()
    if len(words) + count < 4 or words[0] == word or not _may_follow(words[-1], word, usual):
        return False
    if _KEY.match(line.lstrip()) and words[-1].lower() not in _SENTENCE:
        return False
    # A timestamp on this line and none on the next one is as good a sign as the words of a sentence.
    if (
        count == 1
        and before[0] != "["
        and _SENTENCE.isdisjoint(before.lower().split())
        and _SENTENCE.isdisjoint(line.split())
    ):
        return False
    return not (_BEGINS.match(line.lstrip()) or _COLUMNS.search(before) or _COLUMNS.search(line))


def _may_follow(end: str, word: str, usual: bool) -> bool:
    """Return whether a sentence may be broken between these two words: certainly, or probably at a usual width."""
    if end.lower() in _SENTENCE:
        return True
    if "/" in end or "\\" in end:  # complete lines end with a path
        return False
    if end[-1] == ":":
        return usual and (word[0].islower() or word[0] == "/")
    if word[0].islower():
        return True
    if word[0].isupper():
        return usual and end[-1].isalpha() and bool(_PROPER.match(word))
    return usual and (end[-1].isalpha() or end[-1] == ",")
