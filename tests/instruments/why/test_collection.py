"""What the guest has written is read as far as it can be, and keeps no secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.instruments.why.invented import fetch, process

from ownlab.instruments.why.collection import collect, without_arguments
from ownlab.json_encoding import encode_json


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("python train.py --token hf_secret", ("python", "train.py")),
        ("python -u -m package.train --token hf_secret", ("python", "package.train")),
        ("torchrun --nproc-per-node=2 train.py --key secret", ("torchrun", "train.py")),
        ("./train.sh secret", ("./train.sh",)),
        ("sh -c export^KEY=secret", ("sh",)),
    ],
)
def test_arguments_of_the_script_are_not_kept(command: str, kept: tuple[str, ...]) -> None:
    assert without_arguments(command.split(" ")) == kept


def test_damaged_evidence_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "process-1.json").write_bytes(encode_json(process(forward_ms=5)))
    (tmp_path / "process-2.json").write_text('{"format": 1, "pid": ')
    (tmp_path / "process-3.json.part").write_text("{")
    evidence = collect(tmp_path, ["python", "train.py"], 0)
    assert [each.pid for each in evidence.processes] == [100]
    (problem,) = evidence.problems
    assert "cannot be read" in problem


def test_a_worker_that_was_killed_while_it_wrote(tmp_path: Path) -> None:
    lines = [
        json.dumps({"worker": 1, "pid": 7, "threads": 1}),
        json.dumps({"fetch": json.loads(encode_json(fetch(0, cpu=2)))}),
    ]
    (tmp_path / "worker-7.jsonl").write_text("\n".join(lines) + '\n{"fetch":[1,2')
    (tmp_path / "worker-8.jsonl").write_text("")
    (worker,) = collect(tmp_path, ["python"], 0).workers
    assert (worker.pid, len(worker.fetches)) == (7, 1)
