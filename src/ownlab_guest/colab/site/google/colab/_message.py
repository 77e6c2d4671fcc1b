"""How the kernel asks the page, by Colab's own protocol.

The kernel publishes a `colab_request`, as the running cell's. A page answers on stdin with an `input_reply` whose value is
`{"type": "colab_reply", "colab_msg_id": id, "data": …}`, or "error", or first "ack": it is there, and a person has to think.
A request without an id wants no answer.

Nothing here waits for a page that is not there: a cell whose request said that nobody can be asked (`ownlab run`,
papermill) fails at once, any other after ACK_SECONDS without a sign of life.
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
NOBODY = "nobody can be asked: this notebook is run without a page"
NO_PAGE = "no page of ownlab is open on this notebook"


class MessageError(Error):
    """The page answered with an error, or there is no page."""


class _Wait:
    """One request whose answer is waited for."""

    def __init__(self) -> None:
        self.sent = time.monotonic()
        self.heard = False  # some page has said that it has the request
        self.reply: Optional[Dict[str, Any]] = None


_lock = threading.Lock()  # of the stdin socket: one thread reads it at a time, for all
_waits: Dict[str, _Wait] = {}
_asking: List[List[str]] = []  # what was typed for each input() that waits, the innermost last


def running_kernel() -> Any:
    """This process's kernel; None where it is none, or IPython was never imported."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


def running_request() -> Dict[str, Any]:
    """The message that runs now: a cell's execute_request, or what a page sent by itself; {} where there is none."""
    kernel = running_kernel()
    if kernel is None:
        return {}
    try:
        return kernel.get_parent("shell") or {}
    except LookupError:  # a thread, in versions of ipykernel that keep it in a context
        return kernel.shell.parent_header or {}


def can_ask() -> bool:
    """Whether there may be somebody: the running cell's request did not say that there is nobody."""
    parent = running_request()
    if parent.get("header", {}).get("msg_type") == "execute_request":
        return bool(parent.get("content", {}).get("allow_stdin", False))
    return bool(parent)  # a click on a widget, or a call from JavaScript


def send_request(
    request_type: str, request_body: Any, parent: Optional[Dict[str, Any]] = None, expect_reply: bool = True
) -> Optional[str]:
    """Send a request, and do not wait; its id, where an answer is expected."""
    kernel = running_kernel()
    if kernel is None:
        raise MessageError(NOBODY)
    metadata = {"colab_request_type": request_type}
    message_id = None
    if expect_reply:
        message_id = metadata["colab_msg_id"] = uuid.uuid4().hex
        _waits[message_id] = _Wait()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # what was printed before comes before
    kernel.session.send(
        kernel.iopub_socket,
        "colab_request",
        content={"request": request_body},
        metadata=metadata,
        parent=parent or running_request(),
    )
    return message_id


def read_reply_from_input(message_id: Optional[str], timeout_sec: Optional[float] = None) -> Any:
    """Wait for the answer; None where there is none in time. An interruption ends the waiting."""
    if message_id is None or not can_ask():
        raise MessageError(NOBODY)
    wait = _waits.setdefault(message_id, _Wait())
    try:
        while wait.reply is None:
            passed = time.monotonic() - wait.sent
            if timeout_sec and passed >= timeout_sec:
                return None
            if not wait.heard and passed >= ACK_SECONDS:
                raise MessageError(NO_PAGE)
            _receive()
    finally:
        _waits.pop(message_id, None)
    if "error" in wait.reply:
        raise MessageError(_words(wait.reply["error"]))
    return wait.reply.get("data")


def blocking_request(
    request_type: str, request: Any = "", timeout_sec: Optional[float] = 5, parent: Optional[Dict[str, Any]] = None
) -> Any:
    """Send a request and wait for the answer; None where there is none in time."""
    if not can_ask():
        raise MessageError(NOBODY)
    return read_reply_from_input(send_request(request_type, request, parent, expect_reply=True), timeout_sec)


def ask_person(kernel: Any, question: Dict[str, Any], ident: Any, parent: Dict[str, Any]) -> str:
    """What somebody types in answer to an input_request.

    ipykernel takes whatever comes next on stdin for it, and an answer to google.colab may come late.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    typed: List[str] = []
    while _receive(wait_ms=0):
        pass  # late answers to what was asked before
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
    """Take one message from stdin, if there is one soon, for whoever waits for it; others are thrown away, as on Colab."""
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
            _give(value)
    return True


def _give(value: Dict[str, Any]) -> None:
    wait = _waits.get(str(value.get("colab_msg_id")))
    if wait is not None:
        wait.heard = True
        if "data" in value or "error" in value or not value.get("ack"):
            wait.reply = value


def _words(error: Any) -> str:
    if isinstance(error, dict) and "message" in error:
        name = error.get("name")
        return f"{name}: {error['message']}" if name else str(error["message"])
    return error if isinstance(error, str) else json.dumps(error)
