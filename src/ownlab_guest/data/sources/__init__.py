"""What can be packed. Each source lists entries, and fetches the bytes that they refer to; `find_source` chooses by the path."""

import os
from typing import Optional

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.regular_files import check_regular
from ownlab_guest.data.sources.source import Options, Source
from ownlab_guest.text import text

__all__ = ["Options", "Source", "find_source"]

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_HUGGING_FACE = "hf:"


def find_source(path: str, options: Optional[Options] = None) -> Source:
    """Return the source behind a path, or behind hf:NAME. Raises DataError."""
    options = options or Options()
    if path.startswith(_HUGGING_FACE):
        from ownlab_guest.data.sources.hugging_face import HuggingFaceSource

        return HuggingFaceSource(path[len(_HUGGING_FACE) :], options, local=False)
    if not os.path.exists(path):
        raise DataError(text("There is no {path}.", path=path))
    if os.path.isdir(path):
        return _folder(path, options)
    check_regular(path)
    if options.archive is not None:
        from ownlab_guest.data.sources.archive_stream import ArchiveSource

        return ArchiveSource(path, options, options.archive)
    return _file(path, options)


def _folder(path: str, options: Options) -> Source:
    if os.path.exists(os.path.join(path, "state.json")) and os.path.exists(os.path.join(path, "dataset_info.json")):
        from ownlab_guest.data.sources.hugging_face import HuggingFaceSource

        for name in os.listdir(path):  # the library opens what it finds
            if not os.path.isdir(os.path.join(path, name)):
                check_regular(os.path.join(path, name))
        return HuggingFaceSource(path, options, local=True)
    from ownlab_guest.data.sources.folder import FolderSource

    return FolderSource(path, options)


def _file(path: str, options: Options) -> Source:
    lower = path.lower()
    if lower.endswith(".zip"):
        from ownlab_guest.data.sources.zip_file import ZipSource

        return ZipSource(path, options)
    if lower.endswith(_TARS):
        from ownlab_guest.data.sources.tar_file import CompressedTarSource, TarSource

        return (TarSource if lower.endswith(".tar") else CompressedTarSource)(path, options)
    if lower.endswith((".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".txt")):
        from ownlab_guest.data.sources.tables import TableSource

        if options.only is not None:
            raise DataError(text("--only names a folder of a folder or of an archive; {path} is a table.", path=path))
        return TableSource(path, options)
    raise DataError(
        text("{path} is of no kind that can be packed.", path=path),
        hint=text("A folder, an archive, .csv, .tsv, .parquet, .jsonl, .txt or hf:NAME can be packed."),
    )
