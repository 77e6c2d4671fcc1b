"""`ownlab bench` on a real NVIDIA card: beside Triton's clock and a copy timed by hand, against the catalogue's limits.

Plain functions without fixtures. Figures are printed (pytest -s), and written as JSON into $OUT where that is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "src" / "ownlab_guest" / "launch.py"
GIB = 1 << 30


def say(text: str) -> None:
    """For pytest -s."""
    sys.stdout.write(text + "\n")


def keep(name: str, text: str) -> None:
    """So that it can be looked at afterwards."""
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], name).write_text(text)


def asked(seconds: float = 300, **request: Any) -> list[dict[str, Any]]:
    """The guest's events, each with the second in which it came."""
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        path = Path(folder, "request.json")
        path.write_text(json.dumps({"folder": folder, **request}))
        began = time.monotonic()
        command = [sys.executable, str(LAUNCH), "bench.run", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as guest:
            assert guest.stdout is not None
            events = [{**json.loads(line), "at": time.monotonic() - began} for line in guest.stdout]
            assert guest.wait(timeout=seconds) == 0
    assert events[-1]["event"] == "done", events[-3:]
    return events


def results(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {event["name"]: event for event in events if event["event"] == "result"}


def beside() -> dict[str, Any]:
    """As beside.py measured it, once for all tests."""
    if not BESIDE:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        }
        ran = subprocess.run(
            [sys.executable, str(ROOT / "tests_gpu" / "beside.py")],
            capture_output=True,
            text=True,
            timeout=180,
            env=environment,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        keep("bench-beside.json", ran.stdout)
        BESIDE.update(json.loads(ran.stdout))
        say(json.dumps(BESIDE, indent=1))
    return BESIDE


BESIDE: dict[str, Any] = {}


def difference(kind: str) -> float:
    ours, theirs = (float(statistics.median(beside()[kind][side])) for side in ("ours", "theirs"))
    say(f"{kind}: ours {ours * 1e3:.4f} ms, theirs {theirs * 1e3:.4f} ms, {ours / theirs - 1:+.2%}")
    return abs(ours / theirs - 1)


def test_a_bf16_product_is_within_2_percent_of_tritons_clock() -> None:
    assert difference("product") < 0.02


def test_it_repeats_within_one_and_a_half_percent() -> None:
    for kind in ("product", "copy"):
        ours = beside()[kind]["ours"]
        spread = (max(ours) - min(ours)) / statistics.median(ours)
        say(f"{kind}: repeats within {spread:.2%}")
        assert spread < 0.015, (kind, ours)


def test_a_copy_is_within_3_percent_of_one_timed_by_hand() -> None:
    assert difference("copy") < 0.03


def benched(name: str, *arguments: str) -> tuple[dict[str, Any], float]:
    """What `ownlab bench` reports, as a person starts it; and its wall time. The report is left as NAME in $OUT."""
    with tempfile.TemporaryDirectory(dir=ROOT) as home:
        path = Path(home, name)
        command = [sys.executable, "-m", "ownlab", "bench", "--python", sys.executable, "--no-keep"]
        began = time.monotonic()
        ran = subprocess.run(
            [*command, "--save", str(path), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=ROOT,
            env={**os.environ, "OWNLAB_HOME": home},
            check=False,
        )
        seconds = time.monotonic() - began
        say(f"{ran.stdout}{ran.stderr}{seconds:.1f} s in all")
        assert ran.returncode == 0, ran.stderr
        keep(name, path.read_text())
        return json.loads(path.read_text()), seconds


def test_the_default_profile_measures_everything_in_its_time_and_below_what_is_possible() -> None:
    """What it leaves in $OUT may be put into the library, if nothing else ran."""
    report, seconds = benched("h200.json")
    for result in report["results"]:
        state = result["after"] or {}
        share = "" if result["share_of_peak"] is None else f"{result['share_of_peak']:.0%} of {result['limit']['what']}"
        say(f"{result['name']:50} n={result['count']} {share} {state.get('clock_mhz')} MHz {state.get('throttle')}")
    own = [skip for skip in report["skipped"] if skip["group"] != "frameworks"]  # those may be built for the CPU alone
    assert {skip["reason"] for skip in own} <= {"cache-cannot-be-avoided", "no-pillow", "unsupported"}, own
    assert seconds < 200
    on_card = [result for result in report["results"] if result["device"] == "cuda:0" and result["group"] != "launch"]
    assert len(on_card) >= 20
    for result in on_card:
        assert result["before"]["clock_mhz"], result["name"]
        assert result["after"]["temperature_c"], result["name"]
    assert [result["name"] for result in report["results"] if result["verdict"] == "above-limit"] == []
    assert any(result["share_of_peak"] is not None for result in report["results"])
    assert "matmul fp8 8192" in [result["name"] for result in report["results"]]


def test_a_product_that_is_not_waited_for_seems_faster_than_any_card() -> None:
    measured = results(asked(profile="default", groups=["products", "launch"]))
    true = statistics.median(measured["batch matmul fp32 800"]["seconds"])
    returned = statistics.median(measured["launch of batch matmul fp32 800"]["seconds"])
    say(f"800×800×800: {true * 1e3:.1f} ms, and {returned * 1e6:.0f} µs until the call returns")
    assert returned < true / 20


def test_the_quick_profile_takes_less_than_half_a_minute() -> None:
    report, seconds = benched("bench-quick.json", "--quick")
    assert seconds < 30
    names = {result["name"] for result in report["results"]}
    assert {"matmul bf16 8192", "memory copy 1024 MiB", "resnet50 training bf16 128"} <= names


def test_with_little_memory_smaller_sizes_are_measured() -> None:
    events = asked(profile="quick", groups=["training"], memory_bytes=4 * GIB)
    skipped = [event["name"] for event in events if event.get("reason") == "out-of-memory"]
    smaller = [name for name in results(events) if name.startswith("resnet50 training bf16")]
    say(f"with 4 GiB: no {skipped}, but {sorted(results(events))}")
    assert "resnet50 training bf16 128" in skipped
    assert smaller


@contextlib.contextmanager
def load(name: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests_gpu.loads", name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as working:
        try:
            assert working.stdout is not None
            assert working.stdout.readline().strip() == "ready", name
            yield
        finally:
            working.kill()


def test_on_a_card_in_use_little_memory_is_taken_and_a_note_says_so() -> None:
    with load("held"):
        plan, *rest = asked(profile="quick", groups=["memory"])
    assert "Others use this card" in plan["notes"][0]
    assert all("Others use this card" in " ".join(result["notes"]) for result in results(rest).values())
    assert results(rest)
