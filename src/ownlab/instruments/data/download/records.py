"""Records of downloads: what a source offers, and what became of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Collection", "FileReport", "FileState", "GetReport", "RemoteFile", "Verification"]

FileState = Literal["downloaded", "updated", "unchanged", "failed"]
# What the content was compared with. "size": the server announced nothing but the size; "none": not even that.
Verification = Literal["sha256", "md5", "git", "size", "none"]


class RemoteFile(Struct, frozen=True):
    """One file that a source offers. What is unknown is learnt from the server's first answer."""

    url: str
    label: str  # the address as people may see it: without tokens and passwords
    path: str = ""  # below the folder; "": the server, or else the address, names it
    size: int | None = None
    sha256: str = ""
    md5: str = ""
    git_sha1: str = ""  # of the file as a git blob: all that Hugging Face knows of small files
    html: bool = False  # a web page is accepted
    named_by_redirect: bool = False  # by the address that this one leads to
    error: str = ""  # the source knows already that this file cannot be had, and why


class Collection(Struct, frozen=True):
    """What an argument of `ownlab data get` stands for."""

    source: str  # without tokens
    files: tuple[RemoteFile, ...]
    name: str = ""  # of the folder it would make; "": its files belong into the folder itself
    revision: str = ""


class FileReport(Struct, frozen=True):
    """One file of `ownlab data get --json`."""

    path: str  # absolute; "" if it failed before it had a name
    source: str
    state: FileState
    size: int | None = None
    sha256: str = ""
    verified: Verification = "none"
    message: str = ""  # why it failed


class GetReport(Struct, frozen=True):
    """`ownlab data get --json`."""

    folders: tuple[str, ...]
    files: tuple[FileReport, ...]
    transferred: int  # bytes that came over the network in this run
    resumed: int  # bytes that an earlier, interrupted run had left
    seconds: float
