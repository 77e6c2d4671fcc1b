"""`ownlab data get`."""

from __future__ import annotations

from pathlib import Path

import click

from ownlab.cli.options import json_option
from ownlab.instruments.data.download.pipeline import GetFailed, GetRequest, get
from ownlab.instruments.data.download.transfer import TransferOptions
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.command("get")
@click.argument("sources", metavar="SOURCE…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Where it goes. Default: here; repositories and shared folders get a folder of their name.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Of a repository, only files like this: 'data/*.parquet'. May be repeated.",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Of a repository, no files like this. May be repeated."
)
@click.option("--name", default="", metavar="NAME", help="The name of a single file.")
@click.option("--sha256", "sha256", default="", metavar="HEX", help="The SHA-256 that a single file must have.")
@click.option(
    "--checksums",
    default="",
    metavar="FILE",
    help="The checksums of all files, as sha256sum and md5sum write them: a file or an address.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 64),
    default=TransferOptions().connections,
    show_default=True,
    help="Connections at the same time.",
)
@click.option(
    "--force", is_flag=True, help="Download again what is here already, and replace files that were changed here."
)
@click.option(
    "--html",
    is_flag=True,
    help="Accept web pages. Without it they are taken for the error messages that they usually are.",
)
@json_option
def command(
    sources: tuple[str, ...],
    folder: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    name: str,
    sha256: str,
    checksums: str,
    connections: int,
    force: bool,
    html: bool,
    as_json: bool,
) -> None:
    """Download data, and continue where an interrupted download ended.

    SOURCE is an http(s) address, a repository of Hugging Face, a file or a folder of Google Drive, a data set or a competition of
    Kaggle, object storage (s3://, gs://, az://), a remote of rclone (rclone:REMOTE:PATH), or a text file with one source per line
    (ADDRESS [out=NAME] [sha256=…]). Files are fetched in parallel segments, checked against the checksums that their source
    announces, and recorded in FOLDER/.ownlab-data/manifest.json. The same command again continues, updates or does nothing.

    \b
    ownlab data get https://example.org/train.zip -o data
    ownlab data get hf://datasets/OWNER/NAME --include 'data/*.parquet'
    ownlab data get https://drive.google.com/drive/folders/ID
    ownlab data get kaggle://datasets/OWNER/NAME -o data
    ownlab data get s3://BUCKET/train -o data
    ownlab data get list.txt -o data

    Tokens: HF_TOKEN and KAGGLE_API_TOKEN (environment, `ownlab secrets set HF_TOKEN`, or the files of `hf auth login` and Kaggle's own
    tools); keys of AWS, Google Cloud and Azure from their usual variables and files; ~/.netrc for other servers. They are sent to
    their own server only, and never written down.
    """
    request = GetRequest(
        sources,
        folder,
        include,
        exclude,
        name,
        f"sha256={sha256}" if sha256 else "",
        checksums,
        force,
        TransferOptions(connections=connections, html=html),
    )
    from ownlab.instruments.data.download.terminal import ProgressDisplay, show_report  # Rich is slow to import
    from ownlab.render.console import console

    try:
        with ProgressDisplay() as progress:
            report = get(request, progress)
    except GetFailed as exc:
        if not as_json and len(exc.report.files) > 1:
            show_report(exc.report, console())
        raise
    except KeyboardInterrupt:
        click.echo(text("What has arrived is kept. Run the same command again to continue."), err=True)
        raise
    if as_json:
        echo_record(report)
    else:
        show_report(report, console())
