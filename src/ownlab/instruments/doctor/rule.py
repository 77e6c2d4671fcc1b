"""What a rule is.

A rule is a class with a stable code. Its docstring is its page: the first line says what it finds, then come "Why it
matters", "What to do" and "Sources". `ownlab doctor --explain CODE` shows it, and docs/RULES.md is made of them.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import Struct

from ownlab.instruments.doctor.records import Case, Finding, Message, Severity

__all__ = ["QUOTES_SHOWN", "FixedMessageRule", "MessageRule", "Rule", "RuleList", "RulePage", "quote"]

# A quoted line longer than this is cut: evidence is to be read.
_QUOTE_LENGTH = 240
# Of one error: a run on eight cards says it eight times.
QUOTES_SHOWN = 3


class Rule(ABC):
    """Looks at a case and says what it finds. Called by `diagnose()`, once a case; keeps no state."""

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    blocks: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ()  # other names under which people look for the page

    @abstractmethod
    def check(self, case: Case) -> Iterable[Finding]:
        """Yield a finding for each separate thing that is wrong; usually none or one."""

    @classmethod
    def page(cls) -> str:
        """The rule's page, as Markdown."""
        return inspect.cleandoc(cls.__doc__ or "")

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
        """A finding of this rule; what is not given is the rule's own."""
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
    """A rule that knows its trouble by the words that programs say."""

    patterns: ClassVar[tuple[str, ...]]  # regular expressions, matched line by line, without regard to case

    def matches(self, case: Case) -> Iterator[tuple[Message, re.Match[str]]]:
        """Each message that bears a sign, with the first match in it."""
        pattern = re.compile("|".join(f"(?:{sign})" for sign in self.patterns), re.IGNORECASE)
        for message in case.messages:
            match = pattern.search(message.text)
            if match is not None:
                yield message, match

    def quotes(self, case: Case) -> tuple[str, ...]:
        """The lines that bear a sign, each once, as evidence."""
        return tuple(dict.fromkeys(quote(message, match) for message, match in self.matches(case)))


class FixedMessageRule(MessageRule):
    """A rule whose words tell it whole: they mean the same, and want the same, wherever they are said."""

    meaning: ClassVar[str]
    fix: ClassVar[tuple[str, ...]]

    def check(self, case: Case) -> Iterable[Finding]:
        """A finding with the first lines that bear a sign."""
        quotes = self.quotes(case)
        if quotes:
            yield self.finding(evidence=quotes[:QUOTES_SHOWN], meaning=self.meaning, fix=self.fix)


def quote(message: Message, match: re.Match[str]) -> str:
    """The line of the message in which the match stands, with where it was said; a long one is cut around the match."""
    start = message.text.rfind("\n", 0, match.start()) + 1
    end = message.text.find("\n", match.end())
    end = end if end >= 0 else len(message.text)
    first = max(start, match.start() - _QUOTE_LENGTH // 2)
    last = min(end, first + _QUOTE_LENGTH)
    line = " ".join(message.text[first:last].split())  # a match may run over wrapped lines
    return f"{message.where}: {'…' if first > start else ''}{line}{'…' if last < end else ''}"


class RulePage(Struct, frozen=True):
    """`ownlab doctor --explain CODE --json`."""

    code: str
    severity: Severity
    title: str
    page: str  # Markdown

    @classmethod
    def of(cls, rule: type[Rule]) -> RulePage:
        """The page of a rule."""
        return cls(rule.code, rule.severity, rule.title, rule.page())


class RuleList(Struct, frozen=True):
    """`ownlab doctor --explain all --json`."""

    rules: tuple[RulePage, ...]
