"""Background calls in daemon threads: a call that hangs delays neither the others nor the end of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ownlab.errors import DeadlineError
from ownlab.text import text

__all__ = ["BackgroundCall", "call_each"]

A = TypeVar("A")
T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """A call that runs in the background, and its result. For calls that wait on child processes or the operating system."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: list[T] = []
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as exc:  # noqa: BLE001  # raised again in the thread that asks for the result
            self._raised = exc

    def ended(self, within: float) -> bool:
        """Whether it has ended, after waiting at most `within` seconds."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def result(self, within: float | None = None) -> T:
        """Return its result, or raise its exception. DeadlineError if it does not end within that many seconds."""
        self._thread.join(within)
        if self._thread.is_alive():
            raise DeadlineError(text("no answer in {seconds:g} s", seconds=within))
        if self._raised is not None:
            raise self._raised
        return self._result[0]


def call_each(function: Callable[[A], T], arguments: Sequence[A]) -> tuple[T, ...]:
    """Call the function with each argument, all at the same time, and return the results."""
    calls = [BackgroundCall(partial(function, argument)) for argument in arguments]
    return tuple(call.result() for call in calls)
