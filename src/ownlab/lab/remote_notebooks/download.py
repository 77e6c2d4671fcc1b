"""Notebooks from somewhere else: fetched within limits, looked at, and saved where nothing is overwritten."""

from __future__ import annotations

import http.client
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ownlab import __version__
from ownlab.errors import DeadlineError, InputError, OwnlabError
from ownlab.lab.notebooks.parsing import parse_notebook
from ownlab.lab.remote_notebooks.addresses import Download, without_secrets
from ownlab.lab.secrets.store import forget_notebook
from ownlab.text import text

__all__ = ["Fetched", "fetch", "notebook_in", "safe_name", "save_new"]

SECONDS = 120.0  # for all of it
LARGEST = 100 * 2**20  # bytes; GitHub takes no larger file
_SILENCE = 20.0  # seconds without a word
_PART = 2**16
_LONGEST = 200  # bytes of a name; file systems take 255
_SUFFIX = ".ipynb"
_BAD = str.maketrans(dict.fromkeys('/\\<>:"|?*', "_"))


class Fetched(NamedTuple):
    """What an address answered with."""

    data: bytes
    name: str  # a file's name, and nothing but that


def fetch(download: Download, *, seconds: float = SECONDS, largest: int = LARGEST) -> Fetched:
    """Fetch it. InputError or DeadlineError where that cannot be done; the address is shown without what may be secret."""
    done: list[Fetched | BaseException] = []

    def work() -> None:
        try:
            done.append(_fetch(download, time.monotonic() + seconds, largest))
        except BaseException as exc:  # noqa: BLE001  # it is raised by whoever waits
            done.append(exc)

    # In a thread: a server that says a byte now and then could keep us in the headers for ever.
    thread = threading.Thread(target=work, daemon=True, name="fetch")
    thread.start()
    thread.join(seconds)
    if not done:
        raise DeadlineError(f"{without_secrets(download.url)} did not come within {seconds:g} s")
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


def notebook_in(data: bytes, where: str) -> dict[str, Any]:
    """The notebook that a file holds. InputError, which says what it is instead, where it holds none."""
    begin = data[:512].decode(errors="replace").lstrip("\ufeff \t\r\n").lower()
    if begin.startswith(("<!doctype", "<html", "<?xml", "<head", "<!--")):
        raise InputError(
            f"{where} is a web page, not a notebook",
            hint='It may ask to sign in, or show the notebook: look for a link like "Raw" or "Download" there.',
        )
    if begin.startswith("version https://git-lfs"):
        raise InputError(
            f"{where} is a pointer to a file that is kept elsewhere (Git LFS)",
            hint="Open the page of the file in a browser, download it there, then: ownlab open FILE",
        )
    found = parse_notebook(data, where)
    if not any(map(_is_list, (found.get("cells"), found.get("worksheets")))):
        raise InputError(text("{name} is not a notebook: it is JSON of another kind", name=where))
    return found


def safe_name(suggested: str) -> str:
    """A name for a new notebook after what a stranger suggests: no path, not hidden, nothing that steers a terminal."""
    name = "".join(sign if sign.isprintable() else "_" for sign in suggested.translate(_BAD))
    stem = (name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name).strip(" .~-")
    stem = stem.encode()[:_LONGEST].decode(errors="ignore").rstrip()
    return f"{stem or 'notebook'}{_SUFFIX}"


def save_new(folder: str, name: str, data: bytes) -> str:
    """Write a new file in a folder: "name (1).ipynb" where that is taken. Its path.

    What is there is neither overwritten nor followed, be it a link that leads nowhere; and secrets that were granted to
    an earlier notebook of this name are not granted to this one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for free in _names(safe_name(name)):
            try:
                descriptor = os.open(free, flags, 0o666, dir_fd=place)
            except FileExistsError:
                continue
            try:
                with open(descriptor, "wb") as file:
                    forget_notebook(os.path.join(folder, free))
                    file.write(data)
            except BaseException:
                os.unlink(free, dir_fd=place)
                raise
            return os.path.join(folder, free)
    finally:
        os.close(place)
    raise AssertionError("there is always another number")


def _names(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        yield f"{name[: -len(_SUFFIX)]} ({number}){_SUFFIX}"
        number += 1


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To the web alone: Python's own would follow to ftp too; and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        there = urlsplit(newurl).scheme
        if there != "https" and (there != "http" or req.type == "https"):
            fp.close()
            raise InputError(f"{without_secrets(req.full_url)} leads to {without_secrets(newurl)}, which is not safe")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(download: Download, end: float, largest: int) -> Fetched:
    shown = without_secrets(download.url)
    headers = {"User-Agent": f"ownlab/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(download.url, headers=headers)  # noqa: S310  # download_of lets http(s) alone pass
        with urllib.request.build_opener(_Redirects).open(request, timeout=_SILENCE) as answer:
            data = _read(answer, end, largest, shown)
            return Fetched(data, _name(download, answer))
    except OwnlabError:
        raise
    except urllib.error.HTTPError as exc:
        with exc:
            raise _refused(exc.code, shown) from exc
    except TimeoutError as exc:
        raise DeadlineError(f"{shown} said nothing for {_SILENCE:g} s") from exc
    except (OSError, http.client.HTTPException, ValueError) as exc:
        reason = getattr(exc, "reason", exc)
        if isinstance(reason, TimeoutError):
            raise DeadlineError(f"{shown} said nothing for {_SILENCE:g} s") from exc
        told = getattr(reason, "strerror", None) or type(reason).__name__
        raise InputError(
            f"{shown} cannot be reached: {told}", hint="Is the address right, and the network there?"
        ) from exc


def _read(answer: Any, end: float, largest: int, shown: str) -> bytes:
    parts, size = list[bytes](), 0
    while part := answer.read1(_PART):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise InputError(f"{shown} is larger than {largest / 2**20:g} MB: more than is taken from an address")
        if time.monotonic() > end:
            raise DeadlineError(f"{shown} did not come in time")
    if answer.length:  # what the headers promised beyond what came
        raise InputError(f"{shown} broke off in the middle", hint="Try again.")
    return b"".join(parts)


def _name(download: Download, answer: Any) -> str:
    """What the address calls the file; else what the server does; else the address in the end, after all redirects."""
    if download.name:
        return safe_name(download.name)
    given = None
    with suppress(ValueError, LookupError):  # headers in a wrong encoding
        given = answer.headers.get_filename()
    if given:
        return safe_name(given.replace("\\", "/").rpartition("/")[2])
    return safe_name(unquote(urlsplit(answer.geturl()).path.rpartition("/")[2]))


def _refused(status: int, shown: str) -> InputError:
    if status in (404, 410):
        return InputError(
            f"there is nothing at {shown} (status {status})",
            hint="Is it spelt right? Private repositories answer so too: download the file there, then open that.",
        )
    if status in (401, 403, 407, 451):
        return InputError(
            f"{shown} is not given out to everybody (status {status})",
            hint="Sign in there, download the file, then: ownlab open FILE",
        )
    if 300 <= status < 400:
        return InputError(f"{shown} leads in a circle, or to what is not safe (status {status})")
    if status == 429:
        return InputError(f"{shown} was asked too often (status 429)", hint="Try again in some minutes.")
    return InputError(f"{shown} answered with status {status}", hint="Try again later, or in a browser.")


def _is_list(value: object) -> bool:
    return isinstance(value, list)
