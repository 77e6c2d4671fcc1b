"""The outputs of one cell, beyond the comparison with JupyterLab itself: limits, notes, dumps."""

from __future__ import annotations

import json

import nbformat
import pytest

from ownlab.lab.journal.outputs import Outputs, is_valid_content

LIMIT = 10_000


def prints(outputs: Outputs, text: str, name: str = "stdout") -> None:
    outputs.add("stream", {"name": name, "text": text}, len(text))


def shows(outputs: Outputs, data: str, display: str = "") -> None:
    content = {"data": {"text/plain": data}, "metadata": {}, "transient": {"display_id": display}}
    outputs.add("display_data", content, len(data))


def texts(outputs: Outputs) -> list[str]:
    return [output.get("text") or output["data"]["text/plain"] for output in outputs.as_json()]


def assert_valid(outputs: Outputs) -> None:
    cell: dict[str, object] = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "execution_count": None}
    cells = [{**cell, "outputs": outputs.as_json()}]
    nbformat.validate({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def test_a_long_stream_keeps_its_beginning_and_end_with_a_note_between() -> None:
    outputs = Outputs(LIMIT)
    for number in range(10_000):
        prints(outputs, f"line {number}\n")
    first, note, last = texts(outputs)
    assert first.startswith("line 0\nline 1\n")
    assert last.endswith("line 9998\nline 9999\n")
    assert "dropped here" in note
    assert "9.8 KiB" in note
    assert LIMIT // 2 < len(first) + len(last) <= LIMIT
    prints(outputs, "more\n")
    assert texts(outputs)[2].endswith("line 9999\nmore\n")
    assert_valid(outputs)


def test_an_endless_line_is_trimmed_too() -> None:
    outputs = Outputs(LIMIT)
    for _ in range(3_000):
        prints(outputs, "0123456789")
    first, note, last = texts(outputs)
    assert first.startswith("0123")
    assert last.endswith("6789")
    assert "dropped" in note
    assert len(first) + len(last) <= LIMIT


def test_the_first_and_last_of_many_images_are_kept() -> None:
    outputs = Outputs(LIMIT)
    for number in range(100):
        shows(outputs, f"{number}".ljust(1_000), f"id{number}")
    kept = [text.strip() for text in texts(outputs)]
    assert kept[:5] == ["0", "1", "2", "3", "4"]
    assert kept[-1] == "99"
    assert sum("dropped" in text for text in kept) == 1
    # What was left out is no longer changed; what is there is.
    assert not outputs.update("id50", {"data": {"text/plain": "new"}, "metadata": {}}, 3)
    assert outputs.update("id99", {"data": {"text/plain": "new"}, "metadata": {}}, 3)
    assert texts(outputs)[-1] == "new"


def test_an_image_beyond_the_limit_is_dropped_with_a_note() -> None:
    outputs = Outputs(LIMIT)
    prints(outputs, "before\n")
    shows(outputs, "x" * 50_000)
    prints(outputs, "after\n")
    before, note, after = texts(outputs)
    assert (before, after) == ("before\n", "after\n")
    assert "48.8 KiB of this cell's output were dropped" in note


def test_after_a_clear_nothing_is_dropped() -> None:
    outputs = Outputs(LIMIT)
    prints(outputs, "x" * 20_000)
    outputs.clear(wait=True)
    prints(outputs, "new")
    assert texts(outputs) == ["new"]


def test_a_note_is_on_its_own_line_and_clears_nothing() -> None:
    outputs = Outputs(LIMIT)
    prints(outputs, "half a line", "stderr")
    outputs.note("the disk was full")
    assert texts(outputs) == ["half a line\n[ownlab: the disk was full]\n"]
    outputs.clear(wait=True)
    outputs.note("again")
    assert texts(outputs)[-1] == "[ownlab: again]\n"
    prints(outputs, "new")
    assert texts(outputs) == ["new"]


def test_fields_unknown_to_nbformat_are_not_saved() -> None:
    outputs = Outputs(LIMIT)
    more = {"transient": {}, "private": 1}
    outputs.add("error", {"ename": "E", "evalue": "v", "traceback": ["t", 1], **more}, 10)
    outputs.add("execute_result", {"data": {"text/plain": "1"}, "metadata": {}, "execution_count": 2, **more}, 10)
    assert outputs.as_json() == [
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t", "1"]},
        {"output_type": "execute_result", "data": {"text/plain": "1"}, "metadata": {}, "execution_count": 2},
    ]
    assert_valid(outputs)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("stream", {"name": "stdout"}),
        ("stream", {"name": "stdout", "text": ["a"]}),
        ("display_data", {"data": "x", "metadata": {}}),
        ("error", {"ename": "E", "evalue": None, "traceback": []}),
        ("clear_output", {}),
    ],
)
def test_content_that_jupyterlab_rejects_is_rejected(kind: str, content: dict[str, object]) -> None:
    assert not is_valid_content(kind, content)


def test_the_state_can_be_dumped_and_loaded() -> None:
    outputs = Outputs(LIMIT)
    prints(outputs, "x" * 20_000)
    shows(outputs, "one", "id")
    prints(outputs, "abc\r", "stderr")
    again = Outputs(LIMIT)
    again.load(json.loads(json.dumps(outputs.dump())))
    for target in (outputs, again):
        prints(target, "X", "stderr")
        target.update("id", {"data": {"text/plain": "two"}, "metadata": {}}, 3)
        shows(target, "y" * 6_000)
    assert again.as_json() == outputs.as_json()
    assert again.display_ids == outputs.display_ids
