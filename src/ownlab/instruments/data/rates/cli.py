"""`ownlab data bench`: parse, run the guest, decide, render."""

from __future__ import annotations

from pathlib import Path

import click

from ownlab.cli.options import json_option

__all__ = ["bench"]


@click.command("bench")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--need", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Samples per second that the model takes."
)
@click.option(
    "--scratch",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Where a local copy would be. Default: the folder for temporary files.",
)
@click.option("--python", metavar="PATH", help="The Python that has Pillow. Default: the active environment.")
@json_option
@click.pass_context
def bench(
    context: click.Context, /, path: Path, need: float | None, scratch: Path | None, python: str | None, as_json: bool
) -> None:
    """Measure what limits reading PATH here: the disk, opening files, or decoding; and what packing would give.

    PATH is a folder of files, or packed data. Some files are read from the disk, again from memory, and decoded; it takes some
    twenty seconds. A temporary file of 256 MiB is written beside them to measure large reads.

    \b
    ownlab data bench photos
    ownlab data bench photos --need 2000    for a model that takes 2,000 samples/s

    Exit code: 0; 1 if --need is not met.
    """
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.data.progress_terminal import show_progress
    from ownlab.instruments.data.rates.pipeline import bench_data

    target = resolve_machine_options(python=python)
    with show_progress() as on_progress:
        result = bench_data(str(path), need, None if scratch is None else str(scratch), target.python, on_progress)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(result)
    else:
        from ownlab.instruments.data.rates.terminal import show_data_bench
        from ownlab.render.console import console

        show_data_bench(result, console())
    context.exit(1 if result.options[0].meets_need is False else 0)
