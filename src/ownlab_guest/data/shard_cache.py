"""Shards from an http server, kept on the local disk up to a size limit. What was not used for longest goes first."""

import contextlib
import fcntl
import hashlib
import os
import threading
import time
import urllib.error
import urllib.request
from typing import Iterator, List, Optional, Sequence

from ownlab_guest.atomic_files import replace_file
from ownlab_guest.data import manifest
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.shard_store import ShardStore
from ownlab_guest.data.shard_writer import index_name, names_of
from ownlab_guest.text import text

DEFAULT_CACHE_BYTES = 50 << 30
_TIMEOUT_SECONDS = 60
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.5
_PART = 1 << 20
# Shards that are fetched before they are needed.
_AHEAD = 3


def is_url(path: str) -> bool:
    """Whether a path is an address."""
    return path.startswith(("http://", "https://"))


def default_folder(url: str) -> str:
    """Return where the shards of an address are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ownlab", "data", hashlib.sha256(url.encode()).hexdigest()[:16])


class CachedStore(ShardStore):
    """A packed data set behind an address. Several processes share the folder."""

    _ahead: Optional[threading.Thread]

    def __init__(self, url: str, folder: Optional[str], most_bytes: int) -> None:
        self.url = url.rstrip("/")
        self._most_bytes = most_bytes
        self._expected: List[int] = []
        folder = folder or default_folder(self.url)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Asked for anew each time: the data set may have been packed again.
        content = _fetched_bytes(f"{self.url}/{manifest.FILE}")
        self._begin_anew(folder, content)
        super().__init__(folder)
        largest = max((shard.bytes + shard.index_bytes for shard in self.manifest.shards), default=0)
        if most_bytes < largest * 2:
            raise DataError(text("The cache must have room for two shards: {bytes} bytes.", bytes=largest * 2))

    def expect(self, shards: Sequence[int]) -> None:
        self._expected = list(shards)

    def path(self, name: str) -> str:
        """Return the path of a file, after it was fetched."""
        path = self._place(name)
        shard = next(number for number, shard in enumerate(self.manifest.shards) if name in names_of(shard))
        self._begin_ahead(shard)
        self._fetch(shard, name)
        return path

    def _begin_ahead(self, shard: int) -> None:
        """Fetch the next shards in the background, one thread at a time."""
        if shard not in self._expected or (self._ahead is not None and self._ahead.is_alive()):
            return
        place = self._expected.index(shard)
        wanted = self._expected[place + 1 : place + 1 + _AHEAD]
        wanted = [number for number in wanted if not os.path.exists(self._place(self.manifest.shards[number].name))]
        if wanted:
            self._ahead = threading.Thread(target=self._fetch_quietly, args=(wanted,), daemon=True)
            self._ahead.start()

    def _fetch_quietly(self, shards: "List[int]") -> None:
        # The reader meets the same problem, and reports it, when it needs the shard.
        with contextlib.suppress(OSError, DataError):
            for shard in shards:
                for name in names_of(self.manifest.shards[shard]):
                    self._fetch(shard, name, attempts=1)

    def _place(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _open(self, shard: int) -> int:
        """Open a tar. Between its download and this, another process may have removed it to make room for its own."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileNotFoundError):
                return os.open(self.path(self.manifest.shards[shard].name), os.O_RDONLY | os.O_CLOEXEC)
        return super()._open(shard)

    def _reset(self) -> None:
        super()._reset()
        self._ahead = None

    def _fetch(self, shard: int, name: str, attempts: int = _ATTEMPTS) -> None:
        entry = self.manifest.shards[shard]
        path = self._place(name)
        size = entry.index_bytes if name == index_name(entry.name) else entry.bytes
        with contextlib.suppress(FileNotFoundError):
            if os.path.getsize(path) == size:
                os.utime(path)  # the time of its last use
                return
        with _locked(path + ".lock"):
            if os.path.exists(path) and os.path.getsize(path) == size:
                return  # another process has fetched it meanwhile
            self._make_room(size, keep=name)
            _download(f"{self.url}/{name}", path, size, attempts)

    def _make_room(self, needed: int, keep: str) -> None:
        """Remove what was not used for longest. A file that a reader has open stays readable until it closes it."""
        files = []
        for name in os.listdir(self.folder):
            if name.endswith(".tar") and name != keep:  # indexes are small, and the next epoch needs them
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(self._place(name))
                    files.append((status.st_mtime, status.st_size, name))
        used = sum(size for _, size, _ in files)
        for _, size, name in sorted(files):
            if used + needed <= self._most_bytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, name))
            used -= size

    @staticmethod
    def _begin_anew(folder: str, content: bytes) -> None:
        """Shards of an older version of the data set are of no use."""
        path = os.path.join(folder, manifest.FILE)
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            if file.read() == content:
                return
        manifest.decode(content, path)
        for name in os.listdir(folder):
            if name.endswith((".tar", ".index", ".part")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))
        replace_file(path, content)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _download(url: str, path: str, size: int, attempts: int) -> None:
    """Download a file of a known size; after a cut connection continue where it stopped."""
    part = path + ".part"
    for attempt in range(attempts):
        try:
            done = os.path.getsize(part) if os.path.exists(part) else 0
            if done < size:
                _download_rest(url, part, done, size)
            if os.path.getsize(part) == size:
                os.replace(part, path)
                return
        except (OSError, ValueError) as exc:
            reason: object = exc
            if isinstance(exc, urllib.error.HTTPError) and exc.code in (401, 403, 404, 410):
                break
        else:
            reason = text("its size is not the one in the manifest")
            os.unlink(part)
        time.sleep(_FIRST_WAIT_SECONDS * 2**attempt)
    raise DataError(
        text("Cannot download {url}: {reason}.", url=url, reason=reason),
        hint=text("Check the address and the network."),
    )


def _download_rest(url: str, part: str, done: int, size: int) -> None:
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})  # noqa: S310  # http(s) only
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        continued = answer.status == 206 and str(answer.headers.get("Content-Range", "")).startswith(f"bytes {done}-")
        with open(part, "ab" if continued else "wb") as file:
            left = size - (done if continued else 0)
            # One byte more than expected shows that the file is another one.
            while left >= 0 and (content := answer.read(min(_PART, left + 1))):
                file.write(content)
                left -= len(content)


def _fetched_bytes(url: str) -> bytes:
    for attempt in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                content: bytes = answer.read(256 << 20)
                return content
        except OSError as exc:
            reason = exc
            if isinstance(exc, urllib.error.HTTPError) and exc.code < 500:
                break
        time.sleep(_FIRST_WAIT_SECONDS * 2**attempt)
    raise DataError(
        text("Cannot download {url}: {reason}.", url=url, reason=reason),
        hint=text("Check the address and the network."),
    )
