"""Client and server of the control socket, over a real socket."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import LabError
from ownlab.lab.transport.control import ControlServer, send_command
from ownlab.lab.transport.endpoints import unix_endpoint
from ownlab.text import render, text


def echo(request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "refuse":
        return {"ok": False, "error": "not now"}
    if request["do"] == "extend":
        return {"ok": False, "error": text("the session ends after {duration}", duration="12 h")}
    return {"ok": True, "heard": request}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    listener = ControlServer(str(tmp_path / "control"), echo, timeout=3.0)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            for descriptor in select.select(listener.descriptors(), [], [], 0.02)[0]:
                listener.serve(descriptor)
            listener.expire(time.monotonic())

    thread = threading.Thread(target=serve)
    thread.start()
    yield tmp_path
    over.set()
    thread.join(10)
    listener.close()


def raw(folder: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(str(folder / "control"))
        connection.sendall(line)
        return connection.recv(65536)


def test_a_request_is_answered_whatever_its_size(served: Path) -> None:
    words = "ü" * 100_000
    assert send_command(unix_endpoint(str(served), "control"), "say", text=words) == {
        "heard": {"do": "say", "text": words}
    }


def test_a_refusal_is_an_error_with_a_reason(served: Path) -> None:
    with pytest.raises(LabError, match="The runtime refused: not now"):
        send_command(unix_endpoint(str(served), "control"), "refuse")


def test_the_template_of_a_sentence_travels_with_it_in_both_directions(served: Path) -> None:
    why = text("the lab {name} was stopped", name="main")
    heard = send_command(unix_endpoint(str(served), "control"), "end", why=why)["heard"]["why"]
    assert (heard, heard.template, heard.values) == (why, why.template, why.values)
    with pytest.raises(LabError) as refused:
        send_command(unix_endpoint(str(served), "control"), "extend")
    german = {
        "The runtime refused: {reason}.": "Die Laufzeit lehnt ab: {reason}.",
        "the session ends after {duration}": "die Sitzung endet nach {duration}",
    }
    assert refused.value.message == "The runtime refused: the session ends after 12 h."
    assert (
        render(refused.value.message, lambda template: german.get(template, template))
        == "Die Laufzeit lehnt ab: die Sitzung endet nach 12 h."
    )


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[1]\n", b"\xff\n"])
def test_invalid_requests_get_an_error(served: Path, line: bytes) -> None:
    assert b"a request must be one line with a JSON object" in raw(served, line)


def test_slow_or_silent_clients_block_nobody(served: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as slow:
        slow.connect(str(served / "control"))
        slow.sendall(b'{"do": ')
        assert send_command(unix_endpoint(str(served), "control"), "say")["heard"] == {"do": "say"}
        slow.sendall(b'"slow"}\n')
        slow.settimeout(10)
        assert slow.recv(1000) == b'{"ok": true, "heard": {"do": "slow"}}\n'


def test_a_silent_connection_times_out(served: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.settimeout(20)
        silent.connect(str(served / "control"))
        assert b"no request arrived" in silent.recv(1000)


def test_no_supervisor_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="does not answer: No such file"):
        send_command(unix_endpoint(str(tmp_path), "control"), "status")


def test_no_answer_is_an_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(str(tmp_path / "control"))
        deaf.listen()
        with pytest.raises(LabError, match=r"did not answer within 0\.1 s"):
            send_command(unix_endpoint(str(tmp_path), "control"), "status", timeout=0.1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become someone else")
def test_another_user_is_refused(served: Path) -> None:
    os.chmod(served, 0o755)
    os.chmod(served / "control", 0o777)
    answers, inward = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            os.chdir(served)
            os.setuid(65534)
            connection.settimeout(10)
            connection.connect("control")
            os.write(inward, connection.recv(1000))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b"belongs to another user" in os.read(answers, 1000)
    os.close(answers)
    os.close(inward)
