"""The journal of a real runtime on a full disk, or growing; and its notebook."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.journal.records import EVENT, json_object
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import read_journal_info, read_trouble


def events(runtime: Any) -> list[dict[str, Any]]:
    return [json_object(record.parts[0]) for record in runtime.journal() if record.channel == EVENT]


def streams(records: list[Any]) -> str:
    return "".join(json_object(record.parts[3])["text"] for record in records if b'"stream"' in record.parts[0])


def test_a_full_disk_ends_no_kernel_and_is_reported(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run("print('kept')")
    supervisor = runtime.pid("supervisor")
    soft, hard = resource.prlimit(supervisor, resource.RLIMIT_FSIZE)

    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (512, hard))  # no file of its may grow any more
    assert streams(follower.run("print('held')")) == "held\n"
    assert "cannot be saved" in runtime.ask("status")["trouble"]
    assert "cannot be saved" in read_trouble(runtime.plan.journal)  # what the panel and `ownlab runtimes` look at
    assert streams(follower.run("print('held too')")) == "held too\n"
    assert streams(runtime.journal()) == "kept\n"
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (soft, hard))
    waiting(lambda: not runtime.ask("status")["trouble"], "what it says is kept again, without a word from anybody")
    assert read_trouble(runtime.plan.journal) == ""
    follower.run("print('kept again')")

    assert [record.number for record in follower.records] == list(range(3, follower.records[-1].number + 1))
    assert streams(runtime.journal()) == "kept\nheld\nheld too\nkept again\n"
    assert [event["event"] for event in events(runtime)] == ["kernel"]


@pytest.fixture
def small_disk(bench: Any) -> Iterator[Path]:
    """Journals are on a disk of 20 MiB, of which 16 are used."""
    folder: Path = bench.folder / "journals"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    try:
        (folder / "filler").write_bytes(bytes(16 << 20))
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def shown(runtime: Any) -> dict[str, list[str]]:
    """What the notebook shows: the text of each cell's outputs."""
    state = JournalState()
    for record in runtime.journal():
        state.add(record)
    assert not state.running
    return {
        cell: [output.get("text") or output["ename"] for output in each.outputs.as_json()]
        for cell, each in state.by_cell.items()
    }


# One write for each line: `print` makes two, and a kernel may send what it has between them.
WHOLE_LINES = """
import sys
for n in range(3000):
    sys.stdout.write(f"{n:05d}" + "x" * 10_000 + "\\n")
    if n % 50 == 0:
        sys.stdout.flush()
"""


def test_a_cell_that_ran_while_the_disk_was_full_says_so(
    bench: Any, small_disk: Path, waiting: Callable[..., Any]
) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run_cell("before", "print('before')")
    follower.run_cell("begins", WHOLE_LINES)
    assert "No space left" in runtime.ask("status")["trouble"]
    follower.run_cell("inside", "for n in range(300):\n    print('y' * 10_000)\n1 / 0")
    follower.run_cell("small", "print('small')")
    (small_disk / "filler").unlink()
    waiting(lambda: not runtime.ask("status")["trouble"], "it is written again")
    follower.run_cell("after", "print('after')")

    cells = shown(runtime)
    assert cells["before"] == ["before\n"]
    assert cells["begins"][0].startswith("00000x")
    assert any("The disk was full while this cell ran." in text for text in cells["begins"])
    noted = re.search(
        r"The disk was full while this cell ran\. ([\d.]+) MiB of its output are missing here\.",
        "".join(cells["inside"]),
    )
    assert noted is not None
    # What was held in memory was written later.
    assert float(noted[1]) * (1 << 20) + "".join(cells["inside"]).count("y") == pytest.approx(3_000_000, rel=0.05)
    assert cells["inside"][-1] == "ZeroDivisionError"
    assert cells["small"] == ["small\n"] or "The disk was full while this cell ran." in cells["small"][0]
    assert cells["after"] == ["after\n"]
    lines = "".join(cells["begins"]).splitlines()
    assert all(line.startswith("[ownlab: ") or line[5:] == "x" * 10_000 for line in lines if line), "no half lines"


def test_a_journal_whose_end_was_cut_off_says_so_though_nothing_more_runs(
    bench: Any, waiting: Callable[..., Any]
) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run_cell("kept", "print('kept')")
    follower.run_cell("lost", "print('lost')")
    [segment] = Path(runtime.plan.journal).glob("*.log")
    data = segment.read_bytes()
    os.truncate(segment, data.rindex(b"lost\\n"))

    def cells() -> dict[str, str]:
        state = JournalState()
        for record in runtime.journal():
            state.add(record)
        return {cell: "".join(each["text"] for each in ran.outputs.as_json()) for cell, ran in state.by_cell.items()}

    waiting(lambda: "was damaged on disk" in cells()["lost"], "the supervisor has noticed it by itself")
    assert cells()["kept"] == "kept\n"
    follower.run_cell("after", "print('after')")
    assert cells()["after"] == "after\n"


def test_a_message_too_large_for_a_record_is_forwarded_and_recorded_as_lost(bench: Any) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run("from comm import create_comm\ncreate_comm(target_name='t', buffers=[b''] * 70_000)\nprint('there')")

    (opened,) = [record for record in follower.records if b'"comm_open"' in record.parts[0]]
    assert len(opened.parts) == 70_004
    assert [event["event"] for event in events(runtime)] == ["kernel", "lost"]
    assert streams(runtime.journal()) == "there\n"


def test_a_journal_is_compacted_while_its_kernel_dies(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run(
        "from IPython.display import clear_output\npicture = {'image/png': 'x' * 1_000_000}\n"
        "for n in range(100):\n    get_ipython().display_pub.publish(picture)\n    clear_output()"
    )
    follower.execute("import os\nos._exit(1)")

    folder = Path(runtime.plan.journal)
    waiting(lambda: list(folder.glob("*.folded")), "it is compacted")
    runtime.wait("dead")
    runtime.ask("relaunch")
    assert streams(follower.run("print('alive')")) == "alive\n"
    waiting(lambda: sum(os.path.getsize(path) for path in folder.iterdir()) < 50_000_000, "it is small")


def test_a_journal_knows_its_notebook(bench: Any) -> None:
    runtime = bench.start_in_lab(notebook="/work/train.ipynb")
    runtime.wait("running")
    folder = Path(runtime.plan.journal)
    about = read_journal_info(folder)
    assert about is not None
    assert (about.runtime, about.notebook, about.lab) == (runtime.plan.runtime, "/work/train.ipynb", "lab")

    runtime.ask("rename", notebook="/work/other.ipynb")

    assert read_journal_info(folder) == about._replace(notebook="/work/other.ipynb")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_runtime_without_a_lab_has_neither_socket_nor_journal(shared_runtime: Any) -> None:
    shared_runtime.ready()
    assert "line" not in os.listdir(shared_runtime.plan.sockets)
    assert shared_runtime.ask("status")["trouble"] == ""
    assert not json.loads((shared_runtime.home / "plan.json").read_text())["journal"]
