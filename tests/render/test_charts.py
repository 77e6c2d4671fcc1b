"""Charts as files. Their contents are tested with the features that draw them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ownlab.errors import UsageError
from ownlab.render.charts import check_chart_file, save_chart


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", ".png"), ("a.SVG", ".svg"), ("a.b.html", ".html"), ("a.htm", ".htm")]
)
def test_the_name_decides_the_format(name: str, kind: str) -> None:
    assert check_chart_file(Path(name)) == kind


def test_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a\.pdf: its name must end in \.png, \.svg or \.html"):
        check_chart_file(Path("a.pdf"))


def test_without_the_extra_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # as if it were not installed
    with pytest.raises(UsageError, match="vl-convert-python is not installed") as caught:
        save_chart({}, tmp_path / "a.png")
    assert "pip install 'ownlab[charts]'" in caught.value.hint
    assert not (tmp_path / "a.png").exists()
