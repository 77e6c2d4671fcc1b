"""`ownlab data pack`: parse, run the guest, render."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ownlab.cli.options import json_option

__all__ = ["pack"]


@click.command("pack")
@click.argument("path")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), metavar="OUT", help="The new folder.")
@click.option("--shuffle/--no-shuffle", default=True, help="Shuffle all samples (default), or keep their order.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the shuffle. Default: 0.")
@click.option("--dedupe", is_flag=True, help="Leave out samples whose content is there already.")
@click.option(
    "--resize", "side", type=click.IntRange(1), metavar="PIXELS", help="Make the shorter side of larger images so long."
)
@click.option("--quality", type=click.IntRange(1, 100), metavar="N", help="Encode images again with this quality.")
@click.option("--format", type=click.Choice(["jpeg", "png", "webp"]), help="Encode images in this format.")
@click.option("--shard-size", default="128MiB", metavar="SIZE", help="Size of a shard. Default: 128MiB.")
@click.option(
    "--workers",
    type=click.IntRange(0, 256),
    default=0,
    metavar="N",
    help="Threads that read. Default: 8; with --resize, --quality or --format one for each core, up to 8.",
)
@click.option("--path-column", metavar="NAME", help="The column of a table that names the files.")
@click.option("--label-column", metavar="NAME", help="The column of a table that has the label.")
@click.option("--split", metavar="NAME", help="The split of a Hugging Face data set.")
@click.option("--only", metavar="FOLDER", help="Pack only this folder of PATH, such as train or val.")
@click.option(
    "--names", "encoding", default="", metavar="ENCODING", help="The encoding of an archive's names that are not UTF-8."
)
@click.option(
    "--max-ratio",
    type=click.FloatRange(min=1),
    default=200.0,
    show_default=True,
    help="How many times its own size an archive may become, beyond 1 GiB.",
)
@click.option(
    "--python", metavar="PATH", help="The Python that has Pillow, pyarrow or datasets. Default: the active environment."
)
@json_option
@click.pass_context
def pack(context: click.Context, /, path: str, out: Path, as_json: bool, **values: Any) -> None:
    """Pack PATH into tar shards that are read without seeking.

    PATH is a folder (its first level of folders are the classes), an archive of any kind that `ownlab data unpack` knows, a .csv,
    .tsv or .parquet whose rows name files, a .jsonl or .txt with a sample in each line, or hf:NAME of Hugging Face. An archive is
    read as it is: its files are never written one by one.

    The shards are plain tars: WebDataset, DALI and tar read them. ownlab.data.open(OUT) reads them in Python. If packing is
    interrupted in any way, the same command continues.

    \b
    ownlab data pack train -o packed
    ownlab data pack train.zip -o packed --resize 256

    Exit code: 0 packed; 1 packed, but some files could not be read; 3 nothing was packed.
    """
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.data.archives.limits import Limits
    from ownlab.instruments.data.packing.pipeline import PackRequest, pack_data, shard_bytes_of
    from ownlab.instruments.data.progress_terminal import show_progress

    python = resolve_machine_options(python=values.pop("python")).python
    encoding, limits = values.pop("encoding"), Limits(values.pop("max_ratio"))
    shard_bytes = shard_bytes_of(values.pop("shard_size"))
    request = PackRequest(path, str(out), shard_bytes=shard_bytes, **values)
    with show_progress() as on_progress:
        packed = pack_data(request, python, on_progress, encoding=encoding, limits=limits)
    _show(packed, as_json=as_json)
    context.exit(1 if packed.skipped else 0)


def _show(packed: Any, *, as_json: bool) -> None:
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(packed)
        return
    from ownlab.instruments.data.packing.terminal import show_packed
    from ownlab.render.console import console

    show_packed(packed, console())
