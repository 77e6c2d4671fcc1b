"""The screenshot of `ownlab top` in the README: `python -m tests.instruments.top.screen.readme_screenshot docs/images/top.svg`."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from msgspec.structs import replace
from tests.instruments.top.scenes import ListSource, processes, sample

from ownlab.instruments.top.recording import read
from ownlab.instruments.top.records import CardSample, Sample
from ownlab.instruments.top.screen.app import TopApp
from ownlab.instruments.top.screen.model import Feed, View
from ownlab.instruments.top.verdict_window import Window

STREAMS = Path(__file__).resolve().parents[3] / "streams"


def cards(at: int) -> list[CardSample]:
    """Return two recorded H200s: one in training, one with tiny kernels."""
    found = []
    for index, name in enumerate(("h200-transformer", "h200-tiny")):
        recorded = list(read(STREAMS / f"{name}.ndjson"))
        card = recorded[at % len(recorded)].cards[0]
        running = tuple(replace(each, pid=processes()[index].pid) for each in card.processes or ())
        found.append(replace(card, index=index, uuid=f"GPU-{index}", processes=running))
    return found


async def draw(path: Path) -> None:
    """Write the screenshot."""
    samples: list[Sample] = [sample(at, cards(at), processes()[:2]) for at in range(80)]
    view = View(Window(30.0))
    for each in samples[:-1]:
        view.add(each)
    feed = Feed(ListSource(samples[-1:]), interval=1.0, speed=None, record=lambda sample: None)
    app = TopApp(view, feed, "ownlab top · gpubox · every 1 s · verdicts over 30 s")
    async with app.run_test(size=(104, 30)) as pilot:
        while view.sample is not samples[-1]:
            await pilot.pause()
        view.ended = ""
        app.draw()
        await pilot.pause()
        picture = app.export_screenshot(title="ownlab top")
        # No fonts from the network, for privacy: readers have their own.
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1])))
