"""A script that is tried writes, logs, saves and leaves processes behind, and nothing of it stays; whatever it does, the command ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.command_line import Ownlab

GUEST = Path(__file__).resolve().parents[4] / "src" / "ownlab_guest"
TRAINS = """
import os, subprocess, sys, tempfile, time
import torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((4,), index / 4000), index % 2

PLACES = [os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir(), "/dev/shm", os.path.dirname(os.path.abspath(__file__))]
for place in PLACES:
    with open(os.path.join(place, "trace-" + os.environ["MARK"]), "a") as file:
        file.write("written\\n")
os.mkdir("runs")
os.remove("old.txt")
with open("log.txt", "a") as log:
    log.write("more\\n")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
assert os.environ["WANDB_MODE"] == "disabled"
for step, (x, y) in enumerate(DataLoader(Samples(), batch_size=8)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("x" * 10000, flush=True)
    torch.save(model.state_dict(), "runs/model.pt")
"""


class Place:
    """A folder with a script, a mark that all processes below the command carry, and temporary files of its own."""

    def __init__(self, root: Path) -> None:
        self.mark, self.temporary, self.folder = uuid4().hex, root / "tmp", root / "work"
        self.temporary.mkdir()
        self.folder.mkdir()
        (self.folder / "old.txt").write_text("old")
        (self.folder / "log.txt").write_text("first\n")
        # No compiler on PATH: torch.compile would take minutes.
        self.env = {
            **os.environ,
            "PATH": os.path.dirname(sys.executable),
            "MARK": self.mark,
            "TMPDIR": str(self.temporary),
            "HOME": str(root / "home"),
        }
        (root / "home").mkdir()
        self.root = root

    def start(self, code: str, python: str, *options: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        (self.folder / "train.py").write_text(code)
        command = [*prefix, sys.executable, "-m", "ownlab", "why", "--try", *options, python, "train.py"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, code: str, python: str, *options: str, prefix: tuple[str, ...] = ()) -> tuple[int, str, str]:
        child = self.start(code, python, *options, prefix=prefix)
        out, err = child.communicate()
        return child.returncode, out, err

    def processes(self) -> list[int]:
        pids = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                if f"MARK={self.mark}".encode() in path.read_bytes().split(b"\0"):
                    pids.append(int(path.parent.name))
        return pids

    def script_runs(self) -> bool:
        """Whether the script itself has started, below the command and what runs it."""
        script = f"{sys.executable}\0train.py\0".encode()
        commands = []
        for pid in self.processes():
            with contextlib.suppress(OSError):  # it has ended
                commands.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        return script in commands

    def traces(self) -> set[str]:
        """Every file that was not there before."""
        made = {"train.py", "old.txt", "log.txt"}
        found = {str(path) for path in self.root.rglob("*") if path.is_file() and path.name not in made}
        return found | {str(path) for path in Path("/dev/shm").glob(f"trace-{self.mark}")}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for pid in made.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_nothing_stays_of_what_a_script_writes_and_starts(place: Place, torch_python: str) -> None:
    code, out, err = place.run(TRAINS, torch_python, "--json", "--steps", "15", "--try-budget", "3600")
    assert code == 0, err
    document = json.loads(out)
    assert document["trials"]["isolated"]
    assert document["step"]["count"] > 0, document  # on a busy machine perhaps no change is worth a trial
    assert place.traces() == set()
    assert (place.folder / "log.txt").read_text() == "first\n"
    assert sorted(path.name for path in place.folder.iterdir()) == ["log.txt", "old.txt", "train.py"]
    assert place.processes() == []


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_when_the_command_is_ended(
    place: Place, until: Callable[..., Any], ended_by: signal.Signals
) -> None:
    child = place.start(TRAINS.replace("import torch", "time.sleep(3600)", 1), sys.executable)
    until(place.script_runs, 90)
    child.send_signal(ended_by)
    child.communicate()
    until(lambda: place.processes() == [], 90)
    until(lambda: list(place.temporary.iterdir()) == [], 90)
    assert place.traces() == set()


@pytest.mark.parametrize(
    ("code", "returncode", "words"),
    [
        ("raise ValueError('broken')", 1, "the script ended with code 1: ValueError: broken"),
        ("import sys; sys.exit(7)", 7, "the script ended with code 7: it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", 137, "the script ended with code 137"),
        ("print('done')", 0, "the script ended before its steps were measured"),
        ("import os\nif os.fork() == 0: os._exit(3)\nos.wait()", 0, "the script ended before its steps"),
        ("while True: print('x' * 100000)", 0, "its steps took longer than 4 s"),
        ("import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(3600)", 0, "its steps took longer"),
    ],
)
def test_a_script_that_cannot_be_measured(place: Place, code: str, returncode: int, words: str) -> None:
    budget = ("--try-budget", "10") if "longer" in words else ()
    ended, out, err = place.run(code, sys.executable, *budget)
    assert f"Nothing was tried: {words}" in " ".join(out.split()), (out, err)
    assert ended == returncode
    assert place.processes() == []
    assert list(place.temporary.iterdir()) == []


def test_the_error_of_a_script_is_shown(place: Place) -> None:
    _, _, err = place.run("print('before')\nraise ValueError('broken')", sys.executable)
    assert "before\nTraceback" in err
    assert err.endswith("ValueError: broken\n")


def test_a_command_that_does_not_exist(place: Place) -> None:
    _, out, _ = place.run("", "/no/such/python")
    assert "it cannot be started: /no/such/python: No such file or directory" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--allow-writes", "python", "train.py"), "belong to --try"),
        (("--try-budget", "20", "python", "train.py"), "belong to --try"),
        (("--try", "--seconds", "5", "python", "train.py"), "leave out --save and --seconds"),
        (("--try", "--pid", "1"), "stands alone"),
        (("--try",), "Missing argument"),
        (("--try", __file__), "not saved evidence"),
        (("--try", "--try-budget", "nan", "python", "train.py"), "--try-budget must be a number of seconds"),
        (("--try", "--try-budget", "inf", "python", "train.py"), "--try-budget must be a number of seconds"),
        (("--try", "--try-budget", "1", "python", "train.py"), "Invalid value for '--try-budget'"),
    ],
)
def test_wrong_options(ownlab: Ownlab, options: tuple[str, ...], words: str) -> None:
    ran = ownlab("why", *options)
    assert ran.returncode == 2
    assert words in " ".join(ran.stderr.split())


# A user namespace in which no mount namespace can be made, as containers forbid it.
UNSHARE = shutil.which("unshare") or ""
NO_MOUNTS = (
    UNSHARE,
    "--map-root-user",
    "/bin/sh",
    "-c",
    'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"',
    "sh",
)


@pytest.fixture
def no_mounts() -> tuple[str, ...]:
    if not UNSHARE or subprocess.run([*NO_MOUNTS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    return NO_MOUNTS


def test_without_a_copy_of_the_file_systems_writes_must_be_allowed(
    place: Place, torch_python: str, no_mounts: tuple[str, ...]
) -> None:
    code = TRAINS.replace("os.mkdir", "os.path.exists").replace("os.remove", "str").replace('"runs/', '"')
    options = ("--json", "--steps", "15", "--try-budget", "3600")
    ended, out, err = place.run(code, torch_python, *options, prefix=no_mounts)
    assert ended == 0, err
    trials = json.loads(out)["trials"]
    assert not trials["isolated"]
    assert {trial["status"] for trial in trials["trials"]} == {"untried"}
    note = next(note for note in trials["notes"] if "add --allow-writes" in note)
    for written in ("log.txt", "model.pt", f"trace-{place.mark}"):
        assert written in note
    assert (place.folder / "log.txt").read_text() == "first\nmore\n"
    assert place.processes() == []

    ended, out, err = place.run(code, torch_python, *options, "--allow-writes", prefix=no_mounts)
    assert ended == 0, err
    assert json.loads(out)["step"]["count"] > 0
    assert (place.folder / "log.txt").read_text().count("more") >= 2
    Path("/dev/shm", f"trace-{place.mark}").unlink()


def test_an_ordinary_user_has_a_copy_of_the_file_systems() -> None:
    python, user = "/usr/bin/python3", 4321
    if os.geteuid() != 0 or not os.access(python, os.X_OK):
        pytest.skip("becoming another user needs root, and a Python that everybody may run")
    with tempfile.TemporaryDirectory(prefix="ownlab-test-") as name:
        root = Path(name)
        shutil.copytree(GUEST, root / "ownlab_guest")
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        folder = root / "run"
        for each in (folder, folder / "evidence", folder / "root", root / "work"):
            each.mkdir()
            os.chown(each, user, user)
        script = "echo 1 > made && echo 2 > /tmp/$MARK && echo 3 > /dev/shm/$MARK && cat made && id -u"
        ran = subprocess.run(
            [
                python,
                "-I",
                root / "ownlab_guest" / "launch.py",
                "why.isolated_run",
                folder,
                "isolated",
                "sh",
                "-c",
                script,
            ],
            cwd=root / "work",
            env={"PATH": "/usr/bin:/bin", "MARK": root.name + "-made", "HOME": str(root / "work")},
            user=user,
            group=user,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        ending = json.loads((folder / "ending.json").read_text())
        if "ermitted" in ending["problem"]:
            pytest.skip(f"no user namespaces here: {ending['problem']}")
        assert ending == {"code": 0, "problem": ""}, ran.stdout
        assert ran.stdout.startswith(f"1\n{user}\n")
        assert list((root / "work").iterdir()) == []
        assert not Path("/tmp", root.name + "-made").exists()
        assert not Path("/dev/shm", root.name + "-made").exists()
