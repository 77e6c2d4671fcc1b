"""The HTTP server for Prometheus: `ownlab top --serve`. It samples the machine only when scraped."""

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
from ownlab.input_files import read_text
from ownlab.instruments.top.prometheus import CONTENT_TYPE, exposition
from ownlab.instruments.top.source import Source, StreamEnded
from ownlab.instruments.top.verdict_window import Window
from ownlab.text import text
from ownlab.units import KIB

__all__ = ["MetricsServer", "ScrapeSampler", "has_token", "parse_address", "read_token"]

# Scrapes within this time get the same values. GPM needs more than a tenth of a second between two samples.
_CACHE_SECONDS = 0.5


class ScrapeSampler:
    """Takes a sample for each scrape; its rates are means since the last scrape."""

    def __init__(self, source: Source, window: float = 30.0) -> None:
        self._source = source
        self._window = Window(window)
        self._taken_at = float("-inf")
        self._exposition = b""
        self._lock = threading.Lock()

    def __call__(self) -> bytes:
        """Return the metrics."""
        with self._lock:
            if time.monotonic() - self._taken_at >= _CACHE_SECONDS:
                self._take_sample()
            return self._exposition

    def _take_sample(self) -> None:
        try:
            sample = self._source.take()
        except StreamEnded:  # the last sample of a recording stays
            return
        self._window.add(sample)
        self._exposition = exposition(sample, self._window.verdicts(), hostname=socket.gethostname())
        self._taken_at = time.monotonic()


_MAX_TOKEN_BYTES = 64 * KIB  # of its file


def parse_address(address: str) -> tuple[str, int]:
    """Parse "127.0.0.1:9400", "[::1]:9400", or ":9400" and "9400" (both loopback only). Port 0 means any free port."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            text("{address} is not an address to serve at.", address=address), hint=text("Example: 127.0.0.1:9400")
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def read_token(path: Path) -> str:
    """Read the token from a file. Read for each request: it may be changed at any time."""
    token = read_text(path, max_bytes=_MAX_TOKEN_BYTES).strip()
    if not token:
        raise InputError(
            text("{path} contains no token.", path=path), hint=text("Create one with: openssl rand -hex 32")
        )
    return token


def has_token(header: str, token: str) -> bool:
    """Whether an Authorization header has this token, in the format of Prometheus or of Jupyter's clients."""
    kind, _, value = header.strip().partition(" ")
    return kind.lower() in ("bearer", "token") and hmac.compare_digest(value.strip().encode(), token.encode())


class MetricsServer:
    """Listens as soon as it is created; `serve` answers until `close`."""

    def __init__(self, answer: Callable[[], bytes], address: str, *, token_file: Path | None = None) -> None:
        host, port = parse_address(address)
        if token_file is None and not _is_loopback(host):
            raise UsageError(
                text(
                    "{host} is reachable from other machines, and the metrics name people and their notebooks.",
                    host=host,
                ),
                hint=text("Set a token with --token-file FILE, or serve at 127.0.0.1."),
            )
        if token_file is not None:
            read_token(token_file)
        try:
            self._server = _server_class(host)((host, port), _handler(answer, token_file))
        except OSError as exc:
            raise LabError(
                text("Cannot serve at {address}: {reason}.", address=address, reason=exc.strerror or exc),
                hint=text("Choose another port."),
            ) from exc

    @property
    def url(self) -> str:
        """The URL for Prometheus."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/metrics"

    def serve(self) -> None:
        """Answer until another thread or a signal handler calls `close`."""
        self._server.serve_forever()

    def close(self) -> None:
        """Stop. Waits for `serve` to return, so it must not be called in the same thread."""
        self._server.shutdown()
        self._server.server_close()


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: object, client_address: object) -> None:
            """Called by socketserver: a client that disconnects is not an error."""
            if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    return Server


def _handler(answer: Callable[[], bytes], token_file: Path | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0  # seconds for a client that connects and sends nothing
        server_version, sys_version = "ownlab", ""

        def do_GET(self) -> None:
            """Called by http.server."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            elif self._is_authorized():
                body = answer()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def _is_authorized(self) -> bool:
            if token_file is None:
                # DNS rebinding: the name of a web site may point to this machine, and a page of it may send requests.
                if _is_address(self.headers.get("Host", "")):
                    return True
                self.send_error(HTTPStatus.FORBIDDEN, "use the IP address or localhost in the URL")
                return False
            try:
                if has_token(self.headers.get("Authorization", ""), read_token(token_file)):
                    return True
            except InputError as exc:
                self.log_error("%s", exc.message)
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Called by http.server: successful requests are not logged."""

    return Handler


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(host: str) -> bool:
    """Whether a Host header is an IP address or localhost."""
    name = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
