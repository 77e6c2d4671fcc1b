"""Runs in the page: the actions of a person, and the outputs that differ from a run without a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests_colab.cases.case import JAVASCRIPT, Text, like

__all__ = ["IN_PAGE", "Action", "InPage", "files", "press", "write"]


class Action(NamedTuple):
    """An action in a waiting cell: choose files, press a button, or type a line."""

    cell: str
    files: tuple[str, ...] = ()
    button: str = ""
    line: str = ""


class InPage(NamedTuple):
    """The differences of a run in the page from one without."""

    actions: tuple[Action, ...] = ()  # in this order
    uploads: Mapping[str, bytes] = {}  # in addition to those of the run without a page
    texts: Mapping[str, Text] = {}
    displays: Mapping[str, str] = {}
    downloads: Mapping[str, str] = {}
    end: str = ""  # "gone": it ends its runtime


def files(cell: str, *names: str) -> Action:
    return Action(cell, files=names)


def press(cell: str, button: str) -> Action:
    return Action(cell, button=button)


def write(cell: str, line: str) -> Action:
    return Action(cell, line=line)


IN_PAGE: dict[str, InPage] = {
    "huggingface_token": InPage(actions=(press("token", "Grant access"), press("others", "Refuse"))),
    "secret_not_granted": InPage(actions=(press("key", "Grant access"),), texts={"key": "", "after": "logged in\n"}),
    "colabfold": InPage(actions=(files("job", "mine.pdb"),)),
    "upload_download": InPage(
        actions=(
            files("upload", "labels.txt", "train.csv"),
            files("again", "labels.txt", "train.csv"),
            files("target", "labels.txt", "train.csv"),
            files("one", "labels.txt"),
            files("other", "train.csv"),
        ),
        texts={"other": "Saving train.csv to missing.bin\n", "view": ""},
        downloads={"results.zip": r"data/raw/train\.csv.*train\.csv", "labels.txt": "^cat\ndog$", "logs.zip": "events"},
    ),
    "upload_alone": InPage(
        actions=(files("upload", "utils.py"),),
        uploads={"utils.py": b"x = 1\n"},
        texts={"upload": "Saving utils.py to utils.py\n6\n"},
    ),
    "gpu_check": InPage(texts={"visible": "('', '0')\n"}),  # a card is proposed, but not accepted
    "eval_js": InPage(
        texts={
            "photo": JAVASCRIPT + "<IPython.core.display.Image object>\n",
            "proxy": like(r"(http://127\.0\.0\.1:\d+)/proxy/5000/\n\1/proxy/8080/\n"),
            "ignored": "None\nbeneath\n\nsomewhere\n\n",  # displays, which are elsewhere if such an area exists
            "title": like("'.*ownlab'\n"),
        }
    ),
    "restart_idiom": InPage(texts={"after": "NotRun: not run: the kernel died\n"}),  # queued, or not sent yet
    "shell_cell": InPage(
        actions=(write("asks", "y"), write("python_asks", "Ada")),
        texts={"asks": "Continue? [y/N]  y\nanswer=<y>\n", "python_asks": " Ada\nname: "},
    ),
    "input_headless": InPage(
        actions=(
            write("ask", "Ada"),
            write("password", "secret words"),
            write("unattended", "3"),
            write("child", "typed"),
            write("rm", "y"),
        ),
        texts={
            "ask": "Your name:  Ada\n",
            "password": "Password:  ········\n",
            "unattended": "How many epochs?  3\n",
            "child": " typed\n> 'typed'\n",
            "rm": like(r"rm: [^\n]*old\.txt[^\n]*\? +y\nls: [^\n]*old\.txt[^\n]*\n"),
        },
    ),
    "google_services": InPage(
        actions=(write("auth", "wrong"),),
        texts={
            "auth": like(r"Go to [^\n]*\n +https://[^\n]*\n.*Enter the authorization code:  wrong\n.*not signed in\n")
        },
    ),
    # Its tag makes programs skip it; a person who runs all cells runs it.
    "old_metadata": InPage(texts={"skipped": "RuntimeError: not to be run\n"}),
    # ipykernel runs the cells that it has already received before it ends.
    "exit_call": InPage(texts={"after": like("(never reached\n)?")}),
    "unassign": InPage(end="gone"),
}
