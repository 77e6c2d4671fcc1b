"""Changes of the user's code: the call is edited where it stands, and what cannot be understood is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.instruments.why.code_change import CodeChanges, read_snippet
from ownlab.instruments.why.records import Place


def changed(tmp_path: Path, code: str, line: int, arguments: dict[str, str]) -> str | None:
    path = tmp_path / "train.py"
    path.write_text(code)
    place = Place(str(path), line, "main")
    snippet = read_snippet(place)
    assert snippet is not None
    change = CodeChanges([snippet]).with_arguments(place, "DataLoader", arguments)
    return None if change is None else change.diff


@pytest.mark.parametrize(
    ("code", "diff"),
    [
        ("DataLoader(data)", "-DataLoader(data)\n+DataLoader(data, num_workers=4)"),
        ("DataLoader(data, num_workers=0)", "-DataLoader(data, num_workers=0)\n+DataLoader(data, num_workers=4)"),
        ("x = data.DataLoader(num_workers=f(1, [2]), é='ü')", None),
        ("DataLoader(dataset='größe')", "-DataLoader(dataset='größe')\n+DataLoader(dataset='größe', num_workers=4)"),
        ("DataLoader()", "-DataLoader()\n+DataLoader(num_workers=4)"),
    ],
)
def test_arguments_are_set(tmp_path: Path, code: str, diff: str | None) -> None:
    expected = diff or f"-{code}\n+" + code.replace("f(1, [2])", "4")
    assert changed(tmp_path, code + "\n", 1, {"num_workers": "4"}) == expected


def test_only_the_lines_that_differ_are_shown(tmp_path: Path) -> None:
    code = "if True:\n    loader = DataLoader(\n        data,  # all of it\n        num_workers=0,\n    )\n"
    assert changed(tmp_path, code, 2, {"num_workers": "4"}) == "-        num_workers=0,\n+        num_workers=4,"
    added = changed(tmp_path, code, 2, {"pin_memory": "True"})
    assert added == "-        num_workers=0,\n+        num_workers=0, pin_memory=True,"


@pytest.mark.parametrize(
    "code",
    ["DataLoader(data, **options)", "make_loader(data)", "def broken(:", "x = 1"],
    ids=["options", "other", "broken", "none"],
)
def test_what_is_not_understood_is_not_changed(tmp_path: Path, code: str) -> None:
    assert changed(tmp_path, code + "\n", 1, {"num_workers": "4"}) is None


def test_a_line_is_removed_only_if_it_is_nothing_but_a_call(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("    gc.collect()\n    freed = gc.collect()\n")
    places = [Place(str(path), line, "main") for line in (1, 2)]
    changes = CodeChanges([snippet for place in places if (snippet := read_snippet(place))])
    removed = changes.without_line(places[0])
    assert removed is not None
    assert removed.diff == "-    gc.collect()"
    assert changes.without_line(places[1]) is None


def test_a_file_that_is_gone() -> None:
    assert read_snippet(Place("/no/such/train.py", 3, "main")) is None
    assert CodeChanges([]).with_arguments(Place("/no/such/train.py", 3, "main"), "DataLoader", {}) is None
