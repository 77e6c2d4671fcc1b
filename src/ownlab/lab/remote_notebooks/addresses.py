"""Where the file behind an address is: of Colab, GitHub, gist, Hugging Face, nbviewer, or any other. Asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit, urlunsplit

from ownlab.errors import InputError, UsageError

__all__ = ["Download", "download_of", "is_address", "without_secrets"]

# What may stand in an address as it is. "%" too: it is quoted already.
_SAFE = "/%:@!$&'()*+,;=~-._"
_EXAMPLE = "https://github.com/OWNER/REPOSITORY/blob/main/NAME.ipynb"


class Download(NamedTuple):
    """A notebook's file somewhere else."""

    url: str
    name: str | None  # the file's, where the address has it; to be trusted no more than the address


Way = Callable[[SplitResult, list[str]], str]


def is_address(text: str) -> bool:
    """Whether it is an address and not a file's name: it has a scheme, or begins with a host that we know."""
    return "://" in text or text.partition("/")[0].lower() in _HOSTS


def download_of(address: str) -> Download:
    """The address under which the notebook itself is. InputError where there is none without signing in."""
    url = _download(address.strip(), inner=False)
    last = unquote(urlsplit(url).path.rpartition("/")[2])
    return Download(url, last if last.lower().endswith(".ipynb") else None)


def without_secrets(address: str) -> str:
    """An address as it may be shown: names, passwords and tokens in it are left out."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "this address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _download(address: str, *, inner: bool) -> str:
    parts = _split(address)
    segments = [segment for segment in parts.path.split("/") if segment]
    host = (parts.hostname or "").removeprefix("www.")
    if host in _COLABS and not inner and (named := _named_after_hash(parts)):
        return _download(named, inner=True)
    way = _HOSTS.get(host)
    url = urlsplit(way(parts, segments)) if way else parts
    return urlunsplit((url.scheme, url.netloc, quote(url.path, safe=_SAFE), quote(url.query, safe=_SAFE + "?"), ""))


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        found = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        found = False
    if not found:
        raise UsageError("this is no address of the web", hint=f"An address begins with https://: {_EXAMPLE}")
    if parts.username or parts.password:
        raise UsageError(
            "the address has a name or a password in it, which is not sent", hint="Download the file, then open that."
        )
    return parts


def _named_after_hash(parts: SplitResult) -> str | None:
    """Colab's #fileId=https%3A//huggingface.co/…: so the model pages of Hugging Face link to it."""
    named = parse_qs(parts.fragment).get("fileId", [""])[0]
    return named if named.startswith(("https://", "http://")) else None


def _colab(parts: SplitResult, segments: list[str]) -> str:
    kind = segments[0] if segments else ""
    if kind == "github":
        return _github(parts, segments[1:])
    if kind == "gist":
        return _gist(parts, segments[1:])
    if kind == "drive" or "fileId" in parts.fragment:
        return _drive(parts, segments)
    raise InputError(
        "this address of Colab names no notebook that can be fetched",
        hint="Those of GitHub can (…/github/OWNER/REPOSITORY/blob/…). Else: File > Download > .ipynb there, then open that.",
    )


def _drive(parts: SplitResult, segments: list[str]) -> str:
    raise InputError(
        "the notebook is in somebody's Google Drive, which gives it out only to who is signed in there",
        hint="Open it in Colab, choose File > Download > Download .ipynb, then: ownlab open FILE",
    )


def _github(parts: SplitResult, segments: list[str]) -> str:
    """OWNER/REPOSITORY/blob/REF/PATH. A branch may have a "/" in its name: GitHub finds out itself where it ends."""
    kind = segments[2] if len(segments) > 2 else ""
    if kind in ("blob", "raw", "blame", "edit") and len(segments) > 4:
        return "https://raw.githubusercontent.com/" + "/".join(segments[:2] + segments[3:])
    if kind in ("", "blob", "raw", "tree"):
        raise InputError("the address names a folder of GitHub", hint=f"Name one notebook in it: {_EXAMPLE}")
    return parts._replace(fragment="").geturl()


def _gist(parts: SplitResult, segments: list[str]) -> str:
    """OWNER/ID, or ID alone, perhaps with a file's name. Without one GitHub leads to the gist's first file."""
    if len(segments) > 2 and segments[2].endswith(".ipynb"):
        return f"https://gist.githubusercontent.com/{segments[0]}/{segments[1]}/raw/{segments[2]}"
    if "raw" in segments:
        return f"https://gist.github.com/{'/'.join(segments)}"
    if not segments or not _is_hexadecimal(segments[min(1, len(segments) - 1)]):
        raise InputError("the address names no gist", hint="That is: https://gist.github.com/OWNER/ID")
    return f"https://gist.github.com/{'/'.join(segments[:2])}/raw"


def _is_hexadecimal(text: str) -> bool:
    return not text.strip("0123456789abcdef")


def _hugging_face(parts: SplitResult, segments: list[str]) -> str:
    """[datasets/]OWNER/NAME/blob/REF/PATH; a few old models have no owner. A model's own NAME.ipynb is a plain file."""
    first = 1 if segments and segments[0] in ("datasets", "spaces", "models") else 0
    for place in (first + 1, first + 2):
        kind = segments[place] if len(segments) > place else ""
        if (
            kind in ("blob", "raw", "resolve") and len(segments) > place + 2
        ):  # "raw" has pointers in place of large files
            path = "/".join([*segments[:place], "resolve", *segments[place + 1 :]])
            return f"https://huggingface.co/{path}"
        if kind == "tree":
            raise InputError("the address names a folder of Hugging Face", hint="Name one notebook in it.")
    return parts._replace(netloc="huggingface.co", fragment="").geturl()


def _nbviewer(parts: SplitResult, segments: list[str]) -> str:
    kind, rest = (segments[0], segments[1:]) if segments else ("", [])
    if kind == "github":
        return _github(parts, rest)
    if kind == "gist":
        return _gist(parts, rest)
    if kind in ("url", "urls") and len(rest) > 1:
        return _download(f"{'https' if kind == 'urls' else 'http'}://{'/'.join(rest)}", inner=True)
    raise InputError("this address of nbviewer names no notebook", hint=f"Give the file's own address: {_EXAMPLE}")


_COLABS = ("colab.research.google.com", "colab.sandbox.google.com")
_HOSTS: dict[str, Way] = {
    **dict.fromkeys(_COLABS, _colab),
    "drive.google.com": _drive,
    "docs.google.com": _drive,
    "github.com": _github,
    "githubtocolab.com": _github,
    "gist.github.com": _gist,
    "huggingface.co": _hugging_face,
    "hf.co": _hugging_face,
    "nbviewer.org": _nbviewer,
    "nbviewer.jupyter.org": _nbviewer,
    "nbviewer.ipython.org": _nbviewer,
}
