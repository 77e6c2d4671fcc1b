"""Fixtures: small file trees in place of a machine's, and recorded outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Plant = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Writes files under a root; a text that begins with "-> " is a link."""

    def write(files: Mapping[str, str]) -> Path:
        for path, text in files.items():
            place = tmp_path / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                place.symlink_to(text[3:])
            else:
                place.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def pastes() -> Path:
    """Outputs of the vendors' tools."""
    return Path(__file__).resolve().parents[2] / "pastes"
