"""The users of these tests: root and an ordinary user, each with a private root (private_root.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from tests.guest.colab.kernel_process import PYTHON

ROOT = Path(__file__).parents[3]
GUEST = ROOT / "src" / "ownlab_guest"
PRIVATE_ROOT = Path(__file__).with_name("private_root.py")
ORDINARY = 51234  # nobody's number
SECONDS = 180.0

BEGIN = f"""
import os, signal, subprocess, sys, time
sys.path.insert(0, {str(ROOT / "src")!r})
sys.path.append({str(GUEST / "colab" / "site")!r})
from ownlab_guest.colab import content_folder as content
"""
ENTER = BEGIN + "error = content.enter()\nassert error == '', error\n"


class User:
    """Somebody with a home and a runtime's folder, on a machine with or without a /content."""

    def __init__(self, name: str, home: Path, content: str) -> None:
        self.name, self.home, self.content = name, home, home / "runtime" / "content"
        self.uid = os.geteuid() if name == "root" or os.geteuid() else ORDINARY
        self.drive = home / "drive"
        self.python = python_of(self.uid)
        self._machine = content
        os.chown(home, self.uid, self.uid if os.geteuid() == 0 else -1)

    def command(self, *program: str) -> list[str]:
        """A program as this person starts it."""
        if os.geteuid():
            return list(program)
        return [sys.executable, str(PRIVATE_ROOT), self._machine, str(self.uid), *program]

    def environment(self, **changes: str) -> dict[str, str]:
        own = {"HOME": self.home, "OWNLAB_CONTENT": self.content, "OWNLAB_DRIVE": self.drive, "OWNLAB_COLAB": "1"}
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **{name: str(path) for name, path in own.items()}, **changes}

    def start(self, code: str, **environment: str) -> subprocess.Popen[str]:
        """A process that runs code; its stdin and stdout are pipes."""
        return subprocess.Popen(
            self.command(self.python, "-c", code),
            env=self.environment(**environment),
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, **environment: str) -> str:
        """Run code that must succeed, and return what it prints."""
        with self.start(code, **environment) as process:
            try:
                answer = process.communicate(timeout=SECONDS)[0]
            finally:
                process.kill()
        assert process.returncode == 0, answer
        return answer


@cache
def python_of(uid: int) -> str:
    """Return an interpreter that this user may start: an environment may be in another user's home."""
    for python in (PYTHON, "/usr/bin/python3"):
        asked = [sys.executable, str(PRIVATE_ROOT), "none", str(uid), python, "-c", "import ctypes"]
        if os.geteuid() == uid or subprocess.run(asked, timeout=SECONDS, check=False, stderr=-3).returncode == 0:
            return python
    pytest.skip("there is no Python that an ordinary user may start")


@contextmanager
def make_user(name: str, content: str = "none") -> Iterator[User]:
    """A person, until the block ends. Skips where there can be none."""
    if os.geteuid() and (name == "root" or content != "none"):
        pytest.skip("only root can be root, and make another machine")
    with tempfile.TemporaryDirectory(prefix="ownlab-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        os.chmod(folder, 0o755)
        yield User(name, home, content)


def lines_of(process: subprocess.Popen[str]) -> Sequence[str]:
    """Return the next line of its output, split into words."""
    assert process.stdout is not None
    return process.stdout.readline().split()


def has(program: str) -> bool:
    return shutil.which(program) is not None
