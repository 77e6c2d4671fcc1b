"""Every cause that `ownlab why` recognises, whatever it was found in: for the pages, and for finding one by its code."""

from __future__ import annotations

from ownlab.errors import UsageError
from ownlab.instruments.why.nccl.explanation import NCCL_RULES
from ownlab.instruments.why.rule import Cause
from ownlab.instruments.why.rules import RULES
from ownlab.instruments.why.trace.rules import TRACE_RULES
from ownlab.text import text

__all__ = ["CAUSES", "find_cause"]

CAUSES: tuple[type[Cause], ...] = (*RULES, *TRACE_RULES, *NCCL_RULES)


def find_cause(code: str) -> type[Cause]:
    """Return the rule with a code. UsageError if there is none."""
    for cause in CAUSES:
        if cause.code == code:
            return cause
    import difflib  # only for the message

    close = difflib.get_close_matches(code, [cause.code for cause in CAUSES], n=1)
    hint = text("Did you mean {code}?", code=close[0]) if close else text("See: ownlab why --explain all")
    raise UsageError(text("There is no finding with the code {code!r}.", code=code), hint=hint)
