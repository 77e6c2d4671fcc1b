"""The list of this person's data sets: which folders were downloaded, unpacked or packed, and when each was used last.

`<state folder>/data-sets.json`. It is a convenience: a folder that is not in it loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, OwnlabError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text

__all__ = ["DataSetEntry", "Origin", "known_data_sets", "remember"]

Origin = Literal["downloaded", "unpacked", "packed"]


class DataSetEntry(Struct, frozen=True):
    """One folder of the list."""

    path: str
    origin: Origin
    source: str  # without tokens
    last_used: float = 0.0  # seconds since the epoch
    size: int = 0  # bytes
    files: int = 0


class _Entries(Struct, frozen=True):
    folders: tuple[DataSetEntry, ...] = ()


def known_data_sets(environ: Mapping[str, str] = os.environ) -> tuple[DataSetEntry, ...]:
    """Return the folders of the list, the last used first. A damaged list is empty: it is only a convenience."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        data = (state_folder(environ, make=False) / "data-sets.json").read_bytes()
        return tuple(sorted(decode_json(data, _Entries).folders, key=lambda entry: -entry.last_used))
    return ()


def remember(entry: DataSetEntry, environ: Mapping[str, str] = os.environ) -> None:
    """Note that a folder was used now. Does nothing where the list cannot be written: the data is there nevertheless."""
    with contextlib.suppress(OSError, OwnlabError):
        state = state_folder(environ)
        descriptor = os.open(state / "data-sets.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            wait_for_lock(descriptor, InputError(text("The list of data sets is in use.")), LOCK_SECONDS)
            others = [known for known in known_data_sets(environ) if known.path != entry.path]
            entries = _Entries((msgspec.structs.replace(entry, last_used=time.time()), *others))
            replace_file(state / "data-sets.json", msgspec.json.format(encode_json(entries), indent=1) + b"\n")
        finally:
            os.close(descriptor)
