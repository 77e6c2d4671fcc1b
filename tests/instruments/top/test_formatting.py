"""Figures and process rows as people read them."""

from __future__ import annotations

from msgspec.structs import replace
from tests.instruments.top.scenes import scene

from ownlab.instruments.top.formatting import BUSY, filter_rows, process_rows, sort_rows
from ownlab.instruments.top.records import CardSample, Saturation


def test_busy_is_the_value_that_verdicts_use() -> None:
    measured = CardSample("GPU-0", 0, utilisation=100.0, saturation=Saturation(graphics=13.2))
    assert (BUSY.value(measured), BUSY.format(measured)) == (13.2, "13 %")
    assert BUSY.value(replace(measured, saturation=None)) == 100


def test_rows_name_the_owner_of_a_process() -> None:
    rows = {row.pid: row for row in process_rows(scene(1, "product", "small")[0])}
    assert rows[4711].owner == "train resnet.ipynb (ann)"
    assert rows[815].owner == "bob in docker 9f8e7d6c"
    assert rows[99_999_999].owner == "in another PID namespace"
    assert rows[4711].cards == (0,)


def test_rows_are_sorted_with_unknown_values_last_and_filtered_by_all_words() -> None:
    rows = process_rows(scene(1, "product")[0])
    assert [row.pid for row in sort_rows(rows)] == [4711, 815, 99_999_999]
    assert [row.pid for row in sort_rows(rows, reverse=True)] == [815, 4711, 99_999_999]
    assert [row.pid for row in sort_rows(rows, "PID")] == [815, 4711, 99_999_999]
    assert [row.pid for row in filter_rows(rows, "RESNET ann")] == [4711]
    assert [row.pid for row in filter_rows(rows, "resnet bob")] == []
