"""The foreign interpreter that the tests of guest code ask: it has torch, and no ownlab."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def torch_python() -> str:
    python = Path(__file__).parents[2] / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(python)
