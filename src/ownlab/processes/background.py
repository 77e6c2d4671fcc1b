"""Calls that run beside us, in daemon threads: one that hangs keeps neither the others nor our own end waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ownlab.errors import DeadlineError

__all__ = ["Beside", "each_beside"]

A = TypeVar("A")
T = TypeVar("T")


class Beside(Generic[T]):
    """A call that was started, and its result. For calls that wait on children or on the kernel."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: list[T] = []
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as exc:  # noqa: BLE001  # not swallowed: raised in the thread that asks for the result
            self._raised = exc

    def ended(self, within: float) -> bool:
        """Whether it ended, waiting `within` seconds for it at the most."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def result(self, within: float | None = None) -> T:
        """What it returned, or raises what it raised. DeadlineError where it did not end within so many seconds."""
        self._thread.join(within)
        if self._thread.is_alive():
            raise DeadlineError(f"no answer in {within:g} s")
        if self._raised is not None:
            raise self._raised
        return self._result[0]


def each_beside(function: Callable[[A], T], arguments: Sequence[A]) -> tuple[T, ...]:
    """The function's result for each argument, all at the same time."""
    calls = [Beside(partial(function, argument)) for argument in arguments]
    return tuple(call.result() for call in calls)
