"""The events of the guest: in an interpreter without torch, and from tests that fail in each way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab_guest.bench import device, disk, frameworks, image_loading, plan, run
from ownlab_guest.bench.request import Request, read
from ownlab_guest.bench.timing import Outcome, Skipped

LAUNCH = Path(__file__).parents[3] / "src" / "ownlab_guest" / "launch.py"
Event = dict[str, Any]


def command(folder: Path, **fields: Any) -> list[str]:
    path = folder / "request.json"
    path.write_text(json.dumps({"profile": "quick", "folder": str(folder), **fields}))
    return [sys.executable, "-S", str(LAUNCH), "bench.run", str(path)]  # -S: neither torch nor numpy


def events(folder: Path, **fields: Any) -> list[Event]:
    ran = subprocess.run(command(folder, **fields), capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_without_torch_and_numpy_the_disk_is_measured_and_the_rest_is_skipped(tmp_path: Path) -> None:
    plan, *others, done = events(tmp_path, groups=["products", "training", "disk"])
    assert [test["name"] for test in plan["tests"]] == ["disk sequential read", "disk 4K random reads x1"]
    assert (plan["torch"], plan["numpy"], plan["device"]) == (None, None, "cpu")
    skipped = [event for event in others if event["event"] == "skipped"]
    assert [(event["name"], event["reason"]) for event in skipped[:2]] == [
        ("products", "no-torch"),
        ("training", "no-torch"),
    ]
    assert done == {"event": "done"}
    results = [event for event in others if event["event"] == "result"]
    if len(skipped) > 2:  # on this file system the cache cannot be avoided
        assert {event["reason"] for event in skipped[2:]} == {"cache-cannot-be-avoided"}
        return
    assert [(event["name"], event["unit"], event["device"]) for event in results] == [
        ("disk sequential read", "B/s", str(tmp_path)),
        ("disk 4K random reads x1", "reads/s", str(tmp_path)),
    ]
    assert results[0]["shape"]["bytes"] >= disk.LEAST_BYTES
    assert results[1]["percentiles"]["p50"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["request.json"]


def test_events_are_printed_at_once_and_a_killed_guest_leaves_no_file(tmp_path: Path) -> None:
    started = command(tmp_path, profile="full", groups=["disk"])
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert json.loads(child.stdout.readline())["event"] == "plan"
        assert json.loads(child.stdout.readline()) == {"event": "begin", "name": "disk sequential write"}
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == -signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["request.json"]


def test_unwritable_folders_are_reported(tmp_path: Path) -> None:
    host = device.Device(None, None, "cpu", Request(folder=str(tmp_path / "absent")))
    with pytest.raises(Skipped) as caught:
        disk.Disk(64).read_sequential(host, 0.1)
    assert caught.value.reason == "unwritable"
    for folder, reason in (("/dev/shm", "cache-cannot-be-avoided"), ("/proc", "no-space")):
        if os.path.isdir(folder):
            with pytest.raises(Skipped) as caught:
                disk.create_file(folder, 64, 0.1)
            assert caught.value.reason == reason


def test_cached_pages_are_detected(tmp_path: Path) -> None:
    """A file that is cached, and the same after its pages were dropped."""
    if disk.file_system(str(tmp_path)) in disk.IN_MEMORY:
        pytest.skip("no disk here")
    path = tmp_path / "file"
    path.write_bytes(os.urandom(8 * disk.PAGE))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        try:
            assert disk.is_cached(descriptor, 4 * disk.PAGE)
        except OSError as exc:
            pytest.skip(f"this file system cannot say what is cached: {exc}")
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        assert not disk.is_cached(descriptor, 4 * disk.PAGE)
    finally:
        os.close(descriptor)


# --- single tests -----------------------------------------------------------------------------------------------------


def outcomes(test: plan.Test, seconds: float = 60.0, planned: set[str] | None = None) -> Iterator[tuple[str, str]]:
    host = device.Device(None, None, "cpu", Request())
    for event in run.run_test(host, test, time.monotonic() + seconds, planned or set()):
        yield str(event["event"]), str(event.get("reason", event["name"]))


def sized(size: int, most: int) -> plan.Test:
    def measure(host: device.Device, seconds: float) -> Outcome:
        if size > most:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return Outcome([1.0], 1.0)

    smaller = (sized(size // 2, most),) if size > 1 else ()
    return plan.Test(f"size {size}", "products", "FLOP/s", measure, "cpu", smaller=smaller)


def test_without_enough_memory_smaller_sizes_are_tried() -> None:
    assert list(outcomes(sized(8, most=2))) == [
        ("begin", "size 8"),
        ("skipped", "out-of-memory"),
        ("begin", "size 4"),
        ("skipped", "out-of-memory"),
        ("begin", "size 2"),
        ("result", "size 2"),
    ]
    assert list(outcomes(sized(8, most=2), planned={"size 4"})) == [("begin", "size 8"), ("skipped", "out-of-memory")]


def test_a_test_that_raises_is_skipped_with_the_message() -> None:
    def measure(host: device.Device, seconds: float) -> Outcome:
        raise ZeroDivisionError("float division by zero")

    test = plan.Test("bad", "cpu", "s", measure, "cpu")
    host = device.Device(None, None, "cpu", Request())
    _, skipped = run.run_test(host, test, time.monotonic() + 60, set())
    assert skipped == {
        "event": "skipped",
        "name": "bad",
        "group": "cpu",
        "reason": "failed",
        "message": "ZeroDivisionError: float division by zero",
    }


def test_no_test_starts_when_time_is_up() -> None:
    assert list(outcomes(sized(1, most=1), seconds=0.0)) == [("begin", "size 1"), ("skipped", "budget")]


def test_the_memory_of_the_host_is_checked_first() -> None:
    host = device.Device(None, None, "cpu", Request())
    with pytest.raises(Skipped) as caught:
        host.require_memory(1 << 60)
    assert caught.value.reason == "out-of-memory"
    host.require_memory(1 << 20)


def test_little_memory_is_used_beside_others_unless_a_size_is_given() -> None:
    assert device.memory_limit(None, 16 << 30, others=False) is None
    assert device.memory_limit(None, 16 << 30, others=True) == 4 << 30
    assert device.memory_limit(12 << 30, 16 << 30, others=True) == 12 << 30


@pytest.mark.parametrize(
    ("content", "words"),
    [({"profile": "slow"}, "quick"), ({"device_name": "x"}, "device_name")],
)
def test_an_invalid_request_is_refused(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=words):
        read(str(path))


# --- workers, frameworks --------------------------------------------------------------------------------------------------


def test_images_are_decoded_by_workers(torch_python: str) -> None:
    ran = subprocess.run(
        [torch_python, str(LAUNCH), "bench.image_loading", repr(time.monotonic()), repr(time.monotonic() + 0.1)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    moments = image_loading._parse_moments(ran.stdout)
    assert moments == sorted(moments)
    with pytest.raises(Skipped) as caught:
        image_loading._parse_moments(b'{"missing": "this Python has no Pillow"}')
    assert caught.value.reason == "no-pillow"


def test_a_framework_that_fails_is_skipped() -> None:
    host = device.Device(None, None, "cpu", Request())
    with pytest.raises(Skipped) as caught:
        frameworks.product(host, 0.1, "no_such_framework", "fp32", 64)
    assert caught.value.reason == "failed"
    assert "no_such_framework" in str(caught.value)
