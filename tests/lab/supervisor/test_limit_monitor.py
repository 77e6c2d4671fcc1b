"""Limits of real runtimes, with short times."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from ownlab.config.limits import Limits
from ownlab.errors import LabError
from ownlab.lab.journal.records import EVENT, json_object
from ownlab.lab.store.rows import CardRequest

KIND = "NVIDIA GeForce GTX 1080 Ti"
IDLE = 5.0  # seconds; on a busy machine it takes some until a client has run its first cell


def run(client: Any, code: str) -> None:
    reply = client.execute_interactive(code, timeout=300, output_hook=lambda _: None)
    assert reply["content"]["status"] == "ok", reply["content"]


def test_an_idle_runtime_ends_and_a_busy_one_does_not(bench: Any) -> None:
    runtime = bench.start(limits=Limits(idle=IDLE))
    client = runtime.ready()

    run(client, f"import time; time.sleep({IDLE + 1.5})")
    assert runtime.ask("status")["ends_why"] == f"after {IDLE:g} s idle"

    assert runtime.ended() == 0


def test_work_of_a_child_is_not_idle_time(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start(limits=Limits(idle=IDLE))
    done = bench.folder / "done"
    work = f"import time\nend = time.time() + {IDLE + 2}\nwhile time.time() < end: pass\nopen({str(done)!r}, 'w')"
    run(runtime.ready(), f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {work!r}])")

    assert runtime.ended() == 0
    assert done.exists()


def test_work_on_the_card_is_not_idle_time(bench: Any, waiting: Callable[..., Any]) -> None:
    asked, working = bench.folder / "asked", bench.folder / "working"
    working.touch()
    device = json.dumps(bench.cards[0]._asdict())
    probe = f"""
import json, os
open({str(asked)!r}, 'a').write('.')
print(json.dumps([{{**json.loads({device!r}), 'utilisation': 90 if os.path.exists({str(working)!r}) else 0}}]))
"""
    runtime = bench.start(
        limits=Limits(idle=1.0),
        want=CardRequest(KIND, 1),
        devices=bench.cards[:1],
        probe=[sys.executable, "-c", probe],
    )
    runtime.ready()

    waiting(lambda: asked.exists() and len(asked.read_text()) >= 2, "the card was looked at twice")
    assert runtime.process.poll() is None
    working.unlink()

    assert runtime.ended() == 0


def test_an_idle_card_without_a_page_is_released(bench: Any, waiting: Callable[..., Any]) -> None:
    """With a page, even one of a server that was killed later, it stays; afterwards it is warned of, saved, and released."""
    limits = Limits(unattended=IDLE, warn=IDLE - 1, on_end=30.0)
    runtime = bench.start_in_lab(limits=limits, want=CardRequest(KIND, 1), devices=bench.cards[:1])
    page = runtime.follow(page=True)
    saved = bench.folder / "saved"
    page.run(f"import ownlab; ownlab.on_end(lambda: open({str(saved)!r}, 'w').close())")

    time.sleep(2 * IDLE)
    assert runtime.ask("status")["ends_at"] is None
    page.close()  # without a goodbye, as the pages of a killed server
    status = waiting(lambda: (now := runtime.ask("status"))["warned"] and now, "it warns")
    assert status["ends_why"] == f"after {IDLE:g} s idle with no page open"

    assert runtime.ended() == 0
    assert saved.exists()
    events = [json_object(record.parts[0]) for record in runtime.journal() if record.channel == EVENT]
    # Background activity may have postponed the end after a first warning.
    warnings = [event for event in events if event["event"] == "limit-warning"]
    assert {warning["why"] for warning in warnings} == {status["ends_why"]}
    assert events[-1]["why"] == status["ends_why"]


def test_a_cpu_runtime_without_a_page_stays(bench: Any) -> None:
    runtime = bench.start_in_lab(limits=Limits(unattended=0.5))
    runtime.ready()
    time.sleep(2.0)
    assert runtime.ask("status")["ends_at"] is None


def test_a_session_has_a_warning_is_extended_and_ends(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start(limits=Limits(session=10.0, warn=9.0, extend=2.0))
    client = runtime.ready()
    client.execute("import time; time.sleep(600)")

    status = waiting(lambda: (now := runtime.ask("status"))["warned"] and now, "it warns")
    assert (status["ends_why"], status["may_extend"]) == ("sessions end after 10 s", True)
    assert 0 < status["ends_at"] - time.time() <= 9.0
    extended = runtime.ask("extend")
    assert extended["ends_at"] - status["ends_at"] == pytest.approx(2.0, abs=0.1)

    def shown() -> bool:
        with bench.store as store:
            row = store.runtimes()[0]
        return bool(row.ends_at == pytest.approx(extended["ends_at"], abs=0.1) and row.may_extend)

    waiting(shown, "everyone sees it in the store")
    assert runtime.ended() == 0


def test_a_runtime_without_limits_cannot_be_extended(bench: Any) -> None:
    runtime = bench.start()
    runtime.ready()
    with pytest.raises(LabError, match="no time limit to extend"):
        runtime.ask("extend")


def test_an_exhausted_quota_ends_it(bench: Any) -> None:
    runtime = bench.start(want=CardRequest(KIND, 2), devices=bench.cards, limits=Limits(card_seconds_per_week=4.0))
    assert runtime.ended() == 0

    with bench.store as store:
        used = store.usage("2000-01-01")[0]
        assert used.card_seconds == pytest.approx(2 * used.seconds)
        assert used.card_seconds >= 4.0
    second = bench.start(
        want=CardRequest(KIND, 1), devices=bench.cards, limits=Limits(card_seconds_per_week=4.0), wait=True
    )
    assert second.ended() != 0
    assert second.state()["state"] == "refused"
    assert "this week" in second.state()["reason"]
