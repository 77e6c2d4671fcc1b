"""The functions of `ownlab.data` that do what the commands of `ownlab data` do. `ownlab.data` names them.

They import what they need when they are called: a training script that only reads packed data loads none of it.
`python -m ownlab.instruments.data.notebook` serves kernels whose environment has no ownlab (ownlab_guest/kernel/data_commands.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ownlab_guest.kernel.data_inspection import DataInspection

if TYPE_CHECKING:
    from ownlab.instruments.data.archives.records import UnpackReport
    from ownlab.instruments.data.download.records import GetReport
    from ownlab.instruments.data.packing.records import Packed, Verified
    from ownlab.instruments.data.rates.records import DataBench
    from ownlab.instruments.data.staging.records import StageReport

__all__ = ["bench", "get", "inspect", "pack", "stage", "unpack", "verify"]

PathLike = str | os.PathLike[str]
_WIDTH = 100


def get(
    *sources: str,
    folder: PathLike | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    name: str = "",
    sha256: str = "",
    checksums: str = "",
    connections: int = 8,
    force: bool = False,
    html: bool = False,
) -> GetReport:
    """Download sources as `ownlab data get` does, and continue where an interrupted download ended.

    Without a folder, files go into the current one. Raises OwnlabError; what has arrived is kept.
    """
    from ownlab.instruments.data.download.pipeline import GetRequest
    from ownlab.instruments.data.download.pipeline import get as download
    from ownlab.instruments.data.download.transfer import TransferOptions

    request = GetRequest(
        sources,
        _path(folder),
        tuple(include),
        tuple(exclude),
        name,
        f"sha256={sha256}" if sha256 else "",
        checksums,
        force,
        TransferOptions(connections=connections, html=html),
    )
    return download(request, _ignore)


def unpack(
    archive: PathLike,
    folder: PathLike | None = None,
    *,
    overwrite: bool = False,
    max_ratio: float = 200.0,
    names: str = "",
) -> UnpackReport:
    """Unpack an archive into a folder, by default one of its name. Files that are finished are skipped. Raises OwnlabError."""
    from ownlab.instruments.data.archives.limits import Limits
    from ownlab.instruments.data.archives.member_path import check_encoding
    from ownlab.instruments.data.archives.pipeline import UnpackRequest
    from ownlab.instruments.data.archives.pipeline import unpack as extract

    check_encoding(names)
    return extract(UnpackRequest(Path(archive), _path(folder), overwrite, Limits(max_ratio), names), _ignore)


def inspect(
    path: PathLike, *, sheet: PathLike | None = None, only: str | None = None, python: str | None = None
) -> DataInspection:
    """Show what a path contains: kinds of files, classes, image sizes, broken images, duplicates, columns.

    Every file is read. `record` of the result has the figures; a notebook shows it with small pictures. Raises OwnlabError.
    """
    from ownlab.instruments.data.inspection.html_page import inspection_fragment
    from ownlab.instruments.data.inspection.pipeline import InspectRequest, inspect_data
    from ownlab.instruments.data.inspection.terminal import show_inspection
    from ownlab.render.console import print_to_text

    request = InspectRequest(os.fspath(path), None if sheet is None else os.fspath(sheet), only, thumbnails=True)
    found = inspect_data(request, python or sys.executable, _ignore)
    printed = print_to_text(lambda out: show_inspection(found, out), _WIDTH)
    return DataInspection(found.plain(), printed, inspection_fragment(found))


def pack(
    path: PathLike,
    out: PathLike,
    *,
    shuffle: bool = True,
    seed: int = 0,
    dedupe: bool = False,
    resize: int | None = None,
    quality: int | None = None,
    format: str | None = None,  # noqa: A002  # the option's name
    shard_size: str | int = "128MiB",
    workers: int = 0,
    path_column: str | None = None,
    label_column: str | None = None,
    split: str | None = None,
    only: str | None = None,
    names: str = "",
    max_ratio: float = 200.0,
    python: str | None = None,
) -> Packed:
    """Pack a folder, an archive, a table or a Hugging Face data set into shards in the folder `out`.

    Interrupted in any way, the same call continues. The options are those of `ownlab data pack`. Raises OwnlabError.
    """
    from ownlab.instruments.data.archives.limits import Limits
    from ownlab.instruments.data.packing.pipeline import PackRequest, pack_data, shard_bytes_of

    request = PackRequest(
        os.fspath(path),
        os.fspath(out),
        shuffle=shuffle,
        seed=seed,
        dedupe=dedupe,
        shard_bytes=shard_bytes_of(str(shard_size)),
        workers=workers,
        side=resize,
        quality=quality,
        format=format,
        path_column=path_column,
        label_column=label_column,
        split=split,
        only=only,
    )
    return pack_data(request, python or sys.executable, _ignore, encoding=names, limits=Limits(max_ratio))


def verify(
    folder: PathLike, *, full: bool = False, repair: PathLike | None = None, python: str | None = None
) -> Verified:
    """Check whether packed data are as they were packed; `full` reads every byte, `repair` names what they were packed from.

    `ok` of the result says whether all is well now. Raises OwnlabError.
    """
    from ownlab.instruments.data.packing.pipeline import verify_data

    source = None if repair is None else os.fspath(repair)
    return verify_data(os.fspath(folder), source, python or sys.executable, _ignore, full=full)


def bench(
    path: PathLike, *, need: float | None = None, scratch: PathLike | None = None, python: str | None = None
) -> DataBench:
    """Measure what limits reading a path here: disk, files or decoder. `verdict` of the result is one sentence. Raises OwnlabError."""
    from ownlab.instruments.data.rates.pipeline import bench_data

    place = None if scratch is None else os.fspath(scratch)
    return bench_data(os.fspath(path), need, place, python or sys.executable, _ignore)


def stage(source: PathLike, *, background: bool = False) -> StageReport:
    """Copy data from a slow place to the local scratch disk; `path` of the result is the copy. Raises OwnlabError."""
    from ownlab.instruments.data.staging import pipeline

    return pipeline.stage_detached(os.fspath(source)) if background else pipeline.stage(os.fspath(source), _ignore)


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)


def _ignore(_: object) -> None:
    """Progress is for the command line."""


def _serve() -> None:
    """Answer one call."""
    import inspect as introspection

    import msgspec

    from ownlab.errors import OwnlabError
    from ownlab.json_encoding import encode_shown_json, error_to_builtins

    call = msgspec.json.decode(sys.stdin.buffer.readline())
    function = {each.__name__: each for each in (bench, get, inspect, pack, stage, unpack, verify)}[call["function"]]
    try:
        os.chdir(call["folder"])
        try:
            introspection.signature(function).bind(*call["arguments"], **call["options"])
        except TypeError as exc:
            answer: dict[str, Any] = {"arguments": f"{function.__name__}(): {exc}"}
        else:
            answer = _described(function(*call["arguments"], **call["options"]))
    except OwnlabError as exc:
        answer = {"error": error_to_builtins(exc)}
    sys.stdout.buffer.write(encode_shown_json(answer) + b"\n")


def _described(result: Any) -> dict[str, Any]:
    from ownlab.json_encoding import to_typed_builtins

    if isinstance(result, DataInspection):
        return {"record": to_typed_builtins(result.record), "text": result.text, "html": result.html}
    return {"record": to_typed_builtins(result)}


if __name__ == "__main__":
    _serve()
