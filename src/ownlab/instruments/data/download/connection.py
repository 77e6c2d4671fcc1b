"""HTTP for large files: persistent connections, redirects, proxies; credentials go to their own host alone.

The standard library, since it costs least: 2 GB over loopback took 0.6 s of CPU time with http.client and 2.5 s with httpx
(2026-11). A Client belongs to one thread.
"""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from ownlab import __version__
from ownlab.download import without_secrets
from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["Client", "Credentials", "Origin", "Response", "Transient", "origin_of"]

SILENCE_SECONDS = 30.0  # without a byte from the server
_MOST_REDIRECTS = 10
_SAFE = "/%:=&?~#+!$,;'@()*[]"  # what an address may contain as it is

Origin = tuple[str, str, int]  # scheme, host, port
Credentials = Callable[[Origin], Mapping[str, str]]  # the headers that this server may see, and no other


class Transient(Exception):
    """Something that may work a moment later: a lost connection, a busy server."""

    def __init__(self, message: str, *, retry_after: float | None = None, busy: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after  # seconds, as the server wishes
        self.busy = busy  # the server wants fewer requests


def origin_of(url: str) -> Origin:
    """Return scheme, host and port of an address. Raises InputError for one that is not http or https."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = SplitResult("", "", "", "", ""), "", None
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(text("{address} is not an http or https address.", address=without_secrets(url)))
    return (parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


class Response:
    """The response of a server. Read it, then close it: a connection is used again if the body was read to its end."""

    def __init__(self, raw: http.client.HTTPResponse, url: str, release: Callable[[bool], None]) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.url = url  # after all redirects
        self._raw = raw
        self._release = release

    @property
    def length(self) -> int | None:
        """What remains of the body; None when the server did not announce it."""
        return self._raw.length

    def read(self, limit: int) -> bytes:
        """Return what is there, at most `limit` bytes; b"" at the end. Raises Transient if the body is cut off."""
        try:
            data = self._raw.read1(limit)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise Transient(_cause(exc, without_secrets(self.url))) from exc
        if not data and self._raw.length:
            raise Transient(text("{address} closed the connection too early.", address=without_secrets(self.url)))
        return data

    def read_all(self, most: int) -> bytes:
        """Return the rest of the body, at most so many bytes."""
        chunks, size = list[bytes](), 0
        while size < most and (chunk := self.read(min(2**16, most - size))):
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    def close(self) -> None:
        """Give the connection back."""
        finished = self._raw.isclosed() or self._raw.length == 0
        self._raw.close()
        self._release(finished and not self._raw.will_close)

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Client:
    """Sends requests, one after the other."""

    def __init__(self, credentials: Credentials, silence: float = SILENCE_SECONDS) -> None:
        self._credentials = credentials
        self._silence = silence
        self._idle: dict[Origin, http.client.HTTPConnection] = {}
        # Looking at all variables for each request took a third of the time of a small file.
        self._proxy = cache(_proxy)

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        """Send a GET request and follow redirects. Raises Transient, and InputError for addresses that are not safe."""
        for _ in range(_MOST_REDIRECTS):
            response = self._send(url, headers or {})
            location = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or not location:
                return response
            response.close()
            url = _redirected(url, location)
        raise InputError(text("{address} redirects in a circle.", address=without_secrets(url)))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    def _send(self, url: str, headers: Mapping[str, str]) -> Response:
        origin = origin_of(url)
        proxy = self._proxy(origin)
        while True:
            reused = self._idle.pop(origin, None)
            connection = reused or _connect(origin, proxy, self._silence)
            try:
                target = _target(url, through_proxy=proxy is not None and origin[0] == "http")
                connection.request("GET", target, headers=self._headers(origin, headers))
                raw = connection.getresponse()
            except (OSError, http.client.HTTPException, ValueError) as exc:
                connection.close()
                if reused is not None:  # the server had closed the idle connection
                    continue
                raise _unreachable(exc, url) from exc
            return Response(raw, url, lambda usable, made=connection: self._put_back(origin, made, usable))  # type: ignore[misc]

    def _headers(self, origin: Origin, headers: Mapping[str, str]) -> dict[str, str]:
        # identity: a range is one of the file's own bytes, not of a compressed form.
        common = {"User-Agent": f"ownlab/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
        return {**common, **headers, **self._credentials(origin)}

    def _put_back(self, origin: Origin, connection: http.client.HTTPConnection, usable: bool) -> None:
        other = self._idle.pop(origin, None)
        if other is not None:
            other.close()
        if usable:
            self._idle[origin] = connection
        else:
            connection.close()


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    scheme = urlsplit(target).scheme
    if scheme != "https" and (scheme != "http" or url.startswith("https:")):
        raise InputError(
            text(
                "{address} redirects to {target}, which is not safe.",
                address=without_secrets(url),
                target=without_secrets(target),
            )
        )
    return target


def _target(url: str, *, through_proxy: bool) -> str:
    parts = urlsplit(url)
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    if through_proxy:
        return f"http://{parts.netloc.rpartition('@')[2]}{target}"
    return target


def _connect(origin: Origin, proxy: tuple[str, int] | None, silence: float) -> http.client.HTTPConnection:
    scheme, host, port = origin
    if scheme == "http":
        return http.client.HTTPConnection(*(proxy or (host, port)), timeout=silence)
    connection = http.client.HTTPSConnection(*(proxy or (host, port)), timeout=silence, context=_tls())
    if proxy:
        connection.set_tunnel(host, port)
    return connection


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _proxy(origin: Origin) -> tuple[str, int] | None:
    """Return host and port of the proxy that the environment names for this server."""
    scheme, host, port = origin
    address = urllib.request.getproxies().get(scheme)
    if not address or urllib.request.proxy_bypass(f"{host}:{port}"):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    return (parts.hostname, parts.port or 80) if parts.hostname else None


def _unreachable(exc: Exception, url: str) -> Exception:
    shown = without_secrets(url)
    if isinstance(exc, ssl.SSLCertVerificationError):
        return InputError(
            text("The certificate of {address} is not valid: {cause}.", address=shown, cause=exc.verify_message),
            hint=text("Behind a company's proxy, set SSL_CERT_FILE to its certificates."),
        )
    if isinstance(exc, (http.client.InvalidURL, UnicodeError)):
        return InputError(text("{address} is not a valid address.", address=shown))
    return Transient(_cause(exc, shown))


def _cause(exc: Exception, shown: str) -> str:
    if isinstance(exc, TimeoutError):
        return text("{address} sent nothing for {seconds:g} s.", address=shown, seconds=SILENCE_SECONDS)
    if isinstance(exc, (http.client.IncompleteRead, http.client.RemoteDisconnected)):
        return text("{address} closed the connection too early.", address=shown)
    cause = getattr(exc, "strerror", None) or re.sub(r"\s+", " ", str(exc)) or type(exc).__name__
    return text("Cannot reach {address}: {cause}.", address=shown, cause=cause)
