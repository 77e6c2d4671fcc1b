"""The interpreter that has torch, in which the scripts run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def torch_python() -> str:
    python = Path(__file__).parents[3] / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(python)
