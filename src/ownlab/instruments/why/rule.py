"""The base class of a rule of `ownlab why`.

A rule is a class with a stable code. Its docstring is its page: the first line says what the rule finds, then follow
"Why it matters", "What to do" and "Sources". `ownlab why --explain CODE` shows the page; docs/WHY.md is generated from all pages.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from msgspec import Struct

from ownlab.instruments.why.code_change import CodeChanges
from ownlab.instruments.why.records import Change, Evidence, Finding, Place
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import page_text

__all__ = ["LOWEST_SHARE", "Case", "Cause", "CauseList", "CausePage", "Rule"]

# What costs less of a step is no finding.
LOWEST_SHARE = 0.05


class Case(NamedTuple):
    """What a rule is given: the mean step of one rank, the models of all ranks, and the user's code."""

    model: StepModel
    ranks: tuple[StepModel, ...]
    evidence: Evidence
    code: CodeChanges


class Cause(ABC):
    """What all rules have, whatever they look at: a code, a title and a page."""

    code: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def page(cls) -> str:
        """Return the rule's page as Markdown."""
        return page_text(inspect.cleandoc(cls.__doc__ or ""))


class Rule(Cause):
    """Checks a run for one cause. It keeps no state."""

    # About the whole program instead of a line: named after a cause in one line, unless it costs several times as much.
    general: ClassVar[bool] = False
    # Causes that are to be removed first, since this one is about what is left without them: named before it.
    follows: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding per separate cause; usually none or one."""

    def finding(
        self,
        case: Case,
        *,
        cost_ms: float,
        headline: str,
        evidence: Iterable[str],
        meaning: str,
        advice: Iterable[str],
        where: Place | None = None,
        change: Change | None = None,
        after: tuple[float, float] | None = None,
    ) -> Finding:
        """Return a finding of this rule."""
        if case.model.gpu is not None and after is not None:
            # What the host does while the GPU works costs nothing.
            cost_ms = max(0.0, min(cost_ms, case.model.step_ms - sum(after) / 2))
        return Finding(
            code=self.code,
            title=self.title,
            headline=headline,
            cost_ms=round(cost_ms, 3),
            share=round(cost_ms / case.model.step_ms, 4),
            evidence=tuple(evidence),
            meaning=meaning,
            advice=tuple(advice),
            where=where,
            change=change,
            step_ms_after=None if after is None else (round(after[0], 3), round(after[1], 3)),
        )


class CausePage(Struct, frozen=True):
    """`ownlab why --explain CODE --json`."""

    code: str
    title: str
    page: str  # Markdown

    @classmethod
    def of(cls, rule: type[Cause]) -> CausePage:
        """Return the page of a rule."""
        return cls(rule.code, rule.title, rule.page())


class CauseList(Struct, frozen=True):
    """`ownlab why --explain all --json`."""

    rules: tuple[CausePage, ...]
