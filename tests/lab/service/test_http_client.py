"""Ports and HTTP requests, with real sockets."""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ownlab.errors import DeadlineError, InputError, LabError
from ownlab.lab.service.http_client import is_answering, wait_for_lab
from ownlab.lab.service.labs import Lab
from ownlab.lab.service.ports import choose_port, is_free, who_listens
from ownlab.lab.service.up import check_folder


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.headers["Authorization"] == "token right" else 403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def lab_on(port: int, token: str) -> Lab:
    return Lab("id", "/folder", f"http://127.0.0.1:{port}/", token, port, 1, 1.0, "ready")


def test_a_server_answers_to_its_token() -> None:
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert is_answering(lab_on(server.server_port, "right"))
            with pytest.raises(LabError, match="is not this lab"):
                is_answering(lab_on(server.server_port, "wrong"))
        finally:
            server.shutdown()
            thread.join()


def test_no_answer_while_nothing_listens() -> None:
    assert not is_answering(lab_on(choose_port(0, None), "right"))


def test_waiting_ends_when_the_starter_ends_or_at_the_deadline() -> None:
    assert wait_for_lab(lambda: None, lambda: False) is None
    with pytest.raises(DeadlineError, match="did not answer"):
        wait_for_lab(lambda: None, lambda: True, seconds=0.1)


def test_the_last_port_is_reused_if_it_is_free() -> None:
    port = choose_port(0, None)
    assert choose_port(0, port) == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert not is_free(port)
        assert choose_port(0, port) != port
        assert f"(pid {os.getpid()})" in (who_listens(port) or "")
        with pytest.raises(LabError, match=f"Port {port} is in use by .* \\(pid {os.getpid()}\\)"):
            choose_port(port, None)
    assert who_listens(port) is None


def test_a_folder_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(InputError, match="cannot be printed"):
        check_folder(str(tmp_path / "\udcff"))
