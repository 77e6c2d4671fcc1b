"""Download one file over HTTP(S), within a deadline and a size limit; failures become errors that a person understands.

Used by `ownlab open` (notebooks) and `ownlab gpus update` (tables of cards). Messages show addresses without credentials.
"""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ownlab import __version__
from ownlab.errors import DeadlineError, InputError, OwnlabError
from ownlab.text import text

__all__ = ["Downloaded", "download", "without_secrets"]

DEADLINE_SECONDS = 120.0  # for the whole download
MAX_BYTES = 100 * 2**20  # GitHub accepts no larger file
_SILENCE_SECONDS = 20.0  # without a byte from the server
_CHUNK_BYTES = 2**16


class Downloaded(NamedTuple):
    """The response of a server."""

    data: bytes
    url: str  # after all redirects
    filename: str | None  # what the server calls the file (Content-Disposition); never trust it as a path


def download(url: str, *, seconds: float = DEADLINE_SECONDS, max_bytes: int = MAX_BYTES) -> Downloaded:
    """Download an http or https address. Raises InputError or DeadlineError."""
    results: list[Downloaded | BaseException] = []

    def work() -> None:
        try:
            results.append(_download(url, time.monotonic() + seconds, max_bytes))
        except BaseException as exc:  # noqa: BLE001  # the waiting thread raises it again
            results.append(exc)

    # In a thread: a server that sends a header byte now and then could hold the caller for ever.
    thread = threading.Thread(target=work, daemon=True, name="download")
    thread.start()
    thread.join(seconds)
    if not results:
        raise DeadlineError(
            text("{address} did not arrive within {seconds:g} s.", address=without_secrets(url), seconds=seconds)
        )
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


def without_secrets(address: str) -> str:
    """Return an address without user name, password, query and fragment, which may hold tokens."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return text("this address")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only (Python's handler also follows ftp), and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (scheme != "http" or req.type == "https"):
            fp.close()
            raise InputError(
                text(
                    "{address} redirects to {target}, which is not safe.",
                    address=without_secrets(req.full_url),
                    target=without_secrets(newurl),
                )
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, end: float, max_bytes: int) -> Downloaded:
    shown = without_secrets(url)
    headers = {"User-Agent": f"ownlab/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(text("{address} is not an http or https address.", address=shown))
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  # the scheme is checked above
        with urllib.request.build_opener(_Redirects).open(request, timeout=_SILENCE_SECONDS) as response:
            return Downloaded(_read(response, end, max_bytes, shown), response.geturl(), _filename(response))
    except OwnlabError:
        raise
    except urllib.error.HTTPError as exc:
        with exc:
            raise _http_error(exc.code, shown) from exc
    except TimeoutError as exc:
        raise _silent(shown) from exc
    except (OSError, http.client.HTTPException, ValueError) as exc:
        reason = getattr(exc, "reason", exc)
        if isinstance(reason, TimeoutError):
            raise _silent(shown) from exc
        cause = getattr(reason, "strerror", None) or type(reason).__name__
        raise InputError(
            text("Cannot reach {address}: {cause}.", address=shown, cause=cause),
            hint=text("Check the address and the network connection."),
        ) from exc


def _silent(shown: str) -> DeadlineError:
    return DeadlineError(
        text("{address} sent nothing for {seconds:g} s.", address=shown, seconds=_SILENCE_SECONDS),
    )


def _read(response: Any, end: float, max_bytes: int, shown: str) -> bytes:
    chunks, size = list[bytes](), 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise InputError(
                text("{address} is larger than the limit of {limit:g} MB.", address=shown, limit=max_bytes / 2**20)
            )
        if time.monotonic() > end:
            raise DeadlineError(text("{address} did not arrive in time.", address=shown))
    if response.length:  # bytes that the headers promised and that did not come
        raise InputError(
            text("The download of {address} was cut off.", address=shown),
            hint=text("Try again."),
        )
    return b"".join(chunks)


def _filename(response: Any) -> str | None:
    filename = None
    with suppress(ValueError, LookupError):  # a header in a wrong encoding
        filename = response.headers.get_filename()
    return filename or None


def _http_error(status: int, shown: str) -> InputError:
    if status in (404, 410):
        return InputError(
            text("There is nothing at {address} (status {status}).", address=shown, status=status),
            hint=text(
                "Check the spelling. Private repositories answer the same way: download the file in a browser, then pass "
                "its path."
            ),
        )
    if status in (401, 403, 407, 451):
        return InputError(
            text("{address} is not public (status {status}).", address=shown, status=status),
            hint=text("Sign in there with a browser, download the file, then pass its path."),
        )
    if 300 <= status < 400:
        return InputError(
            text(
                "{address} redirects in a circle, or to an address that is not safe (status {status}).",
                address=shown,
                status=status,
            )
        )
    if status == 429:
        return InputError(
            text("{address} refused the request: too many requests (status 429).", address=shown),
            hint=text("Try again in a few minutes."),
        )
    return InputError(
        text("{address} answered with status {status}.", address=shown, status=status),
        hint=text("Try again later, or with a browser."),
    )
