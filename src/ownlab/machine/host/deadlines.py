"""Asks questions that the kernel may never answer (a dead network mount, say), and goes on in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from ownlab.processes.background import Beside

__all__ = ["ask_all"]

T = TypeVar("T")


def ask_all(questions: Mapping[str, Callable[[], T]], deadline: float) -> dict[str, T | OSError]:
    """The answer, or the refusal, to each question that was answered within `deadline` seconds for all together.

    Each question has a daemon thread of its own: one that hangs keeps neither the others nor the end of the program
    waiting (NFS and FUSE wait in a way that the end of the process interrupts, since Linux 2.6.25).
    """
    calls = {name: Beside(question) for name, question in questions.items()}
    answers: dict[str, T | OSError] = {}
    end = time.monotonic() + deadline
    for name, call in calls.items():
        if call.ended(max(0.0, end - time.monotonic())):
            try:
                answers[name] = call.result()
            except OSError as exc:
                answers[name] = exc
    return answers
