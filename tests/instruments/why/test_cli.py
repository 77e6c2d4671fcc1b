"""`ownlab why` as a command: the script's exit code and output are its own, whatever it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

LOOPS = Path(__file__).with_name("planted_loops.py")


def script(folder: Path, code: str) -> str:
    path = folder / "script.py"
    path.write_text(code)
    return str(path)


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("raise ValueError('broken')", 1),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('a message')", 1),
        ("import os; os._exit(5)", 5),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os\nif os.fork() == 0: os._exit(3)\nos.wait()\nprint('forked')", 0),
        ("import this", 0),
    ],
)
def test_exit_code_and_output_are_those_of_the_script(
    ownlab: Ownlab, tmp_path: Path, code: str, returncode: int
) -> None:
    path = script(tmp_path, code)
    alone = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    ran = ownlab("why", sys.executable, path)
    assert ran.returncode == returncode
    assert ran.stderr == alone.stderr
    assert ran.stdout.startswith(alone.stdout)
    assert "Nothing was measured" in ran.stdout.removeprefix(alone.stdout)


def test_a_script_that_fails_before_it_trains_is_said_to(ownlab: Ownlab, tmp_path: Path) -> None:
    ran = ownlab("why", sys.executable, script(tmp_path, "import no_such_module"))
    assert "the command failed (exit code 1) before it trained" in ran.stdout


def test_the_script_sees_the_same_python(ownlab: Ownlab, tmp_path: Path) -> None:
    code = "import sys; print(sys.argv, __name__, __file__, sys.path, 'ownlab' in sys.modules, sys.modules['__main__'].__spec__)"
    path = script(tmp_path, code)
    alone = subprocess.run([sys.executable, path, "--json", "-x"], capture_output=True, text=True, check=True)
    assert ownlab("why", sys.executable, path, "--json", "-x").stdout.startswith(alone.stdout)


def test_the_users_own_sitecustomize_runs(ownlab: Ownlab, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.marked = 'by the user'\n")
    path = script(tmp_path, "import sitecustomize\nprint(marked, sitecustomize.__file__)")
    ran = ownlab("why", sys.executable, path, env={"PYTHONPATH": str(tmp_path)})
    assert ran.stdout.startswith(f"by the user {tmp_path}/sitecustomize.py\n")


@pytest.mark.parametrize("option", ["-I", "-E", "-SB", "-uE"])
def test_options_that_hide_the_measurement_are_named(ownlab: Ownlab, tmp_path: Path, option: str) -> None:
    ran = ownlab("why", sys.executable, "-X", "utf8", option, script(tmp_path, "import sys; sys.exit(4)"))
    assert ran.returncode == 4
    assert "which ignores PYTHONPATH" in ran.stderr


def test_a_command_that_is_not_python(ownlab: Ownlab) -> None:
    ran = ownlab("why", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (ran.returncode, ran.stderr) == (9, "err\n")
    assert ran.stdout.startswith("out\nNothing was measured: the command started no Python")


def test_a_command_that_does_not_exist(ownlab: Ownlab) -> None:
    ran = ownlab("why", "/no/such/program")
    assert ran.returncode == 3
    assert "Cannot run /no/such/program: No such file or directory." in ran.stderr


def test_no_command(ownlab: Ownlab) -> None:
    ran = ownlab("why")
    assert ran.returncode == 2
    assert "ownlab why python train.py" in ran.stderr


def test_a_script_that_hangs_is_ended(ownlab: Ownlab, tmp_path: Path) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('started', flush=True)\ntime.sleep(3600)"
    ran = ownlab("why", "--seconds", "1", sys.executable, script(tmp_path, code))
    assert ran.returncode == 0
    assert ran.stdout.startswith("started\n")


def test_an_interrupt_reaches_the_script_and_is_explained(tmp_path: Path, until: Callable[..., Any]) -> None:
    code = "import time, sys\ntry:\n    open('ready', 'w').close()\n    time.sleep(3600)\nexcept KeyboardInterrupt:\n    sys.exit(21)"
    command = [sys.executable, "-m", "ownlab", "why", sys.executable, script(tmp_path, code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True)
    until((tmp_path / "ready").exists)
    os.killpg(child.pid, signal.SIGINT)
    printed, _ = child.communicate(timeout=60)
    assert child.returncode == 21
    assert "Nothing was measured" in printed


def test_saved_evidence_is_explained_as_the_run_was(
    ownlab: Ownlab, torch_python: str, tmp_path: Path, valid: Callable[[str, str], Any]
) -> None:
    saved, chart = tmp_path / "evidence.json", tmp_path / "step.svg"
    ran = ownlab("why", "--json", "--save", str(saved), torch_python, str(LOOPS), "slow_logging")
    again = ownlab("why", "--json", str(saved))
    assert again.stdout == ran.stdout
    valid(saved.read_text(), "why-evidence")
    shown = ownlab("why", "--chart", str(chart), str(saved))
    assert json.loads(ran.stdout)["sentence"] in shown.stdout
    assert "A typical step" in shown.stdout
    assert "if step % 50 == 0:" in shown.stdout
    assert "<svg" in chart.read_text()


def test_the_script_is_ended_after_the_steps_that_were_asked_for(ownlab: Ownlab, torch_python: str) -> None:
    ran = ownlab("why", "--json", "--steps", "10", torch_python, str(LOOPS), "endless")
    explanation = json.loads(ran.stdout)
    assert (ran.returncode, explanation["exit_code"]) == (0, None)
    assert explanation["step"]["count"] == 8  # without the first two


def test_a_shell_script_with_a_program_of_its_own(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"#!/bin/sh\necho begin\n{torch_python} {LOOPS} slow_logging\necho end\n")
    path.chmod(0o755)
    ran = ownlab("why", str(path))
    assert ran.stdout.startswith("begin\nend\nA step takes")


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", "\x00", '{"format": 99}'])
def test_a_file_that_is_no_evidence(ownlab: Ownlab, tmp_path: Path, content: str) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(content)
    ran = ownlab("why", str(path))
    assert ran.returncode == 3
    assert "was not written by `ownlab why --save`" in ran.stderr


def test_pages(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    assert "few-workers" in ownlab("why", "--explain", "all").stdout
    assert "Why it matters." in ownlab("why", "--explain", "few-workers").stdout
    assert valid(ownlab("why", "--explain", "few-workers", "--json").stdout, "why-explain")["code"] == "few-workers"
    valid(ownlab("why", "--explain", "all", "--json").stdout, "why-explain-all")
    assert ownlab("why", "--explain", "no-such").returncode == 2


def test_a_log_of_nccl(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    log = str(LOOPS.parent / "nccl" / "logs" / "gpu-direct.log")
    explanation = valid(ownlab("why", "--json", "--nccl", log).stdout, "why")
    assert explanation["nccl"]["communicators"][0]["size"] == 4
    shown = ownlab("why", "--nccl", log)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(explanation["sentence"])
    assert ownlab("why", "--nccl", log, "python", "train.py").returncode == 2
    assert "does not exist" in ownlab("why", "--nccl", "no-such.log").stderr


def test_the_measurement_changes_no_random_numbers(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    code = (
        "import random, torch\n"
        "random.seed(0); torch.manual_seed(0)\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "data = torch.utils.data.TensorDataset(torch.randn(64, 2))\n"
        "for (x,) in torch.utils.data.DataLoader(data, batch_size=2, shuffle=True):\n"
        "    model(x).sum().backward()\n"
        "    optimizer.step()\n"
        "    random.random()\n"
        "print(random.random(), torch.rand(1).item(), model.weight.sum().item())\n"
    )
    path = script(tmp_path, code)
    alone = subprocess.run([torch_python, path], capture_output=True, text=True, check=True)
    assert ownlab("why", torch_python, path).stdout.startswith(alone.stdout)
