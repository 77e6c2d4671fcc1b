"""A prediction in the terminal, and as a chart."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.instruments.fit.traces import a_trace
from tests.render.test_golden import compare, paper

from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.card_specs import choose_cards
from ownlab.instruments.fit.memory_chart import _COLOURS, GLYPHS, memory_chart, plot
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import KINDS, Fit, Kind, Request, Timeline
from ownlab.instruments.fit.terminal import show_fit
from ownlab.render.charts import save_chart
from ownlab.units import MIB


@pytest.fixture(scope="module")
def fit() -> Fit:
    request = Request(target="/home/me/net.py:build", batch=8, precision="amp-bf16")
    return with_cards(predict(a_trace(), request), a_trace(), choose_cards("h200,T4,1GiB"))


def test_in_the_terminal(fit: Fit) -> None:
    out, sheet = paper()
    show_fit(fit, out)
    compare("fit.txt", sheet.getvalue())


def test_a_narrow_terminal_loses_nothing(fit: Fit) -> None:
    out, sheet = paper()
    out.width = 50
    show_fit(fit, out)
    assert "activations" in sheet.getvalue()
    assert "▲ peak" in sheet.getvalue()


def test_drawn(fit: Fit, tmp_path: Path) -> None:
    save_chart(memory_chart(fit), tmp_path / "step.png")
    with Image.open(tmp_path / "step.png") as picture:
        assert picture.width > 1400
        seen = {colour[:3] for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    for kind in ("weights", "optimizer", "activations", "temporary", "gradients"):
        assert tuple(bytes.fromhex(_COLOURS[kind][1:])) in seen


def test_every_kind_has_a_colour_and_a_sign() -> None:
    assert set(_COLOURS) == set(GLYPHS) == set(KINDS)
    assert len(set(GLYPHS.values())) == len(KINDS)


def test_columns_show_the_memory_in_use() -> None:
    held: dict[Kind, tuple[int, ...]] = dict.fromkeys(KINDS, (0, 0, 0, 0))
    held["weights"], held["activations"] = (2 * MIB,) * 4, (0, 2 * MIB, 6 * MIB, 0)
    drawn = plot(Timeline((0.0, 0.25, 0.5, 0.75), held, ((0.0, "forward"),), 0.5), 4, 4)
    columns = [[row[column] for row in reversed(drawn.rows)] for column in range(4)]
    assert columns == [
        ["weights", None, None, None],
        ["weights", "activations", None, None],
        ["weights", "activations", "activations", "activations"],
        ["weights", None, None, None],
    ]
    assert (drawn.highest, drawn.peak_column) == (8 * MIB, 2)
