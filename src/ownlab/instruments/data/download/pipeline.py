"""`ownlab data get`: sources -> lists of files -> folders -> downloads -> report."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.instruments.data.data_sets import DataSetEntry, remember
from ownlab.instruments.data.download import checksum_file
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.credentials import CredentialStore
from ownlab.instruments.data.download.downloader import Downloader, Progress
from ownlab.instruments.data.download.manifest import read_manifest
from ownlab.instruments.data.download.names import check_relative_path
from ownlab.instruments.data.download.records import Collection, FileReport, GetReport, RemoteFile
from ownlab.instruments.data.download.sources import Context, resolve
from ownlab.instruments.data.download.target import Target, check_room
from ownlab.instruments.data.download.transfer import TransferOptions, disk_error
from ownlab.instruments.data.download.web_address import with_checksum
from ownlab.text import plural, text

__all__ = ["GetFailed", "GetRequest", "get"]


class GetRequest(NamedTuple):
    """What `ownlab data get` was asked for."""

    sources: Sequence[str]
    folder: Path | None = None  # None: the current one; repositories and shared folders make one of their name in it
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    name: str = ""  # of a single file
    checksum: str = ""  # of a single file: sha256=… or md5=…
    checksums: str = ""  # a list as sha256sum and md5sum write it: its path or address
    force: bool = False
    options: TransferOptions = TransferOptions()


class GetFailed(InputError):
    """Some files could not be downloaded. `report` has all of them; the others are kept."""

    def __init__(self, message: str, *, hint: str = "", report: GetReport) -> None:
        super().__init__(message, hint=hint)
        self.report = report


def get(
    request: GetRequest, progress: Callable[[Progress], None], environ: Mapping[str, str] = os.environ
) -> GetReport:
    """Download everything. Raises GetFailed if some files failed, other OwnlabErrors if nothing could be begun."""
    if not request.sources:
        raise UsageError(text("No source is named."), hint=text("For instance: https://example.org/train.zip"))
    credentials = CredentialStore(environ)
    with contextlib.ExitStack() as resources:
        client = Client(credentials, request.options.silence)
        context = Context(client, credentials, request.include, request.exclude, request.options.html, resources)
        try:
            collections = [resolve(source, context) for source in request.sources]
            if request.checksums:
                listed = checksum_file.read(request.checksums, client)
                collections = checksum_file.with_checksums(collections, listed, request.checksums)
        finally:
            client.close()
        return _download(request, collections, credentials, progress)


def _download(
    request: GetRequest,
    collections: list[Collection],
    credentials: CredentialStore,
    progress: Callable[[Progress], None],
) -> GetReport:
    begin = time.monotonic()
    reports: list[FileReport] = []
    errors: list[InputError] = []
    transferred = resumed = 0
    groups = _by_folder(_named(collections, request), request.folder)
    for folder, parts in groups.items():
        files = [file for part in parts for file in part.files]
        target = Target(folder, force=request.force)
        target.manifest.load()
        check_room(folder, _needed(files, target), text("The download"))
        downloader = Downloader(files, target, credentials, request.options)
        try:
            done, failed = downloader.run(progress)
        finally:
            _save(target, parts)
        reports += [msgspec.structs.replace(each, path=str(folder / each.path) if each.path else "") for each in done]
        errors += failed
        transferred, resumed = transferred + downloader.transferred, resumed + downloader.resumed
        if len(failed) < len(files):
            _remember(target, credentials.environ)
    report = GetReport(tuple(map(str, groups)), tuple(reports), transferred, resumed, time.monotonic() - begin)
    if errors:
        raise _failure(errors, report)
    return report


def _named(collections: list[Collection], request: GetRequest) -> list[Collection]:
    """Apply --name and --sha256, which are for a single file."""
    if not request.name and not request.checksum:
        return collections
    if len(collections) != 1 or len(collections[0].files) != 1:
        raise UsageError(text("--name and --sha256 are for a single file."))
    file = collections[0].files[0]
    if request.name:
        file = msgspec.structs.replace(file, path=check_relative_path(request.name))
    if request.checksum:
        file = with_checksum(file, request.checksum)
    return [msgspec.structs.replace(collections[0], files=(file,))]


def _by_folder(collections: list[Collection], folder: Path | None) -> dict[Path, list[Collection]]:
    """Return the folder of each collection. A single repository goes into the folder that was named; several get one each."""
    groups: dict[Path, list[Collection]] = {}
    for collection in collections:
        place = (folder if folder is not None else Path()).expanduser().absolute()
        if collection.name and (folder is None or len(collections) > 1):
            place /= collection.name
        groups.setdefault(place, []).append(collection)
    return groups


def _needed(files: list[RemoteFile], target: Target) -> int:
    """Return the bytes that are still to come, as far as the sources say."""
    known = target.manifest.files
    missing = [file for file in files if not (file.path in known and target.manifest.is_intact(known[file.path]))]
    return max(0, sum(file.size or 0 for file in missing) - target.arrived())


def _remember(target: Target, environ: Mapping[str, str]) -> None:
    manifest = read_manifest(target.folder)
    size = sum(file.size for file in manifest.files)
    sources = "; ".join(manifest.sources)[:500]
    remember(DataSetEntry(str(target.folder), "downloaded", sources, size=size, files=len(manifest.files)), environ)


def _save(target: Target, parts: list[Collection]) -> None:
    try:
        target.manifest.save(tuple(part.source for part in parts))
        target.tidy()
    except OSError as exc:
        raise disk_error(exc, target.folder) from exc


def _failure(errors: list[InputError], report: GetReport) -> OwnlabError:
    if len(errors) == 1 and len(report.files) == 1:
        return GetFailed(errors[0].message, hint=errors[0].hint, report=report)
    count = plural(len(errors), "One of {all} files failed", "{n} of {all} files failed", all=len(report.files))
    return GetFailed(
        text("{count}. The first error: {message}", count=count, message=errors[0].message),
        hint=errors[0].hint or text("The others are complete. Run the same command again for the rest."),
        report=report,
    )
