"""`python -m ownlab.instruments.doctor.cluster.node_report FOLDER NAME`, in a job on a node: looks around, and writes NAME.report.json.

It listens on a free port, tries to connect to those of the other nodes, and stays until the doctor has removed the folder, or some
seconds have passed: nodes whose job starts later are not waited for.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pwd
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ownlab import __version__
from ownlab.atomic_files import replace_file
from ownlab.instruments.doctor.cluster.connections import OPEN, connection_to
from ownlab.machine.facts import Unknown
from ownlab.machine.host.kernel import read_pci

__all__ = ["LISTENING", "REPORT", "known_users", "users_that_differ"]

LISTENING = "listening.json"
REPORT = "report.json"
_VENDORS = ("10de", "1002")  # NVIDIA, AMD: whose cards Slurm counts as GPUs. 1002 has display chips in processors, too
_FIRST_PERSON, _LAST_PERSON = 1000, 59_999  # numbers of people; below and above are those of the system
_MOST_USERS = 2_000
_WAITS = 15.0  # seconds, for the other nodes
_BETWEEN_LOOKS = 0.2


def known_users() -> dict[str, int]:
    """The people of this machine, and the one who asks. Of a directory with many thousands only some."""
    users = {each.pw_name: each.pw_uid for each in pwd.getpwall() if _FIRST_PERSON <= each.pw_uid <= _LAST_PERSON}
    some = dict(sorted(users.items())[:_MOST_USERS])
    asking = pwd.getpwuid(os.geteuid())
    return {**some, asking.pw_name: asking.pw_uid}


def users_that_differ(theirs: dict[str, int]) -> list[tuple[str, int | None, int | None]]:
    """Names whose number there is another one here, and those that are not known here."""
    different: list[tuple[str, int | None, int | None]] = []
    for name, number in sorted(theirs.items()):
        try:
            here: int | None = pwd.getpwnam(name).pw_uid
        except KeyError:
            here = None
        if here != number:
            different.append((name, number, here))
    return different


def main(folder: Path, name: str) -> None:
    """Write the report."""
    question = json.loads((folder / "question.json").read_text())
    listener = _listen(folder, name)
    pci = read_pci(Path("/"))
    cards = [] if isinstance(pci, Unknown) else [each for each in pci.value if each.vendor in _VENDORS]
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "ownlab": __version__,
        "cards": len([each for each in cards if each.vendor == _VENDORS[0] or each.kind == "accelerator"]),
        "no_cards": pci.reason if isinstance(pci, Unknown) else "",
        "current_folder": _compare_folder(question["current"]),
        "users": users_that_differ(question["users"]),
        "unreachable": _unreachable(folder, [each for each in question["nodes"] if each != name]),
    }
    replace_file(folder / f"{name}.{REPORT}", json.dumps(report))
    _stay(folder)
    listener.close()


def _listen(folder: Path, name: str) -> socket.socket:
    listener = socket.socket()
    listener.bind(("", 0))
    listener.listen()
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    place = {"address": _own_address(name), "port": listener.getsockname()[1]}
    replace_file(folder / f"{name}.{LISTENING}", json.dumps(place))
    return listener


def _accept(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it was closed
        while True:
            listener.accept()[0].close()


def _own_address(name: str) -> str:
    """The address by which Slurm knows this node: labs connect to it."""
    shown = subprocess.run(["scontrol", "-o", "show", "node", name], capture_output=True, text=True, check=False).stdout
    given = next((word.partition("=")[2] for word in shown.split() if word.startswith("NodeAddr=")), "")
    return given or socket.gethostname()


def _unreachable(folder: Path, others: list[str]) -> list[str]:
    """The nodes to whose ports no connection succeeds, of those whose jobs run at the same time."""
    left, failed = list(others), []
    deadline = time.monotonic() + _WAITS
    while left and time.monotonic() < deadline:
        for name in list(left):
            path = folder / f"{name}.{LISTENING}"
            if path.exists():
                left.remove(name)
                place = json.loads(path.read_text())
                if connection_to(place["address"], place["port"]) != OPEN:
                    failed.append(name)
        time.sleep(_BETWEEN_LOOKS)
    return sorted(failed)


def _compare_folder(given: list[Any]) -> str:
    if not given:
        return ""
    try:
        number = os.stat(given[0]).st_ino
    except OSError:
        return "missing"
    return "same" if number == given[1] else "other"


def _stay(folder: Path) -> None:
    """Listen until the folder is removed, or for some seconds."""
    deadline = time.monotonic() + _WAITS
    while time.monotonic() < deadline and folder.exists():
        time.sleep(_BETWEEN_LOOKS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
