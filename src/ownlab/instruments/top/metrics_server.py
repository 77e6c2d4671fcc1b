"""A small HTTP server that answers Prometheus: `ownlab top --serve`. It looks at the machine only when it is asked."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ownlab.errors import InputError, LabError, UsageError
from ownlab.instruments.top.prometheus import CONTENT_TYPE, exposition
from ownlab.instruments.top.source import Source, StreamEnded
from ownlab.instruments.top.window import Window

__all__ = ["MetricsServer", "OnDemand", "is_token", "parse_address", "read_token"]

# Two scrapers that come within so many seconds get the same figures; GPM's need more than a tenth.
_FRESH = 0.5


class OnDemand:
    """Takes a sample whenever somebody asks; its rates are the mean since the last question."""

    def __init__(self, source: Source, window: float = 30.0) -> None:
        self._source = source
        self._window = Window(window)
        self._taken_at = float("-inf")
        self._said = b""
        self._one_at_a_time = threading.Lock()

    def __call__(self) -> bytes:
        """What Prometheus is told."""
        with self._one_at_a_time:
            if time.monotonic() - self._taken_at >= _FRESH:
                self._look()
            return self._said

    def _look(self) -> None:
        try:
            sample = self._source.take()
        except StreamEnded:  # of a recording the last sample stays
            return
        self._window.add(sample)
        self._said = exposition(sample, self._window.verdicts(), hostname=socket.gethostname())
        self._taken_at = time.monotonic()


def parse_address(given: str) -> tuple[str, int]:
    """ "127.0.0.1:9400", ":9400" and "9400" (both on this machine alone), "[::1]:9400"; port 0: any free one."""
    host, _, port = given.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{given} is no address to serve at.", hint="Write it as 127.0.0.1:9400.")
    return host.strip("[]") or "127.0.0.1", int(port)


def read_token(path: Path) -> str:
    """What the file holds, without the space around it. Read at each question: it may be changed meanwhile."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"the token in {path} cannot be read: {exc}.") from exc
    if not token:
        raise InputError(f"{path} holds no token.", hint="For a new one: openssl rand -hex 32")
    return token


def is_token(header: str, token: str) -> bool:
    """Whether an Authorization header has this token, as Prometheus and Jupyter's clients write it."""
    kind, _, given = header.strip().partition(" ")
    return kind.lower() in ("bearer", "token") and hmac.compare_digest(given.strip().encode(), token.encode())


class MetricsServer:
    """Listens from its making on; `serve` answers until `close`."""

    def __init__(self, answer: Callable[[], bytes], address: str, *, token_file: Path | None = None) -> None:
        host, port = parse_address(address)
        if token_file is None and not _is_loopback(host):
            raise UsageError(
                f"{host} can be reached from other machines, and what is told names people and their notebooks.",
                hint="Give a token with --token-file FILE, or serve at 127.0.0.1.",
            )
        if token_file is not None:
            read_token(token_file)
        try:
            self._server = _server_class(host)((host, port), _handler(answer, token_file))
        except OSError as exc:
            raise LabError(f"{address} cannot be served at: {exc.strerror or exc}.", hint="Give another port.") from exc

    @property
    def url(self) -> str:
        """Where Prometheus finds it."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/metrics"

    def serve(self) -> None:
        """Answer until `close` is called, by another thread or a signal's handler."""
        self._server.serve_forever()

    def close(self) -> None:
        """End. Waits for `serve` to return: not to be called by its own thread."""
        self._server.shutdown()
        self._server.server_close()


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            """Called by socketserver: somebody who goes away in the middle is no failure of ours."""
            if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    return Server


def _handler(answer: Callable[[], bytes], token_file: Path | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0  # seconds for somebody who connects and says nothing
        server_version, sys_version = "ownlab", ""

        def do_GET(self) -> None:
            """Called by http.server."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND, "the figures are at /metrics")
            elif self._may():
                body = answer()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def _may(self) -> bool:
            if token_file is None:
                # A page of any site may have its name point to this machine, and ask in its reader's browser.
                if _is_address(self.headers.get("Host", "")):
                    return True
                self.send_error(HTTPStatus.FORBIDDEN, "ask by this machine's address")
                return False
            try:
                if is_token(self.headers.get("Authorization", ""), read_token(token_file)):
                    return True
            except InputError as exc:
                self.log_error("%s", exc.message)
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Called by http.server: questions that were answered are not worth a line."""

    return Handler


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(host: str) -> bool:
    """Whether a Host header is a number or localhost."""
    name = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
