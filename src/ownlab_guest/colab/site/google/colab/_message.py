"""Requests from the kernel to the page, by Colab's protocol.

The kernel publishes a `colab_request` for the running cell. A page answers on stdin with an `input_reply` whose value is
`{"type": "colab_reply", "colab_msg_id": id, "data": …}`, or has "error" instead, or first "ack": a person has to decide.
A request without an id expects no answer.

No request waits for a missing page: if the cell's request does not allow stdin (`ownlab run`, papermill), it fails at once,
otherwise after ACK_SECONDS without an acknowledgement.
"""

import json
import sys
import threading
import time
import uuid
from typing import Any, Dict, List, Optional

from .errors import Error

ACK_SECONDS = 10.0
POLL_MS = 25
NOBODY = "nobody can answer: this notebook runs without a page"
NO_PAGE = "this notebook is not open in a page of ownlab"


class MessageError(Error):
    """The page answered with an error, or there is no page."""


class _Wait:
    """A request that waits for its answer."""

    def __init__(self) -> None:
        self.sent = time.monotonic()
        self.acknowledged = False  # a page has received the request
        self.reply: Optional[Dict[str, Any]] = None


_lock = threading.Lock()  # of the stdin socket: one thread at a time reads it, for all
_waits: Dict[str, _Wait] = {}
_asking: List[List[str]] = []  # typed text for each waiting input(), the innermost last


def running_kernel() -> Any:
    """Return this process's kernel; None where there is none, or IPython was never imported."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


def running_request() -> Dict[str, Any]:
    """Return the message being handled: a cell's execute_request, or one that a page sent; {} where there is none."""
    kernel = running_kernel()
    if kernel is None:
        return {}
    try:
        return kernel.get_parent("shell") or {}
    except LookupError:  # a thread, in versions of ipykernel that keep it in a context
        return kernel.shell.parent_header or {}


def can_ask() -> bool:
    """Return whether a person may answer: the running cell's request allows stdin."""
    parent = running_request()
    if parent.get("header", {}).get("msg_type") == "execute_request":
        return bool(parent.get("content", {}).get("allow_stdin", False))
    return bool(parent)  # a click on a widget, or a call from JavaScript


def send_request(
    request_type: str, request_body: Any, parent: Optional[Dict[str, Any]] = None, expect_reply: bool = True
) -> Optional[str]:
    """Send a request without waiting. Return its id, where an answer is expected."""
    kernel = running_kernel()
    if kernel is None:
        raise MessageError(NOBODY)
    metadata = {"colab_request_type": request_type}
    message_id = None
    if expect_reply:
        message_id = metadata["colab_msg_id"] = uuid.uuid4().hex
        _waits[message_id] = _Wait()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # keep the order with earlier output
    kernel.session.send(
        kernel.iopub_socket,
        "colab_request",
        content={"request": request_body},
        metadata=metadata,
        parent=parent or running_request(),
    )
    return message_id


def read_reply_from_input(message_id: Optional[str], timeout_sec: Optional[float] = None) -> Any:
    """Wait for the answer; None where there is none in time. An interrupt ends the wait."""
    if message_id is None or not can_ask():
        raise MessageError(NOBODY)
    wait = _waits.setdefault(message_id, _Wait())
    try:
        while wait.reply is None:
            passed = time.monotonic() - wait.sent
            if timeout_sec and passed >= timeout_sec:
                return None
            if not wait.acknowledged and passed >= ACK_SECONDS:
                raise MessageError(NO_PAGE)
            _receive()
    finally:
        _waits.pop(message_id, None)
    if "error" in wait.reply:
        raise MessageError(_error_message(wait.reply["error"]))
    return wait.reply.get("data")


def blocking_request(
    request_type: str, request: Any = "", timeout_sec: Optional[float] = 5, parent: Optional[Dict[str, Any]] = None
) -> Any:
    """Send a request and wait for the answer; None where there is none in time."""
    if not can_ask():
        raise MessageError(NOBODY)
    return read_reply_from_input(send_request(request_type, request, parent, expect_reply=True), timeout_sec)


def ask_person(kernel: Any, question: Dict[str, Any], ident: Any, parent: Dict[str, Any]) -> str:
    """Return what a person types in answer to an input_request.

    ipykernel would take any message on stdin for it, also a late answer to google.colab.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    typed: List[str] = []
    while _receive(wait_ms=0):
        pass  # late answers to earlier requests
    kernel.session.send(kernel.stdin_socket, "input_request", question, parent, ident=ident)
    _asking.append(typed)
    try:
        while not typed:
            _receive()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted by user") from None
    finally:
        _asking.remove(typed)
    if typed[0] == "\x04":
        raise EOFError
    return typed[0]


def _receive(wait_ms: int = POLL_MS) -> bool:
    """Receive one message from stdin, if there is one soon, and deliver it; unexpected ones are dropped, as on Colab."""
    kernel = running_kernel()
    with _lock:
        if not kernel.stdin_socket.poll(wait_ms):
            return False
        try:
            _, message = kernel.session.recv(kernel.stdin_socket)
        except ValueError:  # not signed with this kernel's key, or sent twice
            return True
        value = message["content"].get("value") if message else None
        if isinstance(value, str) and _asking:
            _asking[-1].append(value)
        elif isinstance(value, dict) and value.get("type") == "colab_reply":
            _deliver(value)
    return True


def _deliver(value: Dict[str, Any]) -> None:
    wait = _waits.get(str(value.get("colab_msg_id")))
    if wait is not None:
        wait.acknowledged = True
        if "data" in value or "error" in value or not value.get("ack"):
            wait.reply = value


def _error_message(error: Any) -> str:
    if isinstance(error, dict) and "message" in error:
        name = error.get("name")
        return f"{name}: {error['message']}" if name else str(error["message"])
    return error if isinstance(error, str) else json.dumps(error)
