"""What a server's answer to a request for bytes means: pure decisions, for the transfer of a file."""

from __future__ import annotations

import base64
import binascii
import email.utils
import html
import re
import time
from email.message import Message
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from ownlab.download import without_secrets
from ownlab.errors import InputError
from ownlab.instruments.data.download.connection import Response, Transient
from ownlab.text import text

__all__ = [
    "ContentRange",
    "announced_md5",
    "check_status",
    "confirmation_address",
    "looks_like_page",
    "page_error",
    "parse_content_range",
    "retry_after",
]

_BUSY = (429, 503)
_TRANSIENT = (408, 425, 500, 502, 504, 520, 521, 522, 523, 524, *_BUSY)
_PAGE = re.compile(
    rb"^(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|script|meta)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_FORM = re.compile(r'<form[^>]*id="download-form".*?</form>', re.IGNORECASE | re.DOTALL)
# What Google Drive's pages say, and what it means.
_KNOWN_PAGES = (
    (
        b"Too many users have viewed or downloaded this file recently",
        text(
            "Google Drive limits how often a file is downloaded within 24 hours, and this one has reached the limit. Try again "
            "tomorrow; or copy the file into a Drive of your own (“Make a copy”), and download that."
        ),
    ),
    (
        b"You need access",
        text("The owner of the file has not shared it. Its general access must be “Anyone with the link”."),
    ),
    (
        b"accounts.google.com/v3/signin",
        text("The file is not public: Google asks to sign in. Its general access must be “Anyone with the link”."),
    ),
    (
        b"accounts.google.com/ServiceLogin",
        text("The file is not public: Google asks to sign in. Its general access must be “Anyone with the link”."),
    ),
)
_RANGE = re.compile(r"\s*bytes\s+(?:(\d+)-(\d+)|\*)/(\d+|\*)\s*$", re.IGNORECASE)
_LONGEST_WAIT = 600.0  # seconds that a server may ask us to wait


class ContentRange(NamedTuple):
    """Content-Range: the bytes of this answer, and the size of the whole file."""

    first: int | None
    last: int | None
    total: int | None


def parse_content_range(value: str | None) -> ContentRange | None:
    """Return the parsed header; None if it is missing or contradicts itself."""
    match = _RANGE.match(value or "")
    if match is None:
        return None
    first, last, total = (int(part) if part and part != "*" else None for part in match.groups())
    if first is not None and last is not None and (last < first or (total is not None and last >= total)):
        return None
    return ContentRange(first, last, total)


def retry_after(headers: Message) -> float | None:
    """Return the seconds that a server asks us to wait; it sends a number or a date."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time()) if value else None
    except (ValueError, TypeError, OverflowError):
        return None


def announced_md5(headers: Message, *, whole: bool) -> str:
    """Return the MD5 of the whole file as hexadecimal digits, where a server announces it (Google Cloud, some mirrors)."""
    values = [headers.get("Content-MD5", "")] if whole else []  # of a part, it is the part's
    for line in headers.get_all("x-goog-hash", []):
        values += [part.strip()[4:] for part in line.split(",") if part.strip().startswith("md5=")]
    for value in values:
        try:
            raw = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            continue
        if len(raw) == 16:
            return raw.hex()
    return ""


def check_status(response: Response, shown: str) -> None:
    """Raise for every status that is not a content: Transient where a later attempt may help, InputError otherwise."""
    status = response.status
    if status in (200, 206, 304, 416):
        return
    if status in _TRANSIENT:
        wait = retry_after(response.headers)
        message = (
            text("{address} is busy (status {status}).", address=shown, status=status)
            if status in _BUSY
            else text("{address} answered with status {status}.", address=shown, status=status)
        )
        if wait is not None and wait > _LONGEST_WAIT:
            raise InputError(
                message,
                hint=text("It asks to wait for {seconds:.0f} s. Run the same command again then.", seconds=wait),
            )
        raise Transient(message, retry_after=wait, busy=status in _BUSY)
    if status in (404, 410):
        raise InputError(
            text("There is nothing at {address} (status {status}).", address=shown, status=status),
            hint=text("Check the spelling. Some servers answer the same way for private files without a token."),
        )
    if status in (401, 403, 407, 451):
        raise InputError(
            text("{address} may not be read (status {status}).", address=shown, status=status),
            hint=_token_hint(response),
        )
    raise InputError(
        text("{address} answered with status {status}.", address=shown, status=status),
        hint=text("Open the address in a browser to see what it says."),
    )


def _token_hint(response: Response) -> str:
    if urlsplit(response.url).query:
        return text(
            "The link may have expired: signed links are valid for minutes or hours. Get a new one, and run the command again."
        )
    return text(
        "Name and password of a server belong into ~/.netrc, or into the address; a token of Hugging Face into the secret "
        "HF_TOKEN (ownlab secrets set HF_TOKEN)."
    )


def looks_like_page(beginning: bytes, headers: Message, name: str) -> bool:
    """Whether the server sent a web page (a sign-in form, a notice of an error) where a file was expected."""
    if re.search(r"\.(?:x?html?|php|aspx?|jsp|svg|xml)$", name, re.IGNORECASE):
        return False
    announced = headers.get_content_type() if "Content-Type" in headers else ""
    return _PAGE.match(beginning[:4096]) is not None or (
        announced in ("text/html", "application/xhtml+xml") and not _is_binary(beginning)
    )


def _is_binary(beginning: bytes) -> bool:
    return b"\0" in beginning[:4096]  # a file behind a wrong Content-Type


def confirmation_address(page: bytes, url: str) -> str:
    """Return where the form of Google Drive's warning about large files leads; "" for any other page."""
    form = _FORM.search(page.decode(errors="replace"))
    if form is None:
        return ""
    action = re.search(r'action="([^"]*)"', form[0])
    target = urljoin(url, html.unescape(action[1])) if action else url
    fields = {}
    for field in re.findall(r"<input[^>]*>", form[0], re.IGNORECASE):
        name, value = (re.search(rf'\b{key}="([^"]*)"', field) for key in ("name", "value"))
        if name is not None and value is not None:
            fields[html.unescape(name[1])] = html.unescape(value[1])
    parts = urlsplit(target)
    query = {**dict(parse_qsl(parts.query)), **fields}
    return urlunsplit(parts._replace(query=urlencode(query), fragment=""))


def page_error(beginning: bytes, address: str) -> InputError:
    """The error for a web page in place of a file."""
    for mark, known in _KNOWN_PAGES:
        if mark in beginning:
            return InputError(text("{address} cannot be downloaded.", address=without_secrets(address)), hint=known)
    match = _TITLE.search(beginning)
    title = " ".join(html.unescape(match[1].decode(errors="replace")).split())[:120] if match else ""
    shown = without_secrets(address)
    message = (
        text("{address} sent a web page instead of a file: “{title}”.", address=shown, title=title)
        if title
        else text("{address} sent a web page instead of a file.", address=shown)
    )
    return InputError(
        message,
        hint=text(
            "Usually the address is that of a page with a download button, a form to sign in, or a notice of an error. Copy "
            "the address of the file itself. If you want the page: --html"
        ),
    )
