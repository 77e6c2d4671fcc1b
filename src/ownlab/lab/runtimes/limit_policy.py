"""Whose limits hold: a person's own, and those of the store that they share with others."""

from __future__ import annotations

from collections.abc import Mapping

from ownlab.lab.runtimes.plan import Limits

__all__ = ["stricter"]


def stricter(own: Limits, policy: Mapping[str, float | None] | None) -> Limits:
    """Of each limit the stricter. When people are warned is their own matter."""
    if policy is None:
        return own
    changed: dict[str, float] = {}
    for name in ("idle", "session", "card_seconds_per_week", "extend", "on_end"):
        given = [value for value in (getattr(own, name), policy.get(name)) if value is not None]
        if given:
            changed[name] = min(given)
    return own._replace(**changed)
