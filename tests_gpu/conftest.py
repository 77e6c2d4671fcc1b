"""Tests that take the card into this very process come last: the others would find it held, and leased to nobody."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """The one mark of these tests."""
    config.addinivalue_line("markers", "takes_the_card: makes a CUDA context in this process, which keeps it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As they were, but for those."""
    items.sort(key=lambda item: item.get_closest_marker("takes_the_card") is not None)
