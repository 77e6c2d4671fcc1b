"""`ownlab data unpack`."""

from __future__ import annotations

from pathlib import Path

import click

from ownlab.cli.options import json_option
from ownlab.instruments.data.archives.limits import Limits
from ownlab.instruments.data.archives.member_path import check_encoding
from ownlab.instruments.data.archives.pipeline import UnpackRequest, unpack
from ownlab.instruments.data.archives.records import UnpackReport
from ownlab.render.documents import echo_record
from ownlab.text import CONTROL_CHARACTERS, facts, plural, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["command"]


@click.command("unpack")
@click.argument("archives", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where it goes. Default: a folder of the archive's name.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there already with other content.")
@click.option(
    "--max-ratio",
    type=click.FloatRange(min=1),
    default=Limits().ratio,
    show_default=True,
    help="How many times its own size an archive may become, beyond 1 GiB.",
)
@click.option(
    "--names",
    "encoding",
    default="",
    metavar="ENCODING",
    help="The encoding of names that are not UTF-8: gbk, shift_jis, …",
)
@json_option
def command(
    archives: tuple[Path, ...], folder: Path | None, overwrite: bool, max_ratio: float, encoding: str, as_json: bool
) -> None:
    """Unpack archives into a folder.

    FILE is recognised by its content: zip, tar (also with gz, bz2, xz, zst), files compressed alone; with the program `bsdtar` also
    7z, rar and others. Any volume stands for a split archive (data.zip.001, data.z01, data.tar.gz.aa). Nothing is written outside of
    FOLDER, and no more than the disk can take. The same command again skips what is finished. `ownlab data pack FILE` makes shards of
    an archive without unpacking it.

    \b
    ownlab data unpack train.zip
    ownlab data unpack train.tar.gz.aa -o data
    """
    check_encoding(encoding)
    from ownlab.instruments.data.download.terminal import ProgressDisplay  # Rich is slow to import

    reports: list[UnpackReport] = []
    try:
        for archive in archives:
            with ProgressDisplay() as progress:
                request = UnpackRequest(archive, folder, overwrite, Limits(max_ratio), encoding)
                reports.append(unpack(request, progress))
            if not as_json:
                click.echo(_line(reports[-1]).translate(CONTROL_CHARACTERS))
    except KeyboardInterrupt:
        click.echo(text("Finished files are kept. Run the same command again to continue."), err=True)
        raise
    if as_json:
        echo_record(tuple(reports))


def _line(report: UnpackReport) -> str:
    skipped = report.files - report.extracted
    return text(
        "{folder}: {facts}",
        folder=report.folder,
        facts=facts(
            plural(report.files, "one file", "{n} files"),
            format_bytes(report.size),
            text("{n} were there already", n=skipped) if skipped else "",
            format_seconds(report.seconds),
        ),
    )
