"""Compaction does not change the state, even with concurrent readers or when it is killed at any point."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.journal.compaction import compact
from ownlab.lab.journal.reader import Tail, compacted_to, records_after
from ownlab.lab.journal.records import Record, encode, event
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import compacted_name, list_journal_files, segment_name
from ownlab.lab.journal.writer import JournalWriter

CELL = 1 << 20


class Notebook:
    """Makes the records of a kernel that runs cells at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.records: list[Record] = []
        self.launch = 0
        self.count = 0
        self.start()

    def event(self, what: str, **more: object) -> None:
        number = len(self.records) + 1
        self.records.append(event(number, float(number), what, **more))

    def start(self) -> None:
        self.launch += 1
        self.event("kernel", launch=self.launch)

    def record(self, channel: str, kind: str, content: dict[str, Any], parent: str = "", **more: Any) -> None:
        number = len(self.records) + 1
        to_kernel = kind in ("execute_request", "input_reply")
        session = "page" if to_kernel else f"kernel{self.launch}"
        header = {
            "msg_id": more.get("msg_id", f"m{number}"),
            "msg_type": kind,
            "session": session,
            "date": "2026-01-01",
        }
        objects = (header, {"msg_id": parent} if parent else {}, more.get("metadata", {}), content)
        parts = (*(json.dumps(part).encode() for part in objects), *more.get("buffers", ()))
        self.records.append(Record(number, channel, to_kernel, float(number), parts))

    def run(self) -> None:
        """One cell, from its request to its end; sometimes the kernel dies in it."""
        chance, request = self.chance, f"request{len(self.records)}"
        metadata = {"cellId": f"cell{chance.randrange(6)}", "recordTiming": chance.random() < 0.5}
        self.record("shell", "execute_request", {"code": "x"}, msg_id=request, metadata=metadata)
        self.record("iopub", "status", {"execution_state": "busy"}, request)
        self.count += 1
        self.record("iopub", "execute_input", {"code": "x", "execution_count": self.count}, request)
        for _ in range(chance.randrange(30)):
            self.print_or_display(request)
        if chance.random() < 0.1:
            self.event("kernel-ended", why="killed")
            self.start()
            return
        self.record("shell", "execute_reply", {"status": "ok", "execution_count": self.count}, request)
        self.record("iopub", "status", {"execution_state": "idle"}, request)

    def print_or_display(self, request: str) -> None:
        chance = self.chance
        kind = chance.choice(
            ["stream", "stream", "stream", "display_data", "update_display_data", "clear_output", "comm"]
        )
        if kind == "stream":
            text = "".join(chance.choice(["ab", "\n", "\r", "\b", "é😀"]) for _ in range(chance.randrange(1, 9)))
            self.record("iopub", kind, {"name": chance.choice(["stdout", "stderr"]), "text": text}, request)
        elif kind == "clear_output":
            self.record("iopub", kind, {"wait": chance.random() < 0.5}, request)
        elif kind == "comm":
            comm = {"comm_id": f"c{chance.randrange(4)}", "target_name": "jupyter.widget"}
            state = {"_model_name": "IntProgressModel", "value": chance.random()}
            data = {"state": state, "method": "update", "buffer_paths": [["raw"]]}
            buffers = (chance.randbytes(9),)
            self.record(
                "iopub", chance.choice(["comm_open", "comm_msg"]), {**comm, "data": data}, request, buffers=buffers
            )
        else:
            shown = {"data": {"image/png": "A" * chance.randrange(2000)}, "metadata": {}}
            named = {"transient": {"display_id": f"d{chance.randrange(3)}"}}
            self.record("iopub", kind, {**shown, **named}, request)


def a_notebook(seed: int, cells: int = 40) -> list[Record]:
    notebook = Notebook(seed)
    for _ in range(cells):
        notebook.run()
    return notebook.records


def folded(records: Iterable[Record]) -> JournalState:
    fold = JournalState(CELL)
    for record in records:
        fold.add(record)
    return fold


def answers(fold: JournalState) -> Any:
    """Everything that can be asked of it."""
    executions = [(execution.dump(), execution.outputs.as_json()) for execution in fold.executions.values()]
    cells = {cell: execution.msg_id for cell, execution in fold.by_cell.items()}
    return fold.position, fold.dump(), executions, cells, fold.comms.states(), fold.comms.info()


def write(folder: Path, records: list[Record], segment_bytes: int = 5_000) -> None:
    writer = JournalWriter(str(folder), segment_bytes=segment_bytes)
    for record in records:
        writer.write([record])
    writer.close()
    assert not writer.trouble


def in_a_child(work: Callable[[], object]) -> int:
    """Its exit status; negative: the signal that killed it."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_for_compaction(folder: Path, beyond: int) -> None:
    deadline = time.monotonic() + 180
    while compacted_to(folder) <= beyond:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(4))
def test_compaction_does_not_change_the_state(tmp_path: Path, seed: int) -> None:
    records = a_notebook(seed)
    third = len(records) // 3
    for part in (records[:third], records[third : 2 * third], records[2 * third :]):
        write(tmp_path, part)
        before = list_journal_files(tmp_path)
        expected = answers(folded(records_after(tmp_path, 0)))
        compact(tmp_path, CELL)
        after = list_journal_files(tmp_path)
        assert after.logs == before.logs[-1:]
        assert after.folded == before.logs[-1] - 1
        assert answers(folded(records_after(tmp_path, 0))) == expected
    assert expected == answers(folded(records))
    assert sorted(os.listdir(tmp_path)) == [compacted_name(after.folded), segment_name(after.logs[0])]
    assert os.stat(tmp_path / compacted_name(after.folded)).st_mode & 0o777 == 0o600


def test_the_journal_becomes_small(tmp_path: Path) -> None:
    notebook = Notebook(0)
    notebook.record("shell", "execute_request", {"code": ""}, msg_id="r", metadata={"cellId": "c"})
    for step in range(5_000):
        notebook.record("iopub", "stream", {"name": "stderr", "text": f"\r{step:5d} of 5000"}, "r")
    write(tmp_path, notebook.records, 100_000)
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    compact(tmp_path, CELL)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < before / 5


def test_a_journal_with_nothing_to_compact_is_not_changed(tmp_path: Path) -> None:
    compact(tmp_path, CELL)
    assert os.listdir(tmp_path) == []
    write(tmp_path, a_notebook(1, cells=3), 1 << 20)
    for _ in range(2):
        compact(tmp_path, CELL)
        assert os.listdir(tmp_path) == [segment_name(1)]


def test_compacting_twice_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, a_notebook(1))
    compact(tmp_path, CELL)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    compact(tmp_path, CELL)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_loss_before_the_newest_segment_is_reported_once(tmp_path: Path) -> None:
    records = a_notebook(2)
    write(tmp_path, records[:100])
    for rest, missing in [([event(120, 0.0, "lost", count=20, why="full"), *records[120:]], 0), (records[120:], 20)]:
        for path in tmp_path.glob("*120.log"):
            path.unlink()
        (tmp_path / segment_name(rest[0].number)).write_bytes(b"".join(encode(rest)))
        expected = answers(folded(records_after(tmp_path, 0)))
        compact(tmp_path, CELL)
        assert compacted_to(tmp_path) == 100 + missing
        assert answers(folded(records_after(tmp_path, 0))) == expected


def test_the_command_that_the_supervisor_starts(tmp_path: Path) -> None:
    records = a_notebook(3)
    write(tmp_path, records)
    argv = [sys.executable, "-m", "ownlab.lab.journal.compaction", str(tmp_path), "256"]
    subprocess.run(argv, check=True)
    assert compacted_to(tmp_path) > 0
    assert answers(folded(records_after(tmp_path, 0))) == answers(folded(records))
    ran = subprocess.run([*argv[:3], str(tmp_path / "none"), "256"], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "cannot be compacted: No such file" in ran.stderr


def test_it_may_be_killed_at_any_byte_of_its_file(tmp_path: Path) -> None:
    records = a_notebook(4)
    write(tmp_path, records)
    expected, logs = answers(folded(records)), list_journal_files(tmp_path).logs

    def work(size: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        compact(tmp_path, CELL)

    for size in (0, 1, 5_000, 20_000):
        assert in_a_child(partial(work, size)) == -signal.SIGXFSZ
        assert list(tmp_path.glob("*.tmp"))
        assert list_journal_files(tmp_path) == (0, logs)
        assert answers(folded(records_after(tmp_path, 0))) == expected
    compact(tmp_path, CELL)
    assert list(tmp_path.glob("*.tmp")) == []
    assert answers(folded(records_after(tmp_path, 0))) == expected


def test_it_may_be_killed_at_any_step(tmp_path: Path) -> None:
    records = a_notebook(5)
    half = len(records) // 2
    write(tmp_path, records[:half])
    compact(tmp_path, CELL)
    write(tmp_path, records[half:])
    expected = answers(folded(records))

    def work(step: int) -> None:
        left = [step]

        def hook(what: str, _: object) -> None:
            if what in ("os.rename", "os.remove", "open"):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        compact(tmp_path, CELL)

    # Each attempt continues where the last one stopped, and gets one step further.
    for step in range(1, 200):
        ended = in_a_child(partial(work, step))
        assert answers(folded(records_after(tmp_path, 0))) == expected
        if not ended:
            break
        assert ended == -signal.SIGKILL
    else:
        pytest.fail("it never came to its end")
    assert step > 5
    files = list_journal_files(tmp_path)
    assert set(os.listdir(tmp_path)) == {compacted_name(files.folded), *map(segment_name, files.logs)}


def test_a_full_disk_leaves_the_journal_unchanged(tmp_path: Path) -> None:
    records = a_notebook(6)
    write(tmp_path, records)
    before = sorted(os.listdir(tmp_path))

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        with pytest.raises(OSError, match="File too large"):
            compact(tmp_path, CELL)

    assert in_a_child(work) == 0
    assert sorted(os.listdir(tmp_path)) == before
    assert answers(folded(records_after(tmp_path, 0))) == answers(folded(records))


def test_two_compactions_do_not_collide(tmp_path: Path) -> None:
    records = a_notebook(7, cells=80)
    write(tmp_path, records)
    argv = [sys.executable, "-m", "ownlab.lab.journal.compaction", str(tmp_path), "256"]
    both = [subprocess.Popen(argv) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    assert answers(folded(records_after(tmp_path, 0))) == answers(folded(records))


def test_readers_and_the_writer_continue_meanwhile(tmp_path: Path) -> None:
    records = a_notebook(8, cells=150)
    gone = tmp_path / "gone"

    def compacting() -> None:
        while not gone.exists():
            compact(tmp_path / "journal", CELL)

    (tmp_path / "journal").mkdir()
    pid = os.fork()
    if not pid:
        try:
            compacting()
        finally:
            os._exit(0 if gone.exists() else 1)
    writer = JournalWriter(str(tmp_path / "journal"), segment_bytes=10_000)
    slow, fold, position, resets = Tail(tmp_path / "journal"), JournalState(CELL), 0, 0
    try:
        for number, record in enumerate(records, 1):
            writer.write([record])
            if number % 7 == 0:
                # A page that missed a few: as long as they were not compacted, it gets each of them.
                seen = [each.number for each in records_after(tmp_path / "journal", position)]
                if compacted_to(tmp_path / "journal") <= position:
                    assert seen == list(range(position + 1, number + 1))
                position = number
            if number % 501 == 300:
                wait_for_compaction(tmp_path / "journal", fold.position)
            if number % 501 == 0 or number == len(records):
                read = slow.read()
                if slow.reset:
                    fold, resets = JournalState(CELL), resets + 1
                for each in read:
                    fold.add(each)
                assert fold.position == number
    finally:
        gone.touch()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        slow.close()
        writer.close()
    assert answers(fold) == answers(folded(records))
    assert answers(folded(records_after(tmp_path / "journal", 0))) == answers(folded(records))
    assert compacted_to(tmp_path / "journal") > len(records) // 2
    assert resets >= len(records) // 501
