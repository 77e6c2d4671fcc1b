"""Which versions are kept: the older they are, the fewer. Named ones are kept until they are purged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from ownlab.lab.notebooks.history.records import Version

__all__ = ["thin_out"]

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
# Up to this age, versions are at least this far apart.
_SPACING = ((_HOUR, 2 * _MINUTE), (_DAY, 10 * _MINUTE), (30 * _DAY, _HOUR), (float("inf"), _DAY))
# Made for a reason: kept whatever came shortly after them.
_MARKED = ("opened", "before-restore", "restored", "deleted", "conflict", "recovered", "named")
# As long as this, text that somebody deleted is in the version before, however soon that one was followed by others.
_UNDO = _DAY


def thin_out(versions: Sequence[Version], now: float, days: float) -> list[Version]:
    """Return the versions to keep, oldest first as they are given. The newest is always kept.

    Distances are measured from the older one: measured from the newer one, somebody who edits all the time would keep none.
    """
    kept: list[Version] = []
    for version, following in zip_longest(versions, versions[1:]):
        age = now - version.at
        if following is None or version.name is not None:
            kept.append(version)
        elif age > days * _DAY:
            continue
        elif not kept or version.at - kept[-1].at >= _spacing(age) or _is_needed(version, following, age):
            kept.append(version)
    return kept


def _is_needed(version: Version, following: Version, age: float) -> bool:
    return version.reason in _MARKED or (following.lost > 0 and age <= _UNDO)


def _spacing(age: float) -> float:
    return next(spacing for limit, spacing in _SPACING if age <= limit)
