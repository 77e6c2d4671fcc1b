"""What the screen is made of, without a terminal: bars, graphs, rows, what is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from msgspec.structs import replace
from tests.instruments.top.screen.scenes import card, sample, scene

from ownlab.errors import UsageError
from ownlab.instruments.top.records import CardSample, ProcessSample, Saturation
from ownlab.instruments.top.screen.drawing import BLOCKS, PLAIN, bar, glyphs_for, graph
from ownlab.instruments.top.screen.figures import BUSY
from ownlab.instruments.top.screen.rows import matching, process_rows, sorted_rows
from ownlab.instruments.top.screen.signals import send_signal, whose_refusal
from ownlab.instruments.top.screen.view import View
from ownlab.instruments.top.window import Window


@pytest.mark.parametrize(
    ("percent", "filled"),
    [(0, ""), (0.01, "▏"), (50, "█████"), (55, "█████▌"), (100, "██████████"), (140, "██████████"), (None, "")],
)
def test_a_bar_shows_whatever_is_more_than_nothing(percent: float | None, filled: str) -> None:
    drawn, empty = bar(percent, 10)
    assert drawn == filled
    assert len(drawn + empty) == 10


def test_busy_is_the_figure_that_the_verdict_speaks_of() -> None:
    measured = CardSample("GPU-0", 0, utilisation=100.0, saturation=Saturation(graphics=13.2))
    assert (BUSY.value(measured), BUSY.words(measured)) == (13.2, "13 %")
    assert BUSY.value(replace(measured, saturation=None)) == 100


def test_a_graph_tells_nothing_from_unknown() -> None:
    assert graph([None, 0, 50, 100], 6) == ["   ▁▄▇"]
    assert graph([0, 100], 2, height=2) == [" ▇", "▁█"]
    assert graph([1, 2, 3], 0) == [""]


def test_a_terminal_without_blocks_gets_plain_characters() -> None:
    assert glyphs_for({"TERM": "xterm-256color"}, "utf-8") is BLOCKS
    assert glyphs_for({"TERM": "linux"}, "UTF-8") is PLAIN
    assert glyphs_for({"TERM": "xterm"}, "ascii") is PLAIN
    assert bar(50, 4, PLAIN) == ("##", "..")
    assert graph([0, 100], 2, 1, PLAIN) == [".*"]


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


def test_a_picture_that_stands_still_misses_nothing() -> None:
    view = View(Window(30.0))
    samples = scene(10, "product")
    for each in samples[:4]:
        view.add(each)
    view.pause()
    for each in samples[4:]:
        view.add(each)
    assert (view.sample, view.missed) == (samples[3], 6)
    view.pause()
    assert view.sample == samples[-1]
    assert len(view.series(view.cards[0].uuid, lambda each: each.utilisation, 100)) == 10


def test_a_card_that_was_away_leaves_a_gap_in_its_graph() -> None:
    view = View(Window(30.0))
    for each in (sample(0, [card()]), sample(1), sample(2, [replace(card(), lost="fell off")]), sample(3, [card()])):
        view.add(each)
    assert view.series("GPU-00000000", lambda each: each.utilisation, 4) == [100, None, None, 100]


def test_a_chosen_card_that_vanishes_leaves_another_chosen() -> None:
    view = View(Window(30.0))
    view.add(sample(0, [card(0), card(1)]))
    view.choose_card(-1)
    assert view.card is not None
    assert view.card.index == 1
    view.add(sample(1, [card(0)]))
    assert view.card is not None
    assert view.card.index == 0


def test_an_own_process_gets_the_signal() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = ProcessSample(child.pid)
    assert whose_refusal(process) == ""
    send_signal(process, signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM
    with pytest.raises(UsageError, match="has ended"):
        send_signal(process, signal.SIGTERM)


def test_a_number_that_is_anothers_now_gets_none() -> None:
    with pytest.raises(UsageError, match="its number is another's now"):
        send_signal(ProcessSample(os.getpid(), started=1.0), signal.SIGTERM)


def test_others_processes_are_refused() -> None:
    assert "PID namespace" in whose_refusal(ProcessSample(os.getpid(), here=False))
    with pytest.raises(UsageError, match="PID namespace"):
        send_signal(ProcessSample(os.getpid(), here=False), signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's process")
def test_another_users_process_is_refused_even_for_root() -> None:
    child = subprocess.Popen(["sleep", "60"], user=65534)
    try:
        assert "belongs to nobody" in whose_refusal(ProcessSample(child.pid, user="nobody"))
        with pytest.raises(UsageError, match="only your own"):
            send_signal(ProcessSample(child.pid, user="nobody"), signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
