"""Whatever arrives on the control socket, the runtime lives on and answers the next request."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "\ud800",
    "\0",
    "x" * 300_000,
    "../../../etc/passwd",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    {"": None},
    {"A=B": "C"},
    {"A\\0": "\ud800"},
)


def exchange(path: Path, line: bytes) -> bytes:
    """Send bytes and return the whole answer; empty if the connection was closed without one."""
    answer = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                answer += chunk
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is refused before all of it was read
    return answer


def malformed(dice: random.Random) -> Iterator[bytes]:
    for deep in (b"[", b'{"do":', b'{"do": [', b'{"env": {"a": '):
        for count in (500, 900, 990, 200_000):
            yield deep * count + b"\n"
            closing = {b"[": b"]", b"{": b"}"}
            ends = b"".join(closing[bytes([sign])] for sign in reversed(deep) if bytes([sign]) in closing)
            yield deep * count + b"1" + ends * count + b"\n"
    yield b"\n" * 100_000
    yield b" " * (2 << 20)
    yield b'{"do": "' + b"s" * (2 << 20) + b'"}\n'
    yield b'{"do": "signal", "signum": ' + b"9" * 5000 + b"}\n"
    yield b'{"do": "signal", "signum": NaN}\n'
    yield b'{"do": "signal", "signum": -Infinity}\n'
    for _ in range(100):
        yield dice.randbytes(dice.randrange(1, 3000)) + b"\n"


def odd_commands() -> Iterator[bytes]:
    for value in ODD:
        yield json.dumps({"do": value}).encode() + b"\n"
        if value not in (True, None):  # True is 1, SIGHUP, which rightly ends a kernel
            yield json.dumps({"do": "signal", "signum": value}).encode() + b"\n"
        yield json.dumps({"do": "extend", "why": value}).encode() + b"\n"
        yield json.dumps({"do": "rename", "notebook": value}).encode() + b"\n"
        if value:
            yield json.dumps({"do": "relaunch", "cwd": value, "env": {"A": "B"}}).encode() + b"\n"
            yield json.dumps({"do": "relaunch", "env": value}).encode() + b"\n"
        if value not in ("", "../../../etc/passwd"):  # which a variable may have
            yield json.dumps({"do": "relaunch", "env": {"A": value}}).encode() + b"\n"
        yield json.dumps({"do": "x", "texts": value}).encode() + b"\n"
        yield json.dumps({"do": "x", "texts": {"x": {"template": "{a:f}", "values": {"a": value}}}}).encode() + b"\n"
    yield b'{"do": "rename"}\n'
    yield b'{"do": "x", "texts": {"x": {"template": "{a:f}", "values": {"a": 1' + b"0" * 400 + b"}}}}\n"


def test_no_request_ends_the_runtime(bench: Any) -> None:
    runtime = bench.start_in_lab()
    runtime.ready()
    before = runtime.pid("supervisor"), runtime.pid("kernel")
    control = Path(runtime.plan.sockets) / "control"
    for line in [*malformed(random.Random(19)), *odd_commands()]:
        answer = exchange(control, line)
        if answer:
            assert isinstance(json.loads(answer).get("ok"), bool), answer[:200]
        assert runtime.ask("status")["state"] == "running", (line[:200], runtime.log())
    assert (runtime.pid("supervisor"), runtime.pid("kernel")) == before
