"""What is different where a notebook is run in the page: what a person does there, and what its cells say then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests_colab.cases.case import JAVASCRIPT, Text, like

__all__ = ["IN_PAGE", "Deed", "InPage", "files", "press", "write"]


class Deed(NamedTuple):
    """What somebody does in a cell that waits: files that are chosen, a button that is pressed, a line that is typed."""

    cell: str
    files: tuple[str, ...] = ()
    button: str = ""
    line: str = ""


class InPage(NamedTuple):
    """How a notebook goes in the page; what is not said here is as without one."""

    deeds: tuple[Deed, ...] = ()  # in this order
    uploads: Mapping[str, bytes] = {}  # beside those of the run without a page
    says: Mapping[str, Text] = {}
    shows: Mapping[str, str] = {}
    downloads: Mapping[str, str] = {}
    end: str = ""  # "gone": it ends its runtime


def files(cell: str, *names: str) -> Deed:
    return Deed(cell, files=names)


def press(cell: str, button: str) -> Deed:
    return Deed(cell, button=button)


def write(cell: str, line: str) -> Deed:
    return Deed(cell, line=line)


IN_PAGE: dict[str, InPage] = {
    "huggingface_token": InPage(deeds=(press("token", "Grant access"), press("others", "Refuse"))),
    "secret_not_granted": InPage(deeds=(press("key", "Grant access"),), says={"key": "", "after": "logged in\n"}),
    "colabfold": InPage(deeds=(files("job", "mine.pdb"),)),
    "upload_download": InPage(
        deeds=(
            files("upload", "labels.txt", "train.csv"),
            files("again", "labels.txt", "train.csv"),
            files("target", "labels.txt", "train.csv"),
            files("one", "labels.txt"),
            files("other", "train.csv"),
        ),
        says={"other": "Saving train.csv to missing.bin\n", "view": ""},
        downloads={"results.zip": r"data/raw/train\.csv.*train\.csv", "labels.txt": "^cat\ndog$", "logs.zip": "events"},
    ),
    "upload_alone": InPage(
        deeds=(files("upload", "utils.py"),),
        uploads={"utils.py": b"x = 1\n"},
        says={"upload": "Saving utils.py to utils.py\n6\n"},
    ),
    "gpu_check": InPage(says={"visible": "('', '0')\n"}),  # a card is proposed, and nobody took it
    "eval_js": InPage(
        says={
            "photo": JAVASCRIPT + "<IPython.core.display.Image object>\n",
            "proxy": like(r"(http://127\.0\.0\.1:\d+)/proxy/5000/\n\1/proxy/8080/\n"),
            "ignored": "None\nbeneath\n\nsomewhere\n\n",  # displays, which stand elsewhere where there is such a place
            "title": like("'.*JupyterLab'\n"),
        }
    ),
    "shell_cell": InPage(
        deeds=(write("asks", "y"), write("python_asks", "Ada")),
        says={"asks": "Continue? [y/N]  y\nanswer=<y>\n", "python_asks": " Ada\nname: "},
    ),
    "input_headless": InPage(
        deeds=(
            write("ask", "Ada"),
            write("password", "secret words"),
            write("unattended", "3"),
            write("child", "typed"),
            write("rm", "y"),
        ),
        says={
            "ask": "Your name:  Ada\n",
            "password": "Password:  ········\n",
            "unattended": "How many epochs?  3\n",
            "child": " typed\n> 'typed'\n",
            "rm": like(r"rm: [^\n]*old\.txt[^\n]*\? +y\nls: [^\n]*old\.txt[^\n]*\n"),
        },
    ),
    "google_services": InPage(
        deeds=(write("auth", "wrong"),),
        says={
            "auth": like(r"Go to [^\n]*\n +https://[^\n]*\n.*Enter the authorization code:  wrong\n.*not signed in\n")
        },
    ),
    # Its tag says that programs skip it; a person who runs all cells runs it.
    "old_metadata": InPage(says={"skipped": "RuntimeError: not to be run\n"}),
    # ipykernel goes through the cells that it has already been sent, before it ends.
    "exit_call": InPage(says={"after": like("(never reached\n)?")}),
    "unassign": InPage(end="gone"),
}
