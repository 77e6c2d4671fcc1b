"""A kernel in Colab mode, and a client that shows its outputs and answers its requests as the page does."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from tests.guest.colab.kernel_process import PYTHON, SECONDS, started

Answers = Mapping[
    str, Callable[[dict[str, Any]], dict[str, Any]]
]  # by type of request: {"data": …}, {"error": …} or {}


@dataclass
class Request:
    """One colab_request."""

    type: str
    body: dict[str, Any]
    wants_answer: bool


@dataclass
class Ran:
    """The outcome of a cell."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    error: str = ""
    _is_clearing: bool = False

    @property
    def text(self) -> str:
        """Printed and displayed text."""
        return "".join(each["data"].get("text/plain", "") for each in self.outputs)

    @property
    def html(self) -> str:
        return "".join(each["data"].get("text/html", "") for each in self.outputs)

    def asked(self, request_type: str) -> list[dict[str, Any]]:
        return [each.body for each in self.requests if each.type == request_type]

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """One message, as an output area takes it."""
        if kind in ("stream", "display_data", "execute_result") and self._is_clearing:
            self.outputs, self._is_clearing = [], False
        if kind == "stream" and self.outputs and self.outputs[-1]["id"] == content["name"]:
            self.outputs[-1]["data"]["text/plain"] += content["text"]
        elif kind == "stream":
            self.outputs.append({"id": content["name"], "data": {"text/plain": content["text"]}})
        elif kind in ("display_data", "execute_result"):
            id_ = content.get("transient", {}).get("display_id")
            self.outputs.append({"id": id_, "data": content["data"], "metadata": content["metadata"]})
        elif kind == "update_display_data":
            for each in self.outputs:
                if each["id"] == content["transient"]["display_id"]:
                    each |= {"data": content["data"], "metadata": content["metadata"]}
        elif kind == "clear_output":
            self._is_clearing = content["wait"]
            self.outputs = self.outputs if content["wait"] else []
        elif kind == "error":
            self.error = f"{content['ename']}: {content['evalue']}"


class Page:
    """Runs cells with a page that answers, or without one."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def headless(self, code: str) -> Ran:
        """Run a cell without a page. Its requests get no answer."""
        return self._follow(self.client.execute(code, allow_stdin=False, stop_on_error=False), {}, is_there=False)

    def run(self, code: str, answers: Answers | None = None, is_there: bool = True) -> Ran:
        """A cell in the page. A page that is not there answers nothing."""
        return self._follow(self.client.execute(code, allow_stdin=True, stop_on_error=False), answers or {}, is_there)

    def result(self, code: str, answers: Answers | None = None) -> str:
        """The text of a cell that must not fail."""
        ran = self.run(code, answers)
        assert not ran.error, ran.error
        return ran.text

    def needs(self, *modules: str) -> None:
        """Skip the test where the kernel's environment lacks a library that is not a dependency of ownlab."""
        for name in modules:
            if self.headless(f"import {name}").error:
                pytest.skip(f"the kernel's environment has no {name}")

    def invoke(self, name: str, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], Ran]:
        """Return the result of google.colab.kernel.invokeFunction, and the output meanwhile."""
        data = {"name": name, "args": args, "kwargs": kwargs}
        content = {"comm_id": f"call-{time.monotonic_ns()}", "target_name": "ownlab_invoke", "data": data}
        message = self.client.session.msg("comm_open", content)
        self.client.shell_channel.send(message)
        closed: list[dict[str, Any]] = []
        ran = self._follow(message["header"]["msg_id"], {}, True, closed)
        return closed[0], ran

    def reply(self, message_id: str, **parts: Any) -> None:
        """Answer a request on stdin."""
        value = {"type": "colab_reply", "colab_msg_id": message_id, **parts}
        self.client.stdin_channel.send(self.client.session.msg("input_reply", {"value": value}))

    def _follow(
        self, request: str, answers: Answers, is_there: bool, closed: list[dict[str, Any]] | None = None
    ) -> Ran:
        ran, end = Ran(), time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                self._type(answers)
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "colab_request":
                self._answer(ran, message["metadata"], content["request"], answers if is_there else None)
            elif kind == "comm_close" and closed is not None:
                closed.append(content["data"])
            elif kind == "status" and content["execution_state"] == "idle":
                return ran
            else:
                ran.take(kind, content)
        raise AssertionError(f"not done in {SECONDS} s: {ran}")

    def _type(self, answers: Answers) -> None:
        """Answer what input() asks, where that was foreseen."""
        if "input" in answers and self.client.stdin_channel.msg_ready():
            self.client.input(answers["input"](self.client.get_stdin_msg(timeout=1)["content"])["data"])

    def _answer(self, ran: Ran, metadata: dict[str, Any], body: Any, answers: Answers | None) -> None:
        kind, message_id = metadata["colab_request_type"], metadata.get("colab_msg_id")
        ran.requests.append(Request(kind, body, message_id is not None))
        if message_id is None or answers is None:
            return
        self.reply(message_id, ack=True)
        parts = answers[kind](body) if kind in answers else {}
        if parts:
            self.reply(message_id, **parts)


@contextmanager
def open_page(folder: Path, changes: Mapping[str, str] | None = None, python: str = PYTHON) -> Iterator[Page]:
    """A kernel that works in a folder, with changes to the environment."""
    with started(folder, {"OWNLAB_CONTENT": "", **(changes or {})}, python) as (manager, client):
        yield Page(manager, client)
