"""Resolve the address of a page (Colab, GitHub, gist, Hugging Face, nbviewer) to the address of its notebook file, offline."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit, urlunsplit

from ownlab.errors import InputError, UsageError
from ownlab.text import text

__all__ = ["RemoteFile", "check_address", "is_address", "resolve"]

# Characters that are not quoted again. "%" is among them: the address is quoted already.
_SAFE = "/%:@!$&'()*+,;=~-._"
_EXAMPLE = "https://github.com/OWNER/REPOSITORY/blob/main/NAME.ipynb"


class RemoteFile(NamedTuple):
    """The address of a notebook file."""

    url: str
    name: str | None  # the file's name, where the address has it; as untrusted as the address


Resolver = Callable[[SplitResult, list[str]], str]


def is_address(source: str) -> bool:
    """Return whether this is an address, not a path: it has a scheme or begins with a known host."""
    return "://" in source or source.partition("/")[0].lower() in _RESOLVERS


def check_address(source: str) -> None:
    """Raise UsageError if this is not an address. A name such as "train.ipynb" would otherwise be taken for a host."""
    if not is_address(source.strip()):
        raise _not_an_address()


def resolve(address: str) -> RemoteFile:
    """Return the address of the notebook file itself. InputError where one has to sign in to get it."""
    url = _resolve(address.strip(), inner=False)
    last = unquote(urlsplit(url).path.rpartition("/")[2])
    return RemoteFile(url, last if last.lower().endswith(".ipynb") else None)


def _resolve(address: str, *, inner: bool) -> str:
    parts = _split(address)
    segments = [segment for segment in parts.path.split("/") if segment]
    host = (parts.hostname or "").removeprefix("www.")
    if host in _COLAB_HOSTS and not inner and (target := _address_in_fragment(parts)):
        return _resolve(target, inner=True)
    resolver = _RESOLVERS.get(host)
    url = urlsplit(resolver(parts, segments)) if resolver else parts
    return urlunsplit((url.scheme, url.netloc, quote(url.path, safe=_SAFE), quote(url.query, safe=_SAFE + "?"), ""))


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise _not_an_address()
    if parts.username or parts.password:
        raise UsageError(
            text("The address contains a user name or a password; ownlab does not send them."),
            hint=text("Download the file yourself, then open it."),
        )
    return parts


def _not_an_address() -> UsageError:
    return UsageError(
        text("This is not a web address."),
        hint=text("An address begins with https://, for example: {example}", example=_EXAMPLE),
    )


def _address_in_fragment(parts: SplitResult) -> str | None:
    """Colab's #fileId=https%3A//huggingface.co/…, which the model pages of Hugging Face link to."""
    target = parse_qs(parts.fragment).get("fileId", [""])[0]
    return target if target.startswith(("https://", "http://")) else None


def _colab(parts: SplitResult, segments: list[str]) -> str:
    kind = segments[0] if segments else ""
    if kind == "github":
        return _github(parts, segments[1:])
    if kind == "gist":
        return _gist(parts, segments[1:])
    if kind == "drive" or "fileId" in parts.fragment:
        return _drive(parts, segments)
    raise InputError(
        text("This Colab address does not name a notebook that can be downloaded."),
        hint=text(
            "Colab addresses of GitHub notebooks work (…/github/OWNER/REPOSITORY/blob/…). For others choose File > Download "
            "> Download .ipynb in Colab, then open the file."
        ),
    )


def _drive(parts: SplitResult, segments: list[str]) -> str:
    raise InputError(
        text("The notebook is in Google Drive, which requires signing in."),
        hint=text(
            "Open it in Colab, choose File > Download > Download .ipynb, then upload it on the start page, or run: ownlab open FILE"
        ),
    )


def _github(parts: SplitResult, segments: list[str]) -> str:
    """OWNER/REPOSITORY/blob/REF/PATH. A branch may have a "/" in its name; GitHub's raw server finds where it ends."""
    kind = segments[2] if len(segments) > 2 else ""
    if kind in ("blob", "raw", "blame", "edit") and len(segments) > 4:
        return "https://raw.githubusercontent.com/" + "/".join(segments[:2] + segments[3:])
    if kind in ("", "blob", "raw", "tree"):
        raise InputError(
            text("The address is a folder on GitHub, not a notebook."),
            hint=text("Pass the address of one notebook in it: {example}", example=_EXAMPLE),
        )
    return parts._replace(fragment="").geturl()


def _gist(parts: SplitResult, segments: list[str]) -> str:
    """OWNER/ID or ID, with or without a file's name. Without one GitHub redirects to the gist's first file."""
    if len(segments) > 2 and segments[2].endswith(".ipynb"):
        return f"https://gist.githubusercontent.com/{segments[0]}/{segments[1]}/raw/{segments[2]}"
    if "raw" in segments:
        return f"https://gist.github.com/{'/'.join(segments)}"
    if not segments or not _is_hexadecimal(segments[min(1, len(segments) - 1)]):
        raise InputError(
            text("The address does not name a gist."),
            hint=text("A gist's address is https://gist.github.com/OWNER/ID"),
        )
    return f"https://gist.github.com/{'/'.join(segments[:2])}/raw"


def _is_hexadecimal(word: str) -> bool:
    return not word.strip("0123456789abcdef")


def _hugging_face(parts: SplitResult, segments: list[str]) -> str:
    """[datasets/]OWNER/NAME/blob/REF/PATH; a few old models have no owner. A model's own NAME.ipynb is a plain file."""
    first = 1 if segments and segments[0] in ("datasets", "spaces", "models") else 0
    for index in (first + 1, first + 2):
        kind = segments[index] if len(segments) > index else ""
        # "resolve", since "raw" gives Git LFS pointers in place of large files
        if kind in ("blob", "raw", "resolve") and len(segments) > index + 2:
            path = "/".join([*segments[:index], "resolve", *segments[index + 1 :]])
            return f"https://huggingface.co/{path}"
        if kind == "tree":
            raise InputError(
                text("The address is a folder on Hugging Face, not a notebook."),
                hint=text("Pass the address of one notebook in it."),
            )
    return parts._replace(netloc="huggingface.co", fragment="").geturl()


def _nbviewer(parts: SplitResult, segments: list[str]) -> str:
    kind, rest = (segments[0], segments[1:]) if segments else ("", [])
    if kind == "github":
        return _github(parts, rest)
    if kind == "gist":
        return _gist(parts, rest)
    if kind in ("url", "urls") and len(rest) > 1:
        return _resolve(f"{'https' if kind == 'urls' else 'http'}://{'/'.join(rest)}", inner=True)
    raise InputError(
        text("This nbviewer address does not name a notebook."),
        hint=text("Pass the address of the file itself: {example}", example=_EXAMPLE),
    )


_COLAB_HOSTS = ("colab.research.google.com", "colab.sandbox.google.com")
_RESOLVERS: dict[str, Resolver] = {
    **dict.fromkeys(_COLAB_HOSTS, _colab),
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
