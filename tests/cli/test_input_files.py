"""Every command that reads a file which a person names, with everything that such a path may be.

None hangs, fills the memory or shows a traceback: each says what is wrong and exits with 2 or 3.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Runs `ownlab ARGUMENTS` for each case in a fork of one process, which has the imports. A case is [arguments, environment].
DRIVER = """
import json, os, resource, signal, sys, tempfile
import ownlab.input_files
from ownlab.cli import main
ownlab.input_files._WRITER_SECONDS = 0.2
results = {}
for name, (arguments, environment) in json.load(sys.stdin).items():
    output = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        signal.alarm(90)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.environ.update(environment)
        sys.argv = ["ownlab", *arguments]
        try:
            main.main()
        except SystemExit as exc:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(exc.code or 0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(70)
    _, status, usage = os.wait4(pid, 0)
    output.seek(0)
    said = output.read(100_000).decode("utf-8", "replace")
    results[name] = [os.waitstatus_to_exitcode(status), said, usage.ru_maxrss // 1024]
print(json.dumps(results))
"""

NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}

# FILE is replaced by the path, FILE.jsonl by a link to it with that name, NOTEBOOK by the path of a good notebook.
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "form": (["form", "FILE"], {}),
    "run": (["run", "FILE"], {}),
    "run --parameters": (["run", "NOTEBOOK", "--parameters", "FILE"], {}),
    "up --certificate": (["up", "FOLDER", "--host", "127.0.0.1", "--certificate", "FILE", "--key", "FILE"], {}),
    "open": (["open", "FILE", "--folder", "FOLDER", "--no-browser"], {}),
    "bench compare": (["bench", "compare", "FILE", "FILE"], {}),
    "bench show": (["bench", "show", "FILE"], {}),
    "doctor --machine": (["doctor", "--machine", "FILE"], {}),
    "doctor --from": (["doctor", "--from", "FILE"], {}),
    "machine --machine": (["machine", "--machine", "FILE"], {}),
    "top --replay": (["top", "--replay", "FILE", "--json"], {}),
    "top report": (["top", "report", "FILE"], {}),
    "top --token-file": (["top", "--serve", "127.0.0.1:0", "--token-file", "FILE"], {}),
    "fit --explain-oom": (["fit", "--explain-oom", "FILE"], {}),
    "history --save": (["history", "FILE", "--save", "mine"], {}),
    "gpus update": (["gpus", "update", "FILE"], {}),
    "gpus ladder --machine": (["gpus", "ladder", "--machine", "FILE"], {}),
    "gpus advise --fit": (["gpus", "advise", "--fit", "FILE"], {}),
    "cluster write": (["cluster", "write", "FILE", "-o", "cluster"], {}),
    "clouds cost --fit": (["clouds", "cost", "--fit", "FILE"], {}),
    "why --trace": (["why", "--trace", "FILE"], {}),
    "why --nccl": (["why", "--nccl", "FILE"], {}),
    "data inspect": (["data", "inspect", "FILE"], {}),
    "data inspect, JSON Lines": (["data", "inspect", "FILE.jsonl"], {}),
    "data pack": (["data", "pack", "FILE.jsonl", "-o", "packed"], {}),
    "data unpack": (["data", "unpack", "FILE", "-o", "unpacked"], {}),
    "data verify": (["data", "verify", "FILE"], {}),
    "data bench": (["data", "bench", "FILE"], {}),
    "data stage": (["data", "stage", "FILE"], {}),
    "data get": (["data", "get", "FILE"], {}),
    "OWNLAB_CONFIG": (["config"], {"OWNLAB_CONFIG": "FILE"}),
    "OWNLAB_MACHINE": (["machine"], {"OWNLAB_MACHINE": "FILE"}),
}

# These are what the command accepts.
REFUSED_BY_ALL = frozenset({"a pipe", "unreadable", "missing", "a loop", "/dev/zero"})
FINE = {"OWNLAB_CONFIG": frozenset({"empty", "missing"})}
# It copies every file, whatever is in it.
COPIED = frozenset({"data stage"})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Everything that a path may name."""
    folder = tmp_path_factory.mktemp("inputs")
    contents = {
        "empty": b"",
        "not UTF-8": b'{"at": "\xff\xfe\xfa", "host": 1}\n\xff = 1\n' * 3,
        "a long line": b'{"at": "' + b"x" * 100_000_000 + b'"}\n',
        "deep lists": b"[" * 200_000,
        "deep objects": b'{"at": ' * 200_000,
        "deep TOML": b"a = " + b"[" * 200_000,
        "deep keys": b".".join([b"a"] * 200_000) + b" = 1\n",
        "a long number": b'{"at": ' + b"1" * 200_000 + b"}",
        "binary": bytes(range(256)) * 1000,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "a pipe")
    (folder / "a folder").mkdir()
    (folder / "unreadable").write_bytes(b"{}")
    (folder / "unreadable").chmod(0)
    if os.getuid() == 0:
        os.chown(folder / "unreadable", 65534, 65534)
    (folder / "a loop").symlink_to(folder / "a loop")
    named = ["a pipe", "a folder", "unreadable", "missing", "a loop"]
    return {name: str(folder / name) for name in (*contents, *named)} | {"/dev/zero": "/dev/zero"}


def run_all(command: str, inputs: dict[str, str], place: Path) -> dict[str, tuple[int, str, int]]:
    for folder in ("home", "work", "kernels"):
        (place / folder).mkdir(exist_ok=True)
    notebook = place / "work" / "good.ipynb"
    notebook.write_text(json.dumps(NOTEBOOK))
    arguments, variables = COMMANDS[command]
    environment = {
        "OWNLAB_HOME": str(place / "home"),
        "OWNLAB_STORE": str(place / "home" / "store"),
        "OWNLAB_KERNELS": str(place / "kernels"),
        "OWNLAB_CONFIG": str(place / "no-config.toml"),
        "XDG_CACHE_HOME": str(place / "cache"),  # for staged copies
    }
    cases: dict[str, Any] = {}
    for number, (name, path) in enumerate(inputs.items()):
        link = place / f"{number}.jsonl"
        link.symlink_to(path)
        words = {"FILE": path, "FILE.jsonl": str(link), "NOTEBOOK": str(notebook), "FOLDER": str(place / "work")}
        filled = {key: words.get(value, value) for key, value in {**environment, **variables}.items()}
        cases[name] = [[words.get(word, word) for word in arguments], filled]
    # Root may read everything, unless it gives that up.
    limited = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    ran = subprocess.run(
        [*limited, sys.executable, "-c", DRIVER],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        cwd=place,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, tuple[int, str, int]] = json.loads(ran.stdout)
    return found


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_survives_every_kind_of_input(command: str, inputs: dict[str, str], tmp_path: Path) -> None:
    for name, (code, said, megabytes) in run_all(command, inputs, tmp_path).items():
        shown = f"{command} with {name}: exit code {code}\n{said[-2000:]}"
        assert "Traceback" not in said, shown
        if name in FINE.get(command, ()) or (command in COPIED and name not in REFUSED_BY_ALL):
            assert code == 0, shown
            continue
        assert code in (2, 3), shown
        assert said.strip(), shown
        assert len(said) < 3000, shown  # it does not repeat the input
        assert megabytes < 1500, f"{shown}\n{megabytes} MB"


def test_pipes_of_a_shell_are_read(tmp_path: Path, machines: Path) -> None:
    """`<(…)` and `-`, also when the writer takes its time."""
    machine = machines / "gtx1080ti-x4.json"
    script = f"{sys.executable} -m ownlab machine --machine <(sleep 1; cat {machine}) --json"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "1080 Ti" in ran.stdout


def test_a_named_pipe_is_read_once_it_has_a_writer(tmp_path: Path, machines: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    machine = machines / "gtx1080ti-x4.json"
    script = f"(cat {machine} > {pipe}) & {sys.executable} -m ownlab machine --machine {pipe} --json"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "1080 Ti" in ran.stdout


def test_an_endless_pipe_is_refused_at_the_limit() -> None:
    script = f"head -c 200M /dev/zero | {sys.executable} -m ownlab gpus advise --fit -"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 3
    assert "stdin is larger than 64 MiB" in ran.stderr
