"""Opens the lab in the browser without the token on a command line.

The browser gets an address that works once and redirects to the real one. (Jupyter redirects from a file, which sandboxed
browsers such as Ubuntu's Firefox cannot read.)
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

# A browser that is not running yet needs some seconds.
_SECONDS = 20.0
# How long a command that is otherwise done may wait for the browser; the address was printed.
JOIN_SECONDS = 5.0


def can_open(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a display. Without one, Python would start a text browser in this terminal."""
    if environ.get("BROWSER"):
        return True
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in environ
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> threading.Thread:
    """Open the address in the background. The thread ends when the browser has connected, or after some seconds."""
    thread = threading.Thread(target=_redirect, args=(address,), daemon=True, name="browser")
    thread.start()
    return thread


def _redirect(address: str) -> None:
    with _RedirectServer(address) as server:
        threading.Thread(
            target=webbrowser.open, args=(server.url,), daemon=True
        ).start()  # some browsers block this call
        server.wait()


class _RedirectServer(HTTPServer):
    """Redirects one request with the secret path to the lab."""

    def __init__(self, address: str) -> None:
        super().__init__(("127.0.0.1", 0), _RedirectHandler)
        self.address: str | None = address
        self.path = f"/{secrets.token_urlsafe(24)}"
        self.url = f"http://127.0.0.1:{self.server_port}{self.path}"
        self.timeout = 1.0

    def wait(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while self.address is not None and time.monotonic() < deadline:
            self.handle_request()

    def verify_request(self, request: object, client_address: object) -> bool:
        """Refuse connections of other users, who can read the command line of our browser."""
        port = client_address[1] if isinstance(client_address, tuple) else 0
        owner = _owner_of(port, self.server_port)
        return owner is None or owner in (0, os.getuid())


class _RedirectHandler(BaseHTTPRequestHandler):
    timeout = 5.0

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _RedirectServer)
        if self.path != server.path or server.address is None:
            self.send_error(404)
            return
        self.send_response(302)
        self.send_header("Location", server.address)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        server.address = None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Log nothing: the path is a secret."""


def _owner_of(port: int, server_port: int) -> int | None:
    """Return the user of a local connection (proc(5): /proc/net/tcp); None if unknown."""
    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if words[1].endswith(f":{port:04X}") and words[2].endswith(f":{server_port:04X}"):
            return int(words[7])
    return None
