"""A kernel in Colab mode whose cells a test runs, answering what they ask as a page would."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from tests.guest.colab.kernel_process import PYTHON, SECONDS, started


@dataclass
class Ran:
    """The outcome of a cell."""

    text: str = ""  # stdout and stderr
    result: str = ""
    error: str = ""
    asked: list[tuple[str, bool]] = field(default_factory=list)  # the prompt, and whether for a password


class Cells:
    """Runs one cell after the other in one kernel."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager, self._client = manager, client

    def run(
        self, code: str, answers: Sequence[str] | None = None, on_text: Callable[[str], object] = lambda text: None
    ) -> Ran:
        """Run one cell. Without answers, stdin is not allowed. `on_text` gets all text so far."""
        ran, left = Ran(), list(answers or ())
        # ipykernel 6 would not run what comes at once after an error.
        request = self._client.execute(code, allow_stdin=answers is not None, stop_on_error=False)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            message = self._next(request)
            if message is None:
                continue
            content = message["content"]
            if message["msg_type"] == "input_request":
                ran.asked.append((content["prompt"], content["password"]))
                self._client.input(left.pop(0))
            elif message["msg_type"] == "stream":
                ran.text += content["text"]
                on_text(ran.text)
            elif message["msg_type"] == "execute_result":
                ran.result = content["data"]["text/plain"]
            elif message["msg_type"] == "error":
                ran.error = f"{content['ename']}: {content['evalue']}"
            elif content.get("execution_state") == "idle":
                return ran
        raise AssertionError(f"not done in {SECONDS} s: {code}\n{ran}")

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def _next(self, request: str) -> dict[str, Any] | None:
        for receive, seconds in ((self._client.get_iopub_msg, 0.05), (self._client.get_stdin_msg, 0.001)):
            try:
                message: dict[str, Any] = receive(timeout=seconds)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") == request:
                return message
            return None
        return None


@contextmanager
def kernel(folder: Path, changes: Mapping[str, str] | None = None, python: str = PYTHON) -> Iterator[Cells]:
    """A kernel that works in a folder, with changes to the environment."""
    with started(folder, changes or {}, python) as (manager, client):
        yield Cells(manager, client)
