"""A process seen from outside: stacks in py-spy's format, what the kernel counts, and why a look may be refused."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from ownlab.errors import InputError
from ownlab.instruments.why.attach.explanation import explain_stacks
from ownlab.instruments.why.attach.process_facts import Reading, between, read_process
from ownlab.instruments.why.attach.refusals import check_process, refusal
from ownlab.instruments.why.attach.stacks import Stack, find_py_spy, parse_stacks
from ownlab.instruments.why.records import Explanation
from ownlab.instruments.why.terminal import show_explanation
from ownlab.render.console import print_to_text

TORCH = "/venv/lib/python3.11/site-packages/torch"
LOOP = "thread (12): MainThread;<module> (/home/ada/train.py:40);train (/home/ada/train.py:{line})"
TRAINING = 'process 12:"python train.py";' + LOOP
WORKER = f'process 12:"python train.py";process 13:"python train.py";thread (13): MainThread;_worker_loop ({TORCH}/utils/data/_utils/worker.py:350)'
NEXT = f"_BaseDataLoaderIter.__next__ ({TORCH}/utils/data/dataloader.py:725)"
FETCH = f"_MapDatasetFetcher.fetch ({TORCH}/utils/data/_utils/fetch.py:54);Images.__getitem__ (/home/ada/train.py:8)"
BACKWARD = f"Tensor.backward ({TORCH}/_tensor.py:623);backward ({TORCH}/autograd/__init__.py:395)"


def reading(cpu: float | None, at: float = 0.0, **given: float) -> Reading:
    fields = {"queue_seconds": 0.0, "read_bytes": 0, "swapped_bytes": 0, **given}
    return Reading(at=at, cpu_seconds=cpu, **fields)  # type: ignore[arg-type]


def explained(*lines: str, worker_cpu: float = 9.0, queue: float = 0.0, ended: bool = False) -> Explanation:
    first = {12: reading(0), 13: reading(0)}
    last = {12: reading(None if ended else 2, 10, queue_seconds=queue), 13: reading(worker_cpu, 10)}
    return explain_stacks(12, parse_stacks(lines), first, last, ended=ended)


def codes(explanation: Explanation) -> list[str]:
    return [finding.code for finding in explanation.findings]


def test_lines_of_py_spy() -> None:
    (stack, *others) = parse_stacks([f"{TRAINING.format(line=12)};{NEXT} 62", "", "no number", "12", f"{WORKER} 3"])
    assert stack == Stack(12, "MainThread", stack.frames, 62)
    assert [(frame.function, frame.line) for frame in stack.frames] == [
        ("<module>", 40),
        ("train", 12),
        ("_BaseDataLoaderIter.__next__", 725),
    ]
    assert [(other.pid, other.samples) for other in others] == [(13, 3)]  # of a child, the innermost process


def test_workers_that_compute_are_too_few() -> None:
    explanation = explained(
        f"{TRAINING.format(line=12)};{NEXT} 80",
        f"{TRAINING.format(line=14)};{BACKWARD} 20",
        f"{WORKER};{FETCH} 95",
        f"{WORKER} 5",
    )
    assert codes(explanation)[0] in ("few-workers", "slow-preparing")  # by the cores of this machine
    assert (
        "In 10 s the training thread of process 12 was seen 100 times: 80 % waiting for data and 20 % backward."
        in explanation.sentence
    )
    assert "Images.__getitem__ (train.py:8)" in explanation.sentence
    assert explanation.findings[0].share == 0.8


def test_workers_that_are_blocked_read() -> None:
    explanation = explained(
        f"{TRAINING.format(line=12)};{NEXT} 80",
        f"{TRAINING.format(line=14)};{BACKWARD} 20",
        f"{WORKER};{FETCH} 95",
        worker_cpu=0.5,
    )
    assert codes(explanation) == ["slow-reading"]


def test_workers_that_wait_themselves() -> None:
    explanation = explained(
        f"{TRAINING.format(line=12)};{NEXT} 50",
        f"{TRAINING.format(line=14)};{BACKWARD} 50",
        f"{WORKER};{FETCH} 10",
        f"{WORKER} 90",
    )
    assert codes(explanation) == ["few-workers"]
    assert "although the workers wait, too" in explanation.findings[0].meaning


def test_no_workers() -> None:
    explanation = explained(
        f"{TRAINING.format(line=12)};{NEXT};{FETCH} 60", f"{TRAINING.format(line=14)};{BACKWARD} 40"
    )
    assert codes(explanation) == ["no-workers"]
    where = explanation.findings[0].where
    assert where is not None
    assert (where.file, where.line) == ("/home/ada/train.py", 8)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (f"save ({TORCH}/serialization.py:940)", "frequent-checkpoints"),
        ("Logger.info (/usr/lib/python3.11/logging/__init__.py:1489)", "slow-logging"),
        (f"DataLoader.__iter__ ({TORCH}/utils/data/dataloader.py:505)", "workers-restarted"),
        ("accuracy (/home/ada/train.py:30)", "work-between-steps"),
    ],
)
def test_what_stops_the_training(frames: str, code: str) -> None:
    explanation = explained(f"{TRAINING.format(line=16)};{frames} 30", f"{TRAINING.format(line=14)};{BACKWARD} 70")
    assert codes(explanation) == [code]
    assert explanation.findings[0].where is not None


def test_a_process_that_only_trains() -> None:
    explanation = explained(f"{TRAINING.format(line=14)};{BACKWARD} 97", f"{TRAINING.format(line=12)};{NEXT} 3")
    assert codes(explanation) == []
    assert "Nothing was found that takes 5 %" in explanation.sentence


def test_the_load_of_others_comes_last() -> None:
    explanation = explained(
        f"{TRAINING.format(line=12)};{NEXT};{FETCH} 30", f"{TRAINING.format(line=14)};{BACKWARD} 70", queue=8.0
    )
    assert codes(explanation) == ["no-workers", "busy-machine"]


def test_a_process_that_does_not_train_yet() -> None:
    explanation = explained(f"{TRAINING.format(line=1)};_find_and_load (<frozen importlib._bootstrap>:1176) 40")
    assert codes(explanation) == []
    assert explanation.observed is not None
    assert explanation.observed.shares == {"import": 1.0}
    assert any("did not train" in note for note in explanation.notes)


def test_a_process_that_ended_meanwhile() -> None:
    explanation = explained(f"{TRAINING.format(line=14)};{BACKWARD} 97", ended=True)
    assert any("has ended meanwhile" in note for note in explanation.notes)
    assert "process 12" in print_to_text(lambda out: show_explanation(explanation, out), 100)


def test_the_process_below_a_launcher_is_the_one_that_trains() -> None:
    launcher = 'process 12:"torchrun";thread (12): MainThread;wait (/usr/lib/python3.11/subprocess.py:1264)'
    rank = LOOP.replace("(12)", "(13)").format(line=14)
    explanation = explained(
        f"{launcher} 100", f'process 12:"torchrun";process 13:"python train.py";{rank};{BACKWARD} 90'
    )
    assert explanation.observed is not None
    assert explanation.observed.pid == 13


def test_no_python_that_can_be_seen() -> None:
    with pytest.raises(InputError, match="no Python that could be seen"):
        explained('process 12:"python";thread (14): Thread-1;run (/usr/lib/python3.11/threading.py:982) 10')


def test_what_the_kernel_counts_of_this_process() -> None:
    first = read_process(os.getpid())
    assert sum(number * number for number in range(300_000)) > 0
    counted = between(os.getpid(), "other", first, read_process(os.getpid()))
    assert counted.cpu_share is not None
    gone = read_process(2**22 + 1)  # above the largest number of a process (PID_MAX_LIMIT)
    assert (gone.cpu_seconds, gone.queue_seconds, gone.read_bytes, gone.swapped_bytes) == (None, None, None, None)


def fake_process(root: Path, *, uid: int, state: str = "R (running)", scope: str | None = None) -> Path:
    folder = root / "proc" / "77"
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tpython\nState:\t{state}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    if scope is not None:
        (root / "proc/sys/kernel/yama").mkdir(parents=True)
        (root / "proc/sys/kernel/yama/ptrace_scope").write_text(scope + "\n")
    return root


def test_processes_that_cannot_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="There is no process 77"):
        check_process(77, tmp_path)
    fake_process(tmp_path, uid=os.geteuid())
    check_process(77, tmp_path)
    (tmp_path / "proc/77/status").write_text("State:\tZ (zombie)\nUid:\t0\t0\t0\t0\n")
    with pytest.raises(InputError, match="has ended"):
        check_process(77, tmp_path)
    (tmp_path / "proc/77/status").write_text("State:\tS (sleeping)\nUid:\t54321\t54321\t54321\t54321\n")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(InputError, match="belongs to user 54321") as caught:
        check_process(77, tmp_path)
    assert "sudo ownlab why --pid 77" in caught.value.hint


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("1", "ptrace_scope=0"),
        ("2", "Only administrators"),
        ("3", "until the next start"),
        ("0", "--cap-add SYS_PTRACE"),
        (None, "--cap-add SYS_PTRACE"),
    ],
)
def test_why_the_system_does_not_allow_it(tmp_path: Path, scope: str | None, hint: str) -> None:
    fake_process(tmp_path, uid=0, scope=scope)
    said = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'"
    error = refusal(77, said, tmp_path)
    assert "does not allow" in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Error: Failed to find python version from target process\n\nStack backtrace:\n 0: x", "is no Python program"),
        ("Error: Failed to get process executable name. Check that the process is running.", "has ended"),
        ("Error: Something else\n\nStack backtrace:", "cannot be looked into: Something else"),
        ("", "has seen no stack"),
    ],
)
def test_what_py_spy_says_is_explained(tmp_path: Path, said: str, message: str) -> None:
    assert message in refusal(77, said, fake_process(tmp_path, uid=0)).message


def test_without_py_spy_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(InputError, match="py-spy, which is not installed") as caught:
        find_py_spy()
    assert "pip install 'ownlab[attach]'" in caught.value.hint
