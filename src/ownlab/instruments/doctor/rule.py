"""The base classes of the doctor's rules.

A rule is a class with a stable code. Its docstring is its page: the first line says what the rule finds, then follow
"Why it matters", "What to do" and "Sources". `ownlab doctor --explain CODE` shows the page; docs/RULES.md is generated
from all pages.
"""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from msgspec import Struct

from ownlab.instruments.doctor.queries import any_framework_works, is_wsl
from ownlab.instruments.doctor.records import Case, Finding, Message, Severity
from ownlab.text import page_text, text

__all__ = [
    "QUOTES_SHOWN",
    "Cause",
    "CauseRule",
    "FixedMessageRule",
    "MessageRule",
    "Rule",
    "RuleList",
    "RulePage",
    "cuda_error",
    "quote",
    "speaks_of_wsl",
]

# Longer lines are shortened around the match, so that evidence stays readable.
_QUOTE_LENGTH = 240
# A run on eight cards prints the same error eight times; show it this many times.
QUOTES_SHOWN = 3


class Rule(ABC):
    """Checks a case for one kind of problem. `diagnose()` calls it once per case; it keeps no state."""

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    blocks: ClassVar[bool] = False
    last_resort: ClassVar[bool] = False  # True: reported only where no other rule found an error
    aliases: ClassVar[tuple[str, ...]] = ()  # other names under which people look for the page

    @abstractmethod
    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding per separate problem; usually none or one."""

    @classmethod
    def page(cls) -> str:
        """Return the rule's page as Markdown."""
        return page_text(inspect.cleandoc(cls.__doc__ or ""))

    def finding(
        self,
        *,
        evidence: Iterable[str],
        meaning: str,
        fix: Iterable[str],
        title: str | None = None,
        severity: Severity | None = None,
        blocks: bool | None = None,
    ) -> Finding:
        """Return a finding of this rule; title, severity and blocks default to the rule's own."""
        return Finding(
            code=self.code,
            severity=severity or self.severity,
            title=title or self.title,
            evidence=tuple(evidence),
            meaning=meaning,
            fix=tuple(fix),
            blocks=self.blocks if blocks is None else blocks,
        )


class MessageRule(Rule):
    """A rule that recognises a problem by messages that programs print."""

    patterns: ClassVar[tuple[str, ...]]  # regular expressions, matched line by line, ignoring case

    def matches(self, case: Case) -> Iterator[tuple[Message, re.Match[str]]]:
        """Yield each message that matches a pattern, with the first match in it."""
        pattern = _compiled("|".join(f"(?:{pattern})" for pattern in self.patterns))
        for message in case.messages:
            match = pattern.search(message.text)
            if match is not None:
                yield message, match

    def quotes(self, case: Case) -> tuple[str, ...]:
        """Return the matching lines as evidence, without duplicates."""
        return tuple(dict.fromkeys(quote(message, match) for message, match in self.matches(case)))


class FixedMessageRule(MessageRule):
    """A message rule whose meaning and fix do not depend on the machine."""

    meaning: ClassVar[str]
    fix: ClassVar[tuple[str, ...]]

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding with the first matching lines."""
        quotes = self.quotes(case)
        if quotes:
            yield self.finding(evidence=quotes[:QUOTES_SHOWN], meaning=self.meaning, fix=self.fix)


class Cause(NamedTuple):
    """One cause of a family of failures, with the words by which programs report it."""

    pattern: str  # a regular expression, matched line by line, ignoring case
    title: str
    meaning: str
    fix: tuple[str, ...]


class CauseRule(MessageRule):
    """A rule about a family of failures that have several causes: each has its own words, meaning and fix.

    The causes are listed from the most specific to the most general; the first one that matches is reported.
    """

    causes: ClassVar[tuple[Cause, ...]]
    patterns: ClassVar[tuple[str, ...]] = ()
    while_broken: ClassVar[bool] = False  # True: the messages are old where a framework has found a card since
    not_in_wsl: ClassVar[bool] = False  # True: about a driver of Linux, which WSL does not have (rule wsl-no-module)

    def __init_subclass__(cls) -> None:
        """Collect the patterns, so that a family of causes is searched like any other message rule."""
        super().__init_subclass__()
        cls.patterns = tuple(cause.pattern for cause in cls.causes)

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding: the first cause with the lines that show it."""
        works = any_framework_works(case.machine)
        if (works and self.while_broken) or (self.not_in_wsl and speaks_of_wsl(case)):
            return
        found = self.find_cause(case)
        if found is not None:
            cause, quotes = found
            yield self.finding(
                title=cause.title,
                evidence=quotes[:QUOTES_SHOWN],
                meaning=cause.meaning,
                fix=self.fix_of(cause, case),
                blocks=self.blocks and not works,
            )

    def find_cause(self, case: Case) -> tuple[Cause, tuple[str, ...]] | None:
        """Return the first cause that a message shows, with these messages as evidence."""
        texts = [message.text for message in case.messages]
        for cause in self.causes:
            search = _compiled(cause.pattern).search
            for content in texts:
                if search(content) is not None:
                    found = ((message, search(message.text)) for message in case.messages)
                    return cause, tuple(dict.fromkeys(quote(message, match) for message, match in found if match))
        return None

    def fix_of(self, cause: Cause, case: Case) -> tuple[str, ...]:
        """Return the fix on this machine; rules override it where the steps depend on the machine."""
        return cause.fix


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern once: the rules have more of them than the module re keeps."""
    return re.compile(pattern, re.IGNORECASE)


def speaks_of_wsl(case: Case) -> bool:
    """Whether the machine is WSL, or a message names its kernel (5.15.90.1-microsoft-standard-WSL2)."""
    return is_wsl(case.machine) or any("microsoft-standard" in message.text for message in case.messages)


def quote(message: Message, match: re.Match[str]) -> str:
    """Return the matching line with its source, shortened around the match if it is long."""
    start = message.text.rfind("\n", 0, match.start()) + 1
    end = message.text.find("\n", match.end())
    end = end if end >= 0 else len(message.text)
    first = max(start, match.start() - _QUOTE_LENGTH // 2)
    last = min(end, first + _QUOTE_LENGTH)
    line = " ".join(message.text[first:last].split())  # a match may span wrapped lines
    shown = f"{'…' if first > start else ''}{line}{'…' if last < end else ''}"
    return text("{where}: {line}", where=message.where, line=shown)


def cuda_error(*numbers: int) -> str:
    """Return a pattern of the ways in which programs print an error of CUDA by its number alone."""
    one_of = "|".join(map(str, numbers))
    return (
        r"(?:cudaGetDeviceCount(?:\(\))? (?:returned|failed with)|cu(?:da_?)?Init\S* (?:failed|returned|results?)[^\n\d]{0,20}"
        r"|== ?cudaSuccess\s*|CUDA (?:driver |runtime |init\w* )?(?:error|failure)(?: code)?[ :#(=]{1,3}|init failure:|cuda\w* (?:error|failed)[ :]*(?:error )?code[ :=]*)"
        rf"\s*\(?(?:{one_of})\b"
    )


class RulePage(Struct, frozen=True):
    """`ownlab doctor --explain CODE --json`."""

    code: str
    severity: Severity
    title: str
    page: str  # Markdown

    @classmethod
    def of(cls, rule: type[Rule]) -> RulePage:
        """Return the page of a rule."""
        return cls(rule.code, rule.severity, rule.title, rule.page())


class RuleList(Struct, frozen=True):
    """`ownlab doctor --explain all --json`."""

    rules: tuple[RulePage, ...]
