"""Opens the lab in the person's browser, without the token on any command line.

The browser is given an address that works once: it leads to the real one. (A file that leads there, as Jupyter has it,
is closed to browsers in a sandbox, such as Ubuntu's Firefox.)
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

__all__ = ["JOIN_SECONDS", "can_open", "open_browser"]

# A browser that was not running yet may need some seconds.
_SECONDS = 20.0
# For so long somebody whose command is otherwise done may be kept waiting; the address was printed.
JOIN_SECONDS = 5.0


def can_open(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a screen for it. Without one, Python would start a text browser in this terminal."""
    if environ.get("BROWSER"):
        return True
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environ
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> threading.Thread:
    """Open it in the background. The thread ends when the browser has come, or after some seconds."""
    thread = threading.Thread(target=_lead, args=(address,), daemon=True, name="browser")
    thread.start()
    return thread


def _lead(address: str) -> None:
    with _Gate(address) as gate:
        threading.Thread(target=webbrowser.open, args=(gate.url,), daemon=True).start()  # some browsers stay in it
        gate.wait()


class _Gate(HTTPServer):
    """Answers the one who knows its secret path, once, with the way to the lab."""

    def __init__(self, address: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.address: str | None = address
        self.path = f"/{secrets.token_urlsafe(24)}"
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"
        self.timeout = 1.0

    def wait(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while self.address is not None and time.monotonic() < deadline:
            self.handle_request()

    def verify_request(self, request: object, client_address: object) -> bool:
        """Other users of this machine can read our browser's command line; their connections are not answered."""
        port = client_address[1] if isinstance(client_address, tuple) else 0
        owner = _owner_of(port, self.server_port)
        return owner is None or owner in (0, os.getuid())


class _Answer(BaseHTTPRequestHandler):
    timeout = 5.0

    def do_GET(self) -> None:
        gate = self.server
        assert isinstance(gate, _Gate)
        if self.path != gate.path or gate.address is None:
            self.send_error(404)
            return
        self.send_response(302)
        self.send_header("Location", gate.address)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        gate.address = None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Nothing is logged: the path is a secret."""


def _owner_of(port: int, server_port: int) -> int | None:
    """The user of a connection from this machine (proc(5): /proc/net/tcp); None where the system does not tell."""
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[1].endswith(f":{port:04X}") and words[2].endswith(f":{server_port:04X}"):
            return int(words[7])
    return None
