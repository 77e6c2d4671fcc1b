"""Names of processes: enough to recognize them, nothing that could be secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.nvidia.processes import name_processes, short_command
from ownlab.machine.records import Card, CardProcess


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["python", "train.py", "--token", "hf_x"], "python train.py"),
        (["python", "train.py", "hf_secret"], "python train.py"),
        (["/usr/bin/python3.11", "-u", "-B", "train.py"], "/usr/bin/python3.11 train.py"),
        (["python3", "-m", "torch.distributed.run", "--nproc", "8"], "python3 -m torch.distributed.run"),
        (["python3", "-u", "-m", "vllm"], "python3 -m vllm"),
        (["python3", "-c", "import os; KEY = 'x'"], "python3"),
        (["server", "--api-key=x", "y"], "server"),
        (["env", "TOKEN=abc"], "env"),
        (["server", "postgres://user:secret@db"], "server"),
        (["vllm", "serve", "model"], "vllm"),
        (["python", "https://user:tok@host/x.py"], "python"),
        (["python", "TOKEN=abc"], "python"),
        (["python", "-m", "TOKEN=abc"], "python"),
        (["python", "-m"], "python"),
        (["bash", "-c", "curl -H secret"], "bash"),
        (["bash", "run.sh", "secret"], "bash run.sh"),
        (["/usr/bin/node", "server.js", "secret"], "/usr/bin/node server.js"),
        (["node", "user@host"], "node"),
        (["java", "-jar", "x.jar"], "java"),
        (["/opt/python@3.11/bin/python3.11", "train.py"], "/opt/python@3.11/bin/python3.11 train.py"),
        (["ray::train(key=1) --x y"], "ray::train"),
        (["postgres://user:secret@db"], "postgres"),
        (["TOKEN=abc"], "TOKEN"),
        (["/opt/google/chrome/chrome --type=gpu-process"], "/opt/google/chrome/chrome"),
        ([r"C:\Program Files\Mozilla Firefox\firefox.exe"], r"C:\Program Files\Mozilla Firefox\firefox.exe"),
        (["a" * 200], "a" * 119 + "…"),
        ([""], ""),
        ([], ""),
    ],
)
def test_short_command(words: list[str], shown: str) -> None:
    assert short_command(words) == shown


def card_with(*processes: CardProcess) -> Card:
    return Card(vendor="nvidia", index=0, processes=Known(processes, source="NVML"))


def only_process(card: Card) -> CardProcess:
    (process,) = value_of(card.processes) or ()
    return process


def test_a_local_process_with_the_same_pid_is_not_the_one_on_the_card(tmp_path: Path) -> None:
    (tmp_path / "proc/12/fd").mkdir(parents=True)
    (tmp_path / "proc/12/fd/0").symlink_to("/dev/null")
    (tmp_path / "proc/12/cmdline").write_bytes(b"bash\0")
    process = only_process(name_processes(card_with(CardProcess(pid=12, kind="compute")), tmp_path))
    assert isinstance(process.command, Unknown)
    assert "outside this PID namespace" in process.command.reason
    assert process.user == process.command


def test_the_pid_counts_if_open_files_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "proc/12").mkdir(parents=True)
    (tmp_path / "proc/12/cmdline").write_bytes(b"bash\0run.sh\0--model\0")
    process = only_process(name_processes(card_with(CardProcess(pid=12, kind="compute")), tmp_path))
    assert process.command == Known("bash run.sh", source="/proc/12/cmdline")


def test_the_name_from_nvidia_smi_is_kept_if_proc_has_none(tmp_path: Path) -> None:
    given = CardProcess(pid=12, kind="compute", command=Known("python", source="nvidia-smi -q -x"))
    assert only_process(name_processes(card_with(given), tmp_path)).command == given.command
    (tmp_path / "proc/12").mkdir(parents=True)
    (tmp_path / "proc/12/cmdline").write_bytes(b"")
    assert only_process(name_processes(card_with(given), tmp_path)).command == given.command


def test_a_card_with_unknown_processes_is_unchanged(tmp_path: Path) -> None:
    card = Card(vendor="nvidia", index=0)
    assert name_processes(card, tmp_path).processes == NOT_READ
