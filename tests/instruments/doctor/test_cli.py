"""`ownlab doctor` as a command: verdicts, exit codes, rule pages and unusable input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Ownlab = Callable[..., "CompletedProcess[str]"]

TOO_OLD = (
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
)


@pytest.fixture
def diagnose(ownlab: Ownlab, machines: Path) -> Ownlab:
    """Diagnose a recorded machine."""
    return lambda name, *arguments: ownlab("doctor", "--machine", str(machines / f"{name}.json"), *arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("h200", (), 0),
        ("h200", ("--require-gpu",), 0),
        ("cpu", (), 0),
        ("cpu", ("--require-gpu",), 1),
        ("rtx5090d", (), 1),
        ("v100-driver418", (), 1),
        ("wsl2-rtx4090", (), 0),
    ],
)
def test_exit_codes_of_recorded_machines(diagnose: Ownlab, name: str, arguments: tuple[str, ...], code: int) -> None:
    assert diagnose(name, *arguments).returncode == code


def test_the_json_document_has_the_documented_keys(diagnose: Ownlab) -> None:
    document = json.loads(diagnose("v100-driver418", "--json").stdout)
    assert set(document["verdict"]) == {"gpu_work", "sentence"}
    assert {"code", "severity", "title", "evidence", "meaning", "fix"} <= set(document["findings"][0])
    assert document["machine"]["nvidia"]["driver"]["value"] == "418.67"


def test_this_machine_is_diagnosed_without_root_and_without_frameworks(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--json", "--python", sys.executable, env={"OWNLAB_MACHINE": ""})
    assert ran.returncode in (0, 1)
    assert ran.stderr == ""
    assert json.loads(ran.stdout)["machine"]["origin"] == "live"


def test_a_blocking_finding_without_a_known_card_is_exit_code_1(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--from", "-", stdin="NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.")
    assert ran.returncode == 1


def test_a_missing_python_has_its_own_exit_code(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--json", "--python", "/no/such/python")
    assert ran.returncode == 4
    document = json.loads(ran.stdout)
    assert "interpreter-broken" in {finding["code"] for finding in document["findings"]}
    assert document["machine"]["host"]["cpu"]["logical_cores"]["state"] == "known"


def test_a_pasted_error_is_explained(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--from", "-", stdin=TOO_OLD)
    assert "[driver-old]" in ran.stdout
    assert "newest CUDA version that this driver supports is 11.4" in ran.stdout
    assert "also paste" in ran.stdout


def test_a_file_is_read_like_standard_input(ownlab: Ownlab, tmp_path: Path) -> None:
    (tmp_path / "error.txt").write_text(TOO_OLD)
    assert (
        ownlab("doctor", "--from", str(tmp_path / "error.txt")).stdout
        == ownlab("doctor", "--from", "-", stdin=TOO_OLD).stdout
    )


def test_a_saved_machine_can_be_pasted(ownlab: Ownlab, machines: Path) -> None:
    ran = ownlab("doctor", "--from", str(machines / "h200.json"))
    assert ran.stdout.startswith("GPU work will run: 1 × NVIDIA H200")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "is empty"),
        (b"The weather is fine today.", "contains no report"),
        (bytes(range(256)) * 16, "is not text"),
    ],
)
def test_unusable_input_is_reported_in_one_line(ownlab: Ownlab, data: bytes, error: str) -> None:
    ran = ownlab("doctor", "--from", "-", stdin=data)
    assert ran.returncode == 3
    assert error in ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr


def test_a_machine_of_a_newer_ownlab_is_refused(ownlab: Ownlab, machines: Path) -> None:
    newer = (machines / "h200.json").read_text().replace('"format": 1', '"format": 99', 1)
    ran = ownlab("doctor", "--from", "-", stdin=newer)
    assert ran.returncode == 3
    assert "has format 99" in ran.stderr


def test_a_paste_of_more_than_50_mb_is_refused(ownlab: Ownlab, tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(60 * 1000**2)
    ran = ownlab("doctor", "--from", str(tmp_path / "large.txt"))
    assert ran.returncode == 3
    assert "50 MiB" in ran.stderr


@pytest.mark.parametrize("name", ["nothing.txt", "."])
def test_an_unreadable_file_is_reported(ownlab: Ownlab, tmp_path: Path, name: str) -> None:
    ran = ownlab("doctor", "--from", str(tmp_path / name))
    assert ran.returncode == 3
    assert str(tmp_path) in ran.stderr


@pytest.mark.parametrize("arguments", [("--from", "-", "--verify"), ("--from", "-", "--python", "python3")])
def test_options_that_cannot_be_combined_are_usage_errors(ownlab: Ownlab, arguments: tuple[str, ...]) -> None:
    ran = ownlab("doctor", *arguments, stdin=TOO_OLD)
    assert ran.returncode == 2
    assert "--from cannot be combined with --verify, --python or --machine" in ran.stderr


def test_python_cannot_be_combined_with_a_saved_machine(diagnose: Ownlab) -> None:
    assert diagnose("h200", "--python", "python3").returncode == 2


def test_a_saved_machine_cannot_compute(diagnose: Ownlab) -> None:
    ran = diagnose("h200", "--verify")
    assert ran.returncode == 2
    assert "cannot compute" in ran.stderr


def test_explain_shows_and_lists_rule_pages(ownlab: Ownlab) -> None:
    assert "Why it matters." in ownlab("doctor", "--explain", "no-kernel").stdout
    assert "Why it matters." in ownlab("doctor", "--explain", "NO-KERNEL").stdout
    assert json.loads(ownlab("doctor", "--explain", "insufficient", "--json").stdout)["code"] == "driver-old"
    listed = ownlab("doctor", "--explain", "all").stdout
    assert "driver-old" in listed
    assert "xid" in listed


def test_explaining_an_unknown_code_is_a_usage_error(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--explain", "driver-odl")
    assert ran.returncode == 2
    assert "Did you mean driver-old" in ran.stderr
