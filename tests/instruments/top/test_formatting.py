"""Figures and process rows as people read them."""

from __future__ import annotations

from msgspec.structs import replace
from tests.instruments.top.scenes import scene

from ownlab.instruments.top.formatting import BUSY, matching, process_rows, sorted_rows
from ownlab.instruments.top.records import CardSample, Saturation


def test_busy_is_the_figure_that_the_verdict_speaks_of() -> None:
    measured = CardSample("GPU-0", 0, utilisation=100.0, saturation=Saturation(graphics=13.2))
    assert (BUSY.value(measured), BUSY.words(measured)) == (13.2, "13 %")
    assert BUSY.value(replace(measured, saturation=None)) == 100


def test_rows_say_whose_a_process_is() -> None:
    rows = {row.pid: row for row in process_rows(scene(1, "product", "small")[0])}
    assert rows[4711].whose == "train resnet.ipynb (ann)"
    assert rows[815].whose == "bob in docker 9f8e7d6c"
    assert rows[99_999_999].whose == "not of this PID namespace"
    assert rows[4711].cards == (0,)


def test_rows_are_sorted_with_the_unknown_last_and_filtered_by_all_words() -> None:
    rows = process_rows(scene(1, "product")[0])
    assert [row.pid for row in sorted_rows(rows)] == [4711, 815, 99_999_999]
    assert [row.pid for row in sorted_rows(rows, reverse=True)] == [815, 4711, 99_999_999]
    assert [row.pid for row in sorted_rows(rows, "PID")] == [815, 4711, 99_999_999]
    assert [row.pid for row in matching(rows, "RESNET ann")] == [4711]
    assert [row.pid for row in matching(rows, "resnet bob")] == []
