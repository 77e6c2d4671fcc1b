"""Errors of data sets that a person can act on."""

from ownlab_guest.text import shown


class DataError(ValueError):
    """A data set, a source or an option cannot be used. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = shown(message)
        super().__init__(message)
        self.message = message
        self.hint = shown(hint)


class DamagedData(DataError):
    """A shard or an index is not what was written: bytes have changed, or are missing."""
