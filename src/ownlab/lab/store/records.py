"""Which store is used, as records: what `ownlab store --json` prints."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["StoreChoice", "StoreView"]


class StoreChoice(Struct, frozen=True):
    """A store's folder, and why it is this one."""

    folder: str
    shared: bool
    origin: str  # in words: "named by OWNLAB_STORE", "this machine has a shared store"
    notice: str = ""  # what people should know


class StoreView(Struct, frozen=True):
    """`ownlab store --json`."""

    folder: str
    shared: bool
    origin: str
    notice: str
    made: bool  # False: the first runtime makes it
    filesystem: str | None
    network: bool | None  # None: it cannot be told
    owner: str | None
    group: str | None
    mode: str | None  # "drwxrws---"
    limits: dict[str, float | None] | None  # in seconds: what holds for everyone who shares it
