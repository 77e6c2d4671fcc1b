"""The full screen and its keys, driven by Textual; test_pty.py does the same in a real terminal."""

from __future__ import annotations

import asyncio
import html
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat

import pytest
from tests.instruments.top.scenes import ListSource, scene
from textual.pilot import Pilot

from ownlab.errors import OwnlabError
from ownlab.instruments.top.records import Sample
from ownlab.instruments.top.screen.app import TopApp
from ownlab.instruments.top.screen.model import Feed, View
from ownlab.instruments.top.source import Source
from ownlab.instruments.top.verdict_window import Window

Screen = Pilot[OwnlabError]
FAST = 10_000.0  # speed of a replay


def text_of(screen: Screen) -> str:
    """Return all text on the screen."""
    picture = screen.app.export_screenshot()
    lines = re.findall(r"<text[^>]*clip-path[^>]*>(.*?)</text>", picture)
    return " ".join(html.unescape(re.sub("<[^>]+>", "", line)).replace("\xa0", " ") for line in lines)


async def shows(screen: Screen, *words: str) -> str:
    """Wait until all of these are on the screen."""
    deadline = time.monotonic() + 180
    while True:
        await screen.pause()
        text = " ".join(text_of(screen).split())
        if all(word in text for word in words):
            return text
        assert time.monotonic() < deadline, f"{words} not in:\n{text}"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def screen_of(
    samples: Sequence[Sample] | Source, *, size: tuple[int, int] = (80, 24), live: bool = False
) -> AsyncIterator[Screen]:
    source = ListSource(samples) if isinstance(samples, Sequence) else samples
    feed = Feed(source, interval=0.2, speed=None if live else FAST, record=lambda sample: None)
    app = TopApp(View(Window(30.0)), feed, "ownlab top")
    async with app.run_test(size=size, notifications=True) as pilot:
        yield pilot


def test_a_card_is_shown_with_its_verdict_and_its_notebook() -> None:
    async def run() -> None:
        async with screen_of(scene(60, "small")) as screen:
            text = await shows(screen, "end of the recording")
            assert "0 NVIDIA H200" in text
            assert "Small kernels: the card is busy 99 % of the time, but only 0.75 % of its SMs" in text
            assert "larger batches" in text
            assert "train resnet.ipynb (ann)" in text
            assert "12.3 GiB of 141 GiB" in text
            assert "busiest core 93 %" in text

    asyncio.run(run())


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5), (200, 60)])
def test_every_size_of_terminal_works(size: tuple[int, int]) -> None:
    async def run() -> None:
        async with screen_of(scene(40, "product", "small", "idle", "old"), size=size) as screen:
            await screen.press("right", "z", "down", "z", "question_mark", "escape")
            await screen.resize_terminal(90, 30)
            await shows(screen, "Compute-bound on tensor cores", "Probably small kernels")

    asyncio.run(run())


def test_the_selected_card_is_visible_on_a_small_screen() -> None:
    async def run() -> None:
        async with screen_of(scene(30, *["product", "small", "idle", "old"] * 2)) as screen:
            await shows(screen, "1–6 / 8", "end of the recording")
            await screen.press("left")
            await shows(screen, "3–8 / 8", ">7 GTX 1080 Ti")
            await screen.press("right")
            await shows(screen, "1–6 / 8", ">0 H200")

    asyncio.run(run())


def test_without_a_gpu_the_host_is_shown_with_the_reason() -> None:
    async def run() -> None:
        async with screen_of(scene(5)) as screen:
            text = await shows(screen, "No GPU to watch: no GPU was found on this machine", "42 GiB of 128 GiB")
            assert "No process uses a card" in text
            await screen.press("e")
            await shows(screen, "There is no card to explain.")

    asyncio.run(run())


def test_zoom_shows_every_measure_and_explain_shows_the_reasons() -> None:
    async def run() -> None:
        async with screen_of(scene(60, "product", "small"), size=(100, 40)) as screen:
            await shows(screen, "end of the recording")
            await screen.press("right", "z")
            text = await shows(screen, "occup.", "fp64", "clock")
            assert "Compute-bound" not in text
            assert "train resnet" not in text  # that is on card 0
            await screen.press("e")
            await shows(screen, "Reasons", "SMs active: 0.75 % (below 50 %)", "code: small")
            await screen.press("escape", "escape")
            await shows(screen, "Compute-bound on tensor cores")

    asyncio.run(run())


def test_sort_reverse_and_filter() -> None:
    def first(screen: Screen) -> int:
        assert isinstance(screen.app, TopApp)
        return screen.app.view.rows()[0].pid

    async def run() -> None:
        async with screen_of(scene(10, "product")) as screen:
            await shows(screen, "GPU mem▼", "end of the recording")
            assert first(screen) == 4711
            await screen.press("r")
            await shows(screen, "GPU mem▲")
            assert first(screen) == 815
            await screen.press("s", "s")
            await shows(screen, "CPU▲")
            await screen.press("slash", *"resnet", "enter")
            text = await shows(screen, "only “resnet”")
            assert "bob" not in text
            await screen.press("slash", *"zzz", "enter")
            await shows(screen, "No process matches “zzz”. Esc shows all.")
            await screen.press("escape")
            await shows(screen, "bob in docker")

    asyncio.run(run())


def test_pause_keeps_the_display_and_loses_no_sample() -> None:
    samples = scene(400, "product")

    async def run() -> None:
        async with screen_of(samples, live=True) as screen:
            assert isinstance(screen.app, TopApp)
            view = screen.app.view
            await shows(screen, "Compute-bound")
            await screen.press("p")
            text = await shows(screen, "PAUSED,", "behind")
            paused_at = view.sample
            assert "PAUSED" in text
            await screen.press("space")
            await shows(screen, "Compute-bound")
            assert not view.paused
            assert list(view.history) == samples[: len(view.history)]
            assert paused_at is not view.sample

    asyncio.run(run())


def test_a_replay_waits_while_paused() -> None:
    async def run() -> None:
        async with screen_of(scene(500, "product")) as screen:
            await screen.press("p")
            text = await shows(screen, "PAUSED")
            if "end of the recording" not in text:
                await asyncio.sleep(0.1)
                assert "end of the recording" not in text_of(screen)
            await screen.press("p")
            await shows(screen, "end of the recording")

    asyncio.run(run())


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def endless(own: int) -> ListSource:
    samples = scene(30, "product", own=own)
    return ListSource(chain(samples, repeat(samples[-1])))


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_a_signal_is_sent_to_ones_own_process_after_confirmation() -> None:
    child = sleeper()

    async def run() -> None:
        async with screen_of(endless(child.pid), live=True) as screen:
            await shows(screen, str(child.pid))
            await screen.press("slash", *str(child.pid), "enter", "k")
            await shows(screen, f"Signal process {child.pid}", "SIGTERM", "ask it to exit")
            await screen.press("y")  # no signal is selected yet
            await screen.press("2")
            await shows(screen, "Really send SIGTERM")
            await screen.press("n")
            await screen.pause()
            assert child.poll() is None
            await screen.press("k", "2", "y")
            await until(lambda: child.poll() is not None)
            await shows(screen, f"Sent SIGTERM to process {child.pid}.")

    try:
        asyncio.run(run())
        assert child.wait(10) == -15
    finally:
        child.kill()


def test_a_process_of_another_namespace_is_refused_without_a_dialog() -> None:
    async def run() -> None:
        async with screen_of(endless(1), live=True) as screen:
            await shows(screen, "99999999")
            await screen.press("slash", *"namespace", "enter", "k")
            text = await shows(screen, "Process 99999999 is in another PID namespace")
            assert "Signal process" not in text

    asyncio.run(run())


def test_processes_of_a_recording_cannot_be_signalled() -> None:
    async def run() -> None:
        async with screen_of(scene(5, "product")) as screen:
            await shows(screen, "end of the recording")
            await screen.press("k")
            await shows(screen, "Recorded processes cannot be signalled.")

    asyncio.run(run())


def test_an_error_while_sampling_ends_the_screen() -> None:
    class Breaks(ListSource):
        def take(self) -> Sample:
            raise OwnlabError("the recording stopped: the disk is full")

    async def run() -> OwnlabError | None:
        async with screen_of(Breaks([])) as screen:
            await until(lambda: screen.app.return_value is not None)
            return screen.app.return_value

    error = asyncio.run(run())
    assert isinstance(error, OwnlabError)
    assert "disk is full" in error.message


def test_control_characters_are_replaced() -> None:
    from msgspec.structs import replace

    from ownlab.instruments.top.screen.widgets import clean

    evil = "\x1b]0;pwned\x07[bold]x[/bold]"
    samples = [
        replace(
            sample,
            processes=tuple(replace(process, command=evil, owner=None, user="eve") for process in sample.processes),
        )
        for sample in scene(3, "product")
    ]

    async def run() -> None:
        async with screen_of(samples) as screen:
            text = await shows(screen, "eve")
            assert "\x1b" not in text
            await screen.press("slash", *"eve", "enter")
            await shows(screen, "[bold]x[/bo")

    assert "\x1b" not in clean(evil)
    asyncio.run(run())
