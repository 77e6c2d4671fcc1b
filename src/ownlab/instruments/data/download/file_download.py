"""What a worker does for one file: opens it, fetches its segments, checks it, and gives it its name.

`phase` says what can be done next. Several workers may be in `fetch` at the same time; `open` and `finish` have one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import msgspec

from ownlab.errors import InputError
from ownlab.instruments.data.download.answers import (
    ContentRange,
    announced_md5,
    check_status,
    confirmation_address,
    looks_like_page,
    page_error,
    parse_content_range,
)
from ownlab.instruments.data.download.connection import Client, Response, Transient
from ownlab.instruments.data.download.digests import Digests, Follower
from ownlab.instruments.data.download.file_address import FileAddress, Wanted
from ownlab.instruments.data.download.manifest import ManifestFile
from ownlab.instruments.data.download.names import check_relative_path, name_of_address, name_of_response
from ownlab.instruments.data.download.part_file import PartFile, PartHeader
from ownlab.instruments.data.download.records import FileReport, FileState, RemoteFile, Verification
from ownlab.instruments.data.download.segment_writer import Changed, SegmentWriter, is_range, span_of
from ownlab.instruments.data.download.segments import Run, Segments, SegmentState
from ownlab.instruments.data.download.target import Target, address_digest, check_room, entry_of
from ownlab.text import text
from ownlab.units import MIB

__all__ = ["FileDownload", "Phase"]

_FIRST_REQUEST = 8 * MIB
_FOLLOWED = 32 * MIB  # larger files are checksummed while they arrive
_FLUSHED = 8 * MIB  # larger files are flushed to the disk one by one
_MOST_REPAIRS = 3
_PAGE_BYTES = 2**16

Phase = Literal["new", "opening", "running", "finishing", "ended"]


class FileDownload:
    """One file on its way. `stopped` says that workers are to leave it."""

    def __init__(
        self, remote: RemoteFile, target: Target, *, connections: int, html: bool, stopped: Callable[[], bool]
    ) -> None:
        self.remote, self.target = remote, target
        self._connections, self._html, self._stopped = connections, html, stopped
        self.phase: Phase = "new"
        self.report: FileReport | None = None
        self.transferred = 0  # bytes over the network, in this run
        self.resumed = 0
        self.ranged = True  # the server sends the bytes that it is asked for
        self._part: PartFile | None = None
        self._path = ""
        self._replaces = False
        self._old: ManifestFile | None = None
        self._follower: Follower | None = None
        self._address = FileAddress(remote)
        self._md5 = ""
        self._repairs = 0
        self._mixed = False  # with bytes of an earlier run
        self._first_segment: SegmentState | None = None  # as an earlier run had it

    @property
    def size(self) -> int | None:
        """The size of the file, once it is known."""
        header = self._part.header if self._part is not None else None
        return header.size if header is not None else self.remote.size

    @property
    def arrived(self) -> int:
        """The bytes that are here, of this and of earlier runs."""
        segments = self.segments
        return segments.arrived() if segments is not None else self.transferred

    @property
    def segments(self) -> Segments | None:
        """The segments, once the size is known."""
        return self._part.segments if self._part is not None else None

    def pause(self, *, discard: bool) -> None:
        """Prepare to be opened again, by the last worker. discard: what has arrived is worth nothing."""
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._part is not None and discard:
            self._part.begin_stream()
            self._first_segment = None
        elif self._part is not None:
            self._start_follower()
        self.phase = "new"

    def give_up(self, message: str) -> None:
        """End without the file, by the last worker; what has arrived is kept if it can be continued."""
        self._close()
        self._end("failed", message=message)

    # --- the first request ------------------------------------------------------------------------------------------------

    def open(self, client: Client) -> None:
        """Send the first request, and fetch what it asks for."""
        if self.remote.error:
            raise InputError(self.remote.error)
        path = self._path or self.target.expected_path(self.remote)
        if path and self._part is None and not self._take(path):
            return
        if self._part is not None and self.remote.size == 0:
            self._begin(0, "", "")
            self.phase = "running"
            return
        segments = self._part.segments if self._part is not None and self.ranged else None
        if segments is not None and segments.size == 0:
            segments = None
        run = segments.claim(self._connections) if segments is not None else None
        try:
            self._first_request(client, segments, run)
        finally:
            if segments is not None and run is not None:
                segments.release(run)

    def _first_request(self, client: Client, segments: Segments | None, run: Run | None) -> None:
        if segments is not None and run is None and self.remote.sha256:  # all is here, and can be checked
            self.phase = "running"
            return
        start, end = span_of(segments, run) if segments is not None and run is not None else (0, _FIRST_REQUEST)
        with self._request(client, start, end, conditional=segments is None) as response:
            if response.status == 304 and self._old is not None:
                self._keep(self._old)
                return
            if self._part is None:
                self._learn_name(response)
                if self.phase == "ended" or self._part is None:
                    return
                if self._part.segments is not None:  # a part of an earlier run, under this name
                    self.phase = "new"
                    return
            if segments is not None:
                self._check_same(response)
                self.phase = "running"
                if run is not None and response.status == 206:
                    self._fill(response, segments, run)
            else:
                self._begin_with(response, end)

    def _take(self, path: str) -> bool:
        """Open the part of a path. False if the file is here already and need not be compared with the server's."""
        self.target.claim(path, self.remote)
        self._path = path
        self._old = self.target.present(path, self.remote)
        self._replaces = self._old is not None or self.target.force
        part = PartFile(self.target.folder, path)
        if self._old is not None and self._is_current(self._old):
            part.close(remove=True)
            self._keep(self._old)
            return False
        self._part = part
        header = part.load()
        if header is not None and not self._continues(header):
            part.begin_stream()
        elif header is not None and not (header.etag or header.modified or self._is_checkable()):
            self._begin_comparison(part)
        self.resumed, self._mixed = part.resumed, bool(part.resumed)
        self._start_follower()
        return True

    def _is_checkable(self) -> bool:
        return bool(self.remote.sha256 or self.remote.md5 or self.remote.git_sha1)

    def _begin_comparison(self, part: PartFile) -> None:
        """Fetch the first segment again: nothing else shows whether the server still has the same file."""
        segments = part.segments
        if segments is None or not segments.count or not segments.is_complete(0):
            part.begin_stream()
            return
        self._first_segment = segments.state(0)
        segments.reset([0])

    def _is_current(self, entry: ManifestFile) -> bool:
        """Whether the source's own checksum says that the file here is the newest."""
        if self.remote.sha256:
            return self.remote.sha256.lower() == entry.sha256
        if self.remote.md5:
            return self.remote.md5.lower() == entry.md5
        return entry.etag == self.remote.git_sha1 if self.remote.git_sha1 else self.remote.size == 0 == entry.size

    def _continues(self, header: PartHeader) -> bool:
        return header.label == self.remote.label and self.remote.size in (None, header.size)

    def _learn_name(self, response: Response) -> None:
        check_status(response, self.remote.label)
        own = "" if self.remote.named_by_redirect else name_of_address(self.remote.url)
        name = name_of_response(response.headers) or (own if "." in own else name_of_address(response.url))
        self._take(check_relative_path(name))

    def _begin_with(self, response: Response, asked: int) -> None:
        """Begin with an answer that starts at the first byte."""
        etag, modified = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
        span = parse_content_range(response.headers.get("Content-Range"))
        if self._is_unchanged(response, span):
            assert self._old is not None
            self._keep(self._old)
            return
        if response.status == 416 and span is not None and span.total == 0:
            self._begin(0, etag, modified)
            self.phase = "running"
            return
        if response.status == 416 or (
            response.status == 206 and (span is None or span.total is None or not is_range(span, 0, response))
        ):
            if not self.ranged:
                raise InputError(text("{address} answers with other bytes than asked for.", address=self.remote.label))
            self.ranged = False  # it does not know ranges, or lies about them: ask for the whole file
            raise Changed
        self._md5 = announced_md5(response.headers, whole=response.status == 200)
        if response.status == 206:
            assert span is not None
            assert span.total is not None
            assert span.last is not None
            segments = self._begin(span.total, etag, modified)
            run = segments.claim_beginning(min(asked, span.last + 1))
            self.phase = "running"
            try:
                self._fill(response, segments, run)
            finally:
                segments.release(run)
        else:
            self._stream(response, etag, modified)

    def _is_unchanged(self, response: Response, span: ContentRange | None) -> bool:
        """Whether the server has what is here, although it does not understand conditional requests."""
        old = self._old
        if old is None or self._part is None:
            return False
        total = span.total if span is not None else response.length
        etag, modified = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
        if (etag and old.etag) or (modified and old.modified):
            return total in (None, old.size) and (etag == old.etag if etag and old.etag else modified == old.modified)
        return total == old.size and not (etag or modified or self.remote.sha256 or self.remote.md5)

    def _begin(self, size: int, etag: str, modified: str) -> Segments:
        if self.remote.size not in (None, size):
            raise InputError(
                text(
                    "{address} has {size:,} bytes on the server, but {expected:,} in its list of files.",
                    address=self.remote.label,
                    size=size,
                    expected=self.remote.size,
                ),
                hint=text("The file is being changed, or a proxy answers in place of the server. Try again later."),
            )
        assert self._part is not None
        check_room(self.target.folder, size, self.remote.label)
        header = PartHeader(self._path, self.remote.label, address_digest(self.remote.url), size, 0, etag, modified)
        segments = self._part.begin(header)
        self._mixed, self.resumed = False, 0
        self._start_follower()
        return segments

    def _start_follower(self) -> None:
        if self._follower is not None:
            self._follower.stop()
        assert self._part is not None
        header = self._part.header
        self._follower = Follower(self._part, self._digests(header.size)) if header is not None else None
        if self._follower is not None and header is not None and header.size > _FOLLOWED:
            self._follower.start()

    def _digests(self, size: int | None) -> Digests:
        remote = self.remote
        return Digests(msgspec.structs.replace(remote, md5=remote.md5 or self._md5), size)

    # --- segments ---------------------------------------------------------------------------------------------------------

    def fetch(self, run: Run, client: Client) -> None:
        """Fetch a run of segments that this worker has claimed."""
        assert self._part is not None
        segments = self._part.segments
        assert segments is not None
        try:
            start, end = span_of(segments, run)
            with self._request(client, start, end) as response:
                self._check_same(response)
                self._fill(response, segments, run)
        finally:
            segments.release(run)

    def _request(self, client: Client, start: int, end: int, *, conditional: bool = False) -> Response:
        header = self._part.header if self._part is not None else None
        wanted = Wanted(start, end, header, self._old if conditional else None)
        return self._address.get(client, wanted if self.ranged else wanted._replace(end=0))

    def _check_same(self, response: Response) -> None:
        """Raise Changed if an answer is not of the file that the part began with."""
        header = self._part.header if self._part is not None else None
        assert header is not None
        span = parse_content_range(response.headers.get("Content-Range"))
        etag, modified = response.headers.get("ETag", ""), response.headers.get("Last-Modified", "")
        if response.status == 206 and span is not None and span.total in (None, header.size):
            same_time = modified == header.modified or not (modified and header.modified)
            if (etag == header.etag or not (etag and header.etag)) and same_time:
                return
        elif response.status == 200 and response.length == header.size and etag == header.etag != "":
            self.ranged = False  # the same file, but this server knows no ranges (any more)
        raise Changed

    def _check_content(self, data: bytes, response: Response) -> None:
        if self._html or self.remote.html or not looks_like_page(data, response.headers, self._path):
            return
        page = data + response.read_all(_PAGE_BYTES)
        confirmed = confirmation_address(page, response.url)
        if confirmed and self._address.redirect(confirmed):  # "too large to be scanned for viruses"
            raise Changed
        raise page_error(page, self.remote.label)

    # --- without ranges ---------------------------------------------------------------------------------------------------

    def _stream(self, response: Response, etag: str, modified: str) -> None:
        """Read an answer that has the whole file, from its beginning. It cannot be resumed."""
        self.ranged = False
        self.phase = "running"
        size = response.length
        assert self._part is not None
        if size is not None:
            segments = self._begin(size, etag, modified)
            if segments.count:
                run = segments.claim_beginning(size)
                try:
                    self._fill(response, segments, run)
                finally:
                    segments.release(run)
        else:
            self._part.begin_stream()
            if self._writer().write_stream(response) != (self.remote.size or 0) and self.remote.size is not None:
                raise Transient(text("{address} closed the connection too early.", address=self.remote.label))
        self.phase = "finishing"
        self.finish()

    def _fill(self, response: Response, segments: Segments, run: Run) -> None:
        """Write what arrives into the segments of a run."""
        if not self._writer().write_run(response, segments, run):
            self.ranged = False  # other bytes than asked for: this server cannot be trusted with ranges
            raise Changed
        if self._first_segment is not None and run.first == 0 and segments.is_complete(0):
            if self._first_segment != segments.state(0):
                raise Changed
            self._first_segment = None

    def _writer(self) -> SegmentWriter:
        assert self._part is not None
        return SegmentWriter(self._part, self._stopped, self._count, self._check_content)

    def _count(self, received: int) -> None:
        self.transferred += received  # from several threads: a display, where an update lost does not matter

    # --- the end ----------------------------------------------------------------------------------------------------------

    def finish(self, client: Client | None = None) -> None:
        """Check the complete file and give it its name."""
        assert self._part is not None
        digests = self._complete_digests()
        if digests is None:  # segments that a power cut had damaged are fetched again
            self.phase = "running"
            return
        try:
            verified: Verification = digests.verify() or ("size" if self._part.header is not None else "none")
        except InputError:
            mixed = self._mixed
            self._part.begin_stream()
            if mixed:  # bytes of an earlier run may be of an older version
                raise Changed from None
            raise
        self._give_name(digests, verified)

    def _complete_digests(self) -> Digests | None:
        assert self._part is not None
        if self._follower is not None:
            self._follower.finish()
            if self._follower.damaged:
                self._repair(self._follower.damaged)
                return None
            return self._follower.digests
        digests, offset = self._digests(os.fstat(self._part.descriptor).st_size), 0
        while data := os.pread(self._part.descriptor, MIB, offset):
            digests.update(data)
            offset += len(data)
        return digests

    def _repair(self, damaged: set[int]) -> None:
        """Fetch segments again that are not on the disk as they were written: a power cut may do that."""
        assert self._part is not None
        self._repairs += 1
        if self._repairs > _MOST_REPAIRS:
            raise InputError(
                text("The disk of {folder} returns other bytes than were written.", folder=self.target.folder)
            )
        if not self.ranged:
            raise Changed
        self._part.reset(damaged)
        self._start_follower()

    def _give_name(self, digests: Digests, verified: Verification) -> None:
        part = self._part
        assert part is not None
        header = part.header
        status = os.fstat(part.descriptor)
        if flushed := status.st_size > _FLUSHED:
            part.flush()
        etag = self.remote.git_sha1 or (header.etag if header is not None else "")
        modified = header.modified if header is not None else ""
        entry = entry_of(self._path, self.remote, status, digests, verified=verified, etag=etag, modified=modified)
        self.target.manifest.announce(entry, flushed=flushed)
        try:
            part.move_to(self.target.folder / self._path, replace=self._replaces)
        except FileExistsError as exc:
            raise InputError(
                text("{path} appeared while it was being downloaded.", path=self.target.folder / self._path),
                hint=text("Move it away, and run the same command again: nothing is downloaded twice."),
            ) from exc
        self._close(remove=True)
        self._end("updated" if self._old is not None else "downloaded", entry)

    def _keep(self, entry: ManifestFile) -> None:
        """End: the file is here already."""
        self._close(remove=True)
        self._end("unchanged", entry)

    def _end(self, state: FileState, entry: ManifestFile | None = None, message: str = "") -> None:
        self.phase = "ended"
        path, source = self._path or self.remote.path, self.remote.label
        if entry is None:
            self.report = FileReport(path, source, state, self.remote.size, message=message)
        else:
            self.report = FileReport(path, source, state, entry.size, entry.sha256, entry.verified, message)

    def _close(self, *, remove: bool = False) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._part is not None:
            unfinished = self._part.segments is not None and self._part.segments.arrived() > 0 and self.ranged
            self._part.close(remove=remove or not unfinished)
            self._part = None
