"""A real HTTP server on loopback that serves files well or badly: without ranges, cut off, slow, changing, lying."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["FileServer", "Seen", "Served", "serve_files"]


@dataclass
class Seen:
    """A request as the server saw it."""

    path: str
    headers: dict[str, str]
    sent: int = 0  # bytes of the body that were sent


@dataclass
class Served:
    """A file, and how the server misbehaves about it."""

    content: bytes
    etag: str | None = None  # default: a strong one of the content; "": none
    modified: str = ""
    ranges: bool = True
    length: bool = True  # whether the size is announced; otherwise the body ends with the connection
    headers: dict[str, str] = field(default_factory=dict)
    cut: Callable[[int], int | None] = lambda number: None  # bytes after which answer number n is cut off
    status: Callable[[int], int] = lambda number: 0  # another status for answer number n
    total: int | None = None  # a wrong size, in Content-Range and Content-Length
    shift: int = 0  # by how much the bytes of a range are wrong
    relabel: bool = False  # …and the header admits it
    rate: float = 0.0  # bytes per second of each answer
    redirect: str = ""
    if_range: bool = True  # honour If-Range
    count: int = 0

    @property
    def tag(self) -> str:
        """The ETag."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:16]}"' if self.etag is None else self.etag


class FileServer(ThreadingHTTPServer):
    """Serves `files`, by path; `seen` has all requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, content: bytes, **behaviour: Any) -> str:
        """Serve a file; return its address."""
        self.files[path] = Served(content, **behaviour)
        return self.url + path

    def bodies(self, path: str) -> int:
        """The bytes that were sent of a file."""
        return sum(request.sent for request in self.seen if request.path == path)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that has seen enough hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, FileServer)
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()})
        with server.lock:
            server.seen.append(seen)
            served = server.files.get(self.path)
            if served is not None:
                served.count += 1
        if served is None:
            self._plain(404, b"nothing here")
        elif served.redirect:
            self._plain(302, b"", Location=served.redirect)
        elif status := served.status(served.count):
            self._plain(status, b"not now", **served.headers)
        else:
            self._file(served, seen)

    def _plain(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, served: Served, seen: Seen) -> None:
        number = served.count
        content, total = served.content, served.total if served.total is not None else len(served.content)
        if served.tag and seen.headers.get("if-none-match") == served.tag:
            self._plain(304, b"", ETag=served.tag)
            return
        start, end, partial = self._range(served, seen, total)
        if partial and start >= len(content):
            self._plain(416, b"", Content_Range=f"bytes */{total}")
            return
        body = content[start + served.shift * partial : end + served.shift * partial]
        self.send_response(206 if partial else 200)
        if partial:
            shown = start + served.shift if served.relabel else start
            self.send_header("Content-Range", f"bytes {shown}-{shown + end - start - 1}/{total}")
        for name, value in (("ETag", served.tag), ("Last-Modified", served.modified), *served.headers.items()):
            if value:
                self.send_header(name, value)
        if served.length:
            self.send_header("Content-Length", str(end - start))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self._body(served, seen, body, served.cut(number), end - start)

    def _range(self, served: Served, seen: Seen, total: int) -> tuple[int, int, bool]:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", seen.headers.get("range", ""))
        condition = seen.headers.get("if-range")
        fresh = condition is None or not served.if_range or condition in (served.tag, served.modified)
        if match is None or not served.ranges or not fresh:
            return 0, total, False
        return int(match[1]), min(total, int(match[2]) + 1 if match[2] else total), True

    def _body(self, served: Served, seen: Seen, body: bytes, cut: int | None, announced: int) -> None:
        body = body if cut is None else body[:cut]
        step = 2**16 if not served.rate else max(1, int(served.rate / 50))
        for at in range(0, len(body), step):
            self.wfile.write(body[at : at + step])
            seen.sent += len(body[at : at + step])
            if served.rate:
                time.sleep(step / served.rate)
        if not served.length or len(body) < announced:
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serve_files() -> Iterator[FileServer]:
    """Run the server in a thread."""
    with FileServer() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
