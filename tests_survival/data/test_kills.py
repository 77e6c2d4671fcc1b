"""A few commands of `ownlab data` that are killed at random moments; `python -m tests_survival.data.kills` has hundreds."""

from __future__ import annotations

import pytest
from tests_survival.data.kills import SUBJECTS, run


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_nothing_is_lost_or_doubled(subject: str, seed: int) -> None:
    outcome = run(subject, seed)
    assert not outcome.faults, (outcome.kills, outcome.faults)
