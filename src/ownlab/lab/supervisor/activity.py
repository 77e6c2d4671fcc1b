"""Whether an idle kernel's processes still work: a training run in the background is no idleness."""

from __future__ import annotations

__all__ = ["Activity"]

# Of one core, over the time since the last look: an idle kernel alone takes less than a tenth of this.
_WORKS = 0.05
# Seconds. The operating system counts CPU time in steps of 0.01 s, which would be all of a shorter time.
_SHORTEST = 0.2


class Activity:
    """Compares what a process tree has worked between two looks."""

    def __init__(self, now: float, cpu_seconds: float) -> None:
        self._at = now
        self._cpu_seconds = cpu_seconds

    def works(self, now: float, cpu_seconds: float) -> bool:
        """Whether more than 5 % of a core was used since the last look. A process that ended takes its sum with it."""
        used, passed = cpu_seconds - self._cpu_seconds, now - self._at
        if passed < _SHORTEST:
            return False
        self._at, self._cpu_seconds = now, cpu_seconds
        return used > _WORKS * passed
