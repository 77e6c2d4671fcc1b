"""What can be wrong with an archive."""

from __future__ import annotations

from ownlab.errors import InputError

__all__ = ["CorruptArchive", "UnsafeArchive"]


class CorruptArchive(InputError):
    """The archive is damaged or incomplete."""

    meaning = "The download was cut off, a volume is missing, or the file was damaged on its way."


class UnsafeArchive(InputError):
    """The archive would write outside of its folder, or fill the disk."""

    meaning = "Archives of data sets contain files and folders. This one was made by mistake, or by an attacker."
