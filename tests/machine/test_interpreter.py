"""An interpreter is read even if it or its frameworks are broken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.interpreter import read_interpreter
from ownlab.machine.records import Framework, Interpreter
from ownlab.processes.background import call_each

ROOT = Path(__file__).parents[2]
FAKES = ROOT / "tests" / "fakes"
PYENV = Path.home() / ".pyenv" / "versions"


def read(*scenes: str, deadline: float = 30.0) -> Interpreter:
    """Our own interpreter, with the fakes of some scenes first on its path."""
    path = os.pathsep.join(str(FAKES / scene) for scene in scenes)
    return read_interpreter(sys.executable, "--python", deadline=deadline, env={"PYTHONPATH": path})


def by_name(interpreter: Interpreter) -> dict[str, Framework]:
    return {framework.name: framework for framework in value_of(interpreter.frameworks) or ()}


def reason(fact: object) -> str:
    assert isinstance(fact, Unknown)
    return fact.reason


# --- a sound interpreter ----------------------------------------------------------------------------------------------


def test_an_interpreter_with_the_real_torch() -> None:
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    interpreter = read_interpreter(str(python), "VIRTUAL_ENV")
    assert interpreter.path == Known(str(python), source="VIRTUAL_ENV")
    assert interpreter.origin == "VIRTUAL_ENV"
    assert [(each.name, each.version) for each in value_of(interpreter.packages) or () if each.name == "torch"] == [
        ("torch", "2.13.0+cpu")
    ]
    torch = by_name(interpreter)["torch"]
    assert value_of(torch.devices) == ()
    assert torch.error == "Torch not compiled with CUDA enabled"


def test_an_interpreter_without_frameworks() -> None:
    interpreter = read_interpreter(sys.executable, "the Python that runs ownlab")
    assert value_of(interpreter.frameworks) == ()
    assert value_of(interpreter.version) == ".".join(str(part) for part in sys.version_info[:3])


def test_frameworks_are_not_probed_unless_requested() -> None:
    interpreter = read_interpreter(
        sys.executable, "--python", frameworks=False, env={"PYTHONPATH": str(FAKES / "hang")}
    )
    assert reason(interpreter.frameworks) == "frameworks were not probed"
    assert "torch" in {package.name for package in value_of(interpreter.packages) or ()}


def test_all_frameworks_of_an_interpreter_are_probed() -> None:
    frameworks = by_name(read("old_driver", "no_card"))
    assert list(frameworks) == ["torch", "tensorflow", "jax", "cupy", "numba"]
    assert all(framework.error for framework in frameworks.values())
    assert all(framework.failure is None for framework in frameworks.values())


# --- frameworks that fail ---------------------------------------------------------------------------------------------


def test_a_crash_on_import_is_reported_with_its_location_and_last_output() -> None:
    torch = by_name(read("segv"))["torch"]
    assert torch.failure == "crash"
    assert reason(torch.devices) == "the probe of torch died of SIGSEGV"
    place = FAKES / "segv" / "torch" / "__init__.py"
    assert torch.error is not None
    assert torch.error.splitlines() == [
        f"the probe of torch died of SIGSEGV, in {place}, line 7",
        "terminate called after throwing an instance of 'c10::Error'",
    ]


def test_an_import_that_ends_the_process_is_a_crash(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import os, sys\nsys.stderr.write('no licence\\n')\nsys.stderr.flush()\nos._exit(3)\n"
    )
    interpreter = read_interpreter(sys.executable, "--python", env={"PYTHONPATH": str(tmp_path)})
    torch = by_name(interpreter)["torch"]
    assert torch.failure == "crash"
    assert torch.error == "the probe of torch ended with exit code 3\nno licence"


def test_a_hang_on_import_is_reported_and_other_frameworks_are_read() -> None:
    # On a busy machine the other frameworks may need longer, and so may the report of where torch hangs.
    for deadline in (3.0, 12.0, 48.0):
        frameworks = by_name(read("hang", "no_card", deadline=deadline))
        located = "torch" in frameworks and " s, in " in (frameworks["torch"].error or "")
        if located and frameworks["cupy"].failure is None:
            break
    torch = frameworks["torch"]
    assert torch.failure == "hang"
    assert torch.error is not None
    first, *words = torch.error.splitlines()
    assert first.startswith(f"torch did not answer in {deadline:g} s, in ")
    assert "threading.py" in first
    assert words == ["waiting for the lock of an extension build"]
    assert frameworks["cupy"].failure is None


def test_an_import_that_raises_is_reported() -> None:
    torch = by_name(read("broken"))["torch"]
    assert torch.failure == "import"
    assert torch.error == "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory"


# --- interpreters that fail -------------------------------------------------------------------------------------------


def unusable(python: Path | str) -> str:
    """Why an interpreter cannot be asked; the same reason for each of its facts."""
    interpreter = read_interpreter(str(python), "--python")
    assert interpreter.path == Known(str(python), source="--python")
    assert interpreter.frameworks == interpreter.packages
    return reason(interpreter.frameworks)


def test_an_interpreter_that_does_not_exist(tmp_path: Path) -> None:
    assert unusable(tmp_path / "python") == f"{tmp_path / 'python'} does not exist"


def test_an_interpreter_that_cannot_be_accessed() -> None:
    python = f"/{'x' * 300}/python"  # refused for root too, as a path under a closed folder is for others
    assert unusable(python) == f"{python} cannot be accessed: File name too long"


def test_an_interpreter_that_is_not_on_path() -> None:
    assert "python3.99 is not installed, or not on PATH" in unusable("python3.99")


def test_an_interpreter_without_execute_permission(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    assert unusable(python) == f"{python} is not executable"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho hello\n", "ended with exit code 0 without a valid answer"),
        ("#!/bin/sh\necho 'cannot find libpython3.12.so' >&2; exit 127\n", "cannot find libpython3.12.so"),
        ("#!/bin/sh\nkill -BUS $$\n", "died of SIGBUS without an answer"),
        ("no program at all", "cannot be started: Exec format error"),
    ],
)
def test_a_program_that_is_not_python(script: str, words: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    assert words in unusable(python)
    assert reason(read_interpreter(str(python), "--python").version) == unusable(python)


@pytest.mark.parametrize("version", ["2.7.18", "3.6.15", "3.8.18"])
def test_an_old_python_is_reported_but_not_probed(version: str) -> None:
    python = PYENV / version / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no Python {version} here")
    interpreter = read_interpreter(str(python), "--python", env={"PYTHONPATH": str(FAKES / "old_driver")})
    assert value_of(interpreter.version) == version
    assert reason(interpreter.frameworks) == f"Python {version} is too old to be probed: ownlab needs 3.9 or newer"


# --- other interpreters -----------------------------------------------------------------------------------------------


def test_other_interpreters_on_path_are_listed_once_and_not_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "python3").write_text(f"#!/bin/sh\ntouch {started}\n")
        (tmp_path / folder / "python3").chmod(0o755)
    (tmp_path / "one" / "python3.11").symlink_to("python3")
    (tmp_path / "one" / "python3-config").write_text("")
    (tmp_path / "two" / "python3.9").write_text("not executable")
    folders = [Path(sys.executable).parent, tmp_path / "one", tmp_path / "absent", tmp_path / "two"]
    interpreter = read_interpreter(
        sys.executable, "--python", frameworks=False, env={"PATH": os.pathsep.join(str(each) for each in folders)}
    )
    assert value_of(interpreter.others) == (str(tmp_path / "one" / "python3"), str(tmp_path / "two" / "python3"))
    assert not started.exists()


def test_a_virtual_environment_differs_from_its_base_interpreter(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    environment = tmp_path / "env" / "bin"
    interpreter = read_interpreter(sys.executable, "--python", frameworks=False, env={"PATH": str(environment)})
    assert value_of(interpreter.others) == (str(environment / "python3"),)


# --- threads ----------------------------------------------------------------------------------------------------------


def test_threads_run_together_and_keep_the_order() -> None:
    meeting = threading.Barrier(3, timeout=300)

    def work(number: int) -> int:
        meeting.wait()
        return number * 10

    assert call_each(work, [3, 1, 2]) == (30, 10, 20)


def test_interpreters_can_be_read_in_several_threads_at_once() -> None:
    answers = call_each(lambda scene: by_name(read(scene))["torch"], ["old_driver", "broken", "rocm"])
    assert [answer.failure for answer in answers] == [None, "import", None]
    assert [value_of(answer.version) for answer in answers] == ["2.1.0+cu121", None, "2.5.1+rocm6.2"]


def test_the_architecture_is_the_interpreters_own() -> None:
    interpreter = read_interpreter(sys.executable, "--python", frameworks=False)
    assert interpreter.architecture == Known(platform.machine(), source="platform.machine()")
