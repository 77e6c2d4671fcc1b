"""Why a limit ends a runtime. Standard library only: supervisors import it.

The store has a reason as an English sentence, which everybody who shares it can read; `read_reason` makes it a Text again.
"""

from __future__ import annotations

import re
from functools import cache

from ownlab.text import Template, template

__all__ = ["IDLE", "JOB_LIMIT", "QUOTA", "SESSION", "STOPPED_IN_LAB", "STOPPED_WITH_LAB", "UNATTENDED", "read_reason"]

IDLE = template("after {duration} idle")
UNATTENDED = template("after {duration} idle with no page open")
SESSION = template("sessions end after {duration}")
QUOTA = template("this week's {duration} of card time are used up")
JOB_LIMIT = template("its Slurm job reaches its time limit, which slurm.time sets")
STOPPED_IN_LAB = template("it was stopped in the lab")
STOPPED_WITH_LAB = template("the lab was stopped")

# The first that fits counts.
_REASONS = (UNATTENDED, IDLE, SESSION, QUOTA, JOB_LIMIT, STOPPED_IN_LAB, STOPPED_WITH_LAB)


def read_reason(sentence: str) -> str:
    """Return a reason from the store as a Text if it is one of ours, otherwise unchanged."""
    for reason in _REASONS:
        match = _pattern(reason).fullmatch(sentence)
        if match:
            return reason.fill(**match.groupdict())
    return sentence


@cache
def _pattern(reason: Template) -> re.Pattern[str]:
    return re.compile(re.escape(reason).replace(r"\{duration\}", "(?P<duration>.{1,40})"))
