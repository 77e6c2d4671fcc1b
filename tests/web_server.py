"""A real HTTP server on loopback whose answers a test chooses path by path, also wrong ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Responder", "Web", "serve_web"]

Responder = Callable[[BaseHTTPRequestHandler], None]


class Web(ThreadingHTTPServer):
    """Answers each path as the test requires."""

    daemon_threads = True

    def __init__(self) -> None:
        self.responders: dict[str, Responder] = {}
        self.requested: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, data: bytes, status: int = 200, **headers: str) -> str:
        """Answer a path with these bytes; return its address."""

        def respond(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)

        return self.respond_with(path, respond)

    def respond_with(self, path: str, responder: Responder) -> str:
        """Let a function answer a path; return its address."""
        self.responders[path] = responder
        return self.url + path

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that has seen enough hangs up."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        web = self.server
        assert isinstance(web, Web)
        web.requested.append(self.path)
        web.responders[self.path](self)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serve_web() -> Iterator[Web]:
    """Run the server in a thread."""
    with Web() as web:
        threading.Thread(target=web.serve_forever, args=(0.01,)).start()
        yield web
        web.shutdown()
