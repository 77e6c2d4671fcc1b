"""The contact sheet shows pictures from everywhere, however many there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ownlab_guest.data.inspection import inspect_data

image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("count", [7, 60, 100, 119, 500, 1500])
def test_it_has_pictures_of_all_classes(tmp_path: Path, count: int) -> None:
    """The first class has most images; the last ones come at the end."""
    classes = ("a",) * 4 + ("b",) * 2 + ("c",)
    for number in range(count):
        folder = tmp_path / "data" / classes[number * len(classes) // count]
        folder.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (8, 8), (number % 256, number // 256, 0)).save(folder / f"{number:05d}.png")
    result = list(inspect_data(str(tmp_path / "data"), thumbnails=True))[-1]
    shown = Counter(picture["label"] for picture in result["thumbnails"])
    assert sum(shown.values()) == min(count, 60)
    for name in "abc":
        share = classes.count(name) / len(classes)
        assert abs(shown[name] - share * min(count, 60)) <= 2 + 0.1 * min(count, 60), shown
    names = [picture["name"] for picture in result["thumbnails"]]
    assert len(set(names)) == len(names)
