"""The limits of a runtime in seconds, derived from the settings. Standard library only: supervisors import it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.config.settings import SETTINGS, LabOptions, Preset

__all__ = ["LIMITS", "Limits", "limits_of", "preset_limits", "stricter"]

# Field of Limits -> the setting it comes from.
LIMITS = {setting.limit.field: setting for setting in SETTINGS if setting.limit is not None}


def _seconds(field: str, value: float | None) -> Any:
    limit = LIMITS[field].limit
    assert limit is not None
    return None if value is None else value * limit.seconds


def _default(field: str) -> Any:
    value: Any = LIMITS[field].default
    return _seconds(field, value)


class Limits(NamedTuple):
    """In seconds; None: no limit. A busy kernel is never stopped for idleness."""

    idle: float | None = _default("idle")
    session: float | None = _default("session")
    card_seconds_per_week: float | None = _default("card_seconds_per_week")
    warn: float = _default("warn")  # people are warned this long before the end
    extend: float = _default("extend")  # what one extension adds; 0: cannot be extended
    on_end: float = _default("on_end")  # the time that functions given to ownlab.on_end have
    # Idle time of a runtime with a card while no page shows its notebook.
    unattended: float | None = _default("unattended")


assert set(Limits._fields) == set(LIMITS), "each limit has its setting"


def limits_of(options: LabOptions) -> Limits:
    """Return the limits that the settings give to a runtime."""
    return Limits(**{field: _seconds(field, getattr(options, setting.field)) for field, setting in LIMITS.items()})


def preset_limits(preset: Preset) -> dict[str, float]:
    """Return the limits that a preset sets, in seconds, by the fields of Limits."""
    return {
        field: _seconds(field, preset.limits[setting.field])
        for field, setting in LIMITS.items()
        if setting.field in preset.limits
    }


def stricter(own: Limits, policy: Mapping[str, float | None] | None) -> Limits:
    """Return the stricter of a person's own limits and those of a shared store. When people are warned is their own choice."""
    if policy is None:
        return own
    changed: dict[str, float] = {}
    for field, setting in LIMITS.items():
        values = [value for value in (getattr(own, field), policy.get(field)) if value is not None]
        if values and not (setting.limit is not None and setting.limit.personal):
            changed[field] = min(values)
    return own._replace(**changed)
