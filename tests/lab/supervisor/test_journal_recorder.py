"""The journal of a real runtime on a full disk, or growing; and its notebook."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ownlab.lab.journal.records import EVENT, json_object
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
    assert streams(follower.run("print('lost')")) == "lost\n"
    assert "cannot be saved" in runtime.ask("status")["trouble"]
    assert "cannot be saved" in read_trouble(runtime.plan.journal)  # what the panel and `ownlab runtimes` look at
    assert streams(follower.run("print('lost too')")) == "lost too\n"
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (soft, hard))
    waiting(lambda: not runtime.ask("status")["trouble"], "what it says is kept again, without a word from anybody")
    assert read_trouble(runtime.plan.journal) == ""
    follower.run("print('kept again')")

    assert [record.number for record in follower.records] == list(range(3, follower.records[-1].number + 1))
    assert streams(runtime.journal()) == "kept\nkept again\n"
    (lost,) = [event for event in events(runtime) if event["event"] == "lost"]
    heard = {record.number for record in follower.records} | {1, 2}
    kept = {record.number for record in runtime.journal() if record.channel != EVENT} | {1, 2}
    assert lost["count"] == len(heard - kept)
    assert max(heard - kept) in {record.number for record in runtime.journal()}  # the event has its number


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


def test_a_runtime_without_a_lab_has_neither_socket_nor_journal(standing: Any) -> None:
    standing.ready()
    assert "line" not in os.listdir(standing.plan.sockets)
    assert standing.ask("status")["trouble"] == ""
    assert not json.loads((standing.home / "plan.json").read_text())["journal"]
