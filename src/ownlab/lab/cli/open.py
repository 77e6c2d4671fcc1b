"""`ownlab open`: open a notebook from an address or a file in the lab."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from urllib.parse import quote

import click
import msgspec

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.lab.remote_notebooks.importer import ImportedNotebook, import_notebook, is_visible_in
from ownlab.lab.service.browser import JOIN_SECONDS, can_open, open_browser
from ownlab.lab.service.labs import is_up, labs
from ownlab.lab.service.records import LabState, OpenedNotebook
from ownlab.lab.service.up import check_folder
from ownlab.lab.terminal.labs import show_opened
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]

# Python searches the working folder first: a json.py that came with a stranger's notebook would be imported.
_OWNLAB = "import sys; sys.path[:] = filter(None, sys.path); from ownlab.cli.main import main; main()"


@click.command("open")
@click.argument("source", metavar="ADDRESS|FILE")
@click.option(
    "--folder", default=".", metavar="FOLDER", help="The folder to save it in and to serve.  [default: this one]"
)
@click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
@json_option
def command(source: str, folder: str, no_browser: bool, as_json: bool) -> None:
    """Open a notebook in the lab: from Colab, GitHub, a gist, Hugging Face, nbviewer, any other address, or a file.

    It is saved in FOLDER without overwriting anything. A file that is already in the lab's folder is opened in place. The
    lab is that of FOLDER; if it is not running, it is started in the background.

    \b
    ownlab open https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main/NAME.ipynb
    ownlab open https://huggingface.co/OWNER/NAME/blob/main/NAME.ipynb
    ownlab open ~/Downloads/NAME.ipynb
    """
    options = resolve_lab_options(browser=False if no_browser else None)
    into = check_folder(folder)
    root = _lab_around(into)
    with working(text("Downloading the notebook")):
        imported = import_notebook(source, into, root)
    if imported.copied:
        click.echo(text("Saved as {path}.", path=imported.path), err=True)
    lab = _start_lab(root, as_json)
    page = f"{lab.url}lab/tree/{quote(os.path.relpath(imported.path, root))}"
    opened = _opened(imported, msgspec.structs.replace(lab, address=f"{page}?token={lab.token}"))
    if as_json:
        echo_record(opened)
        return
    show_opened(opened, os.environ, console())
    click.echo("\n" + text("Stop it: ownlab down {folder}", folder=shlex.quote(root)))
    sys.stdout.flush()
    if options.browser and can_open():
        open_browser(opened.lab.address).join(JOIN_SECONDS)


def _opened(imported: ImportedNotebook, lab: LabState) -> OpenedNotebook:
    return OpenedNotebook(imported.path, imported.source, imported.copied, imported.colab, lab)


def _lab_around(folder: str) -> str:
    """Return the folder of the nearest running lab that shows this folder; otherwise the folder itself."""
    above = [
        lab.folder for lab in labs() if _is_in(folder, lab.folder) and is_up(lab) and is_visible_in(folder, lab.folder)
    ]
    return max(above, key=len, default=folder)


def _is_in(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(os.path.join(root, ""))


def _start_lab(folder: str, as_json: bool) -> LabState:
    """Run `ownlab up --detach`, which joins a running lab. If it fails, print its message and exit with its code."""
    command_line = [sys.executable, "-c", _OWNLAB, "up", folder, "--detach", "--json", "--no-browser"]
    with working(text("Starting the lab")):
        ran = subprocess.run(command_line, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode != 0:
        click.echo(ran.stderr, err=True, nl=False)
        if as_json:
            click.echo(ran.stdout, nl=False)
        sys.exit(ran.returncode)
    return msgspec.json.decode(ran.stdout, type=LabState)
