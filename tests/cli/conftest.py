"""ownlab as a person starts it: a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ownlab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ownlab() -> Ownlab:
    """Run `ownlab ARGUMENTS`, with more environment and standard input where asked."""

    def run(
        *arguments: str, env: dict[str, str] | None = None, stdin: str | bytes = ""
    ) -> subprocess.CompletedProcess[str]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ran = subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            capture_output=True,
            input=given,
            env={**os.environ, **(env or {})},
            check=False,
        )
        return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return run


@pytest.fixture
def machines() -> Path:
    """The recorded machines."""
    return Path(__file__).resolve().parents[1] / "machines"
