"""The address of one file: asks for some of its bytes, and remembers where redirects lead."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.connection import Client, Response
from ownlab.instruments.data.download.manifest import ManifestFile
from ownlab.instruments.data.download.part_file import PartHeader
from ownlab.instruments.data.download.records import RemoteFile

__all__ = ["FileAddress", "Wanted"]

_EXPIRED = (400, 401, 403, 404, 410)


class Wanted(NamedTuple):
    """Which bytes, and of which version of the file."""

    start: int
    end: int  # exclusive; 0: the whole file, without a range
    part: PartHeader | None = None  # the version that has been begun
    old: ManifestFile | None = None  # the version that is here: the server need not send it again

    def headers(self) -> dict[str, str]:
        """Return the headers of the request."""
        headers = {}
        if self.end:
            headers["Range"] = f"bytes={self.start}-{min(self.end, self.part.size if self.part else self.end) - 1}"
            if self.part is not None and self.part.etag and not self.part.etag.startswith("W/"):
                headers["If-Range"] = self.part.etag  # a weak ETag does not speak of bytes (RFC 9110, 13.1.5)
            elif self.part is not None and self.part.modified:
                headers["If-Range"] = self.part.modified
        if self.old is not None and self.old.etag:
            headers["If-None-Match"] = self.old.etag
        elif self.old is not None and self.old.modified:
            headers["If-Modified-Since"] = self.old.modified
        return headers


class FileAddress:
    """For several threads: the last redirect is used until it expires, as signed addresses do."""

    def __init__(self, remote: RemoteFile) -> None:
        self._remote = remote
        self._resolved = ""
        self._confirmed: set[str] = set()

    def get(self, client: Client, wanted: Wanted) -> Response:
        """Send the request. Raises Transient and InputError for answers that are no content."""
        headers = wanted.headers()
        response = client.get(self._resolved or self._remote.url, headers)
        if self._resolved and response.status in _EXPIRED:
            response.close()
            self._resolved = ""
            response = client.get(self._remote.url, headers)
        try:
            check_status(response, self._remote.label)
        except BaseException:
            response.close()
            raise
        self._resolved = response.url if response.url != self._remote.url else ""
        return response

    def redirect(self, url: str) -> bool:
        """Use another address from now on. False if it was tried before."""
        if url in self._confirmed:
            return False
        self._confirmed.add(url)
        self._resolved = url
        return True
