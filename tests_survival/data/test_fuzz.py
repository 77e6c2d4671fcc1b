"""Some damaged and forged files; `python -m tests_survival.data.fuzz` has any number of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests_survival.data import fuzz


@pytest.mark.parametrize("subject", sorted(fuzz.SUBJECTS))
def test_damage_is_an_error_of_ours_or_harmless(subject: str) -> None:
    faults = {seed: found for seed in range(1, 41) if (found := fuzz.run(subject, seed)[1])}
    assert not faults


def test_what_is_not_an_error_of_ours_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def escapes(_: random.Random, folder: Path) -> None:
        (folder.parent / "canary").write_bytes(b"changed")
        raise KeyError

    monkeypatch.setitem(fuzz.SUBJECTS, "packed", escapes)
    _, faults = fuzz.run("packed", 1)
    assert "KeyError" in faults[0]
    assert "outside" in faults[1]
