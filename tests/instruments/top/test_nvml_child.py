"""The NVML child process: its answers, its failures, and that nothing waits for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ownlab.instruments.top.fields import parse_fields
from ownlab.instruments.top.nvml_child import PENDING, NvmlChild

UUID = "GPU-00000000-1111-2222-3333-444444444444"
Fake = Callable[[dict[str, Any]], dict[str, str]]
Until = Callable[..., Any]


@pytest.fixture
def children() -> Iterator[Callable[[dict[str, str]], NvmlChild]]:
    with contextlib.ExitStack() as stack:

        def start(environ: dict[str, str]) -> NvmlChild:
            return stack.enter_context(contextlib.closing(NvmlChild(environ)))

        yield start


def test_a_request_can_be_sent_before_the_answer_is_needed(
    fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until
) -> None:
    child = children(fake_nvml({"cards": [{}]}))
    child.begin()
    assert child.pid is not None
    cards, trouble = until(lambda: (answer := child.ask())[0] and answer)
    assert trouble == ""
    assert (cards[0].uuid, cards[0].name, cards[0].memory_used) == (UUID, "NVIDIA H200", 0)


def test_serial_numbers_where_a_card_has_one(fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until) -> None:
    """`ownlab top --query serial`: GeForce cards answer that it is not supported."""
    child = children(fake_nvml({"cards": [{}, {"nvmlDeviceGetUUID": "GPU-1", "errors": {"nvmlDeviceGetSerial": 3}}]}))
    cards, _ = until(lambda: (answer := child.ask())[0] and answer)
    assert [card.serial for card in cards] == ["1650522001234", None]
    (field,) = parse_fields("gpu_serial")
    assert field.name == "serial"


def test_mig_instances_are_listed(fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until) -> None:
    slices = [{"nvmlDeviceGetUUID": f"MIG-{number}"} for number in range(2)]
    child = children(fake_nvml({"cards": [{"nvmlDeviceGetMigMode": [1, 1], "mig": slices}]}))
    cards, _ = until(lambda: (answer := child.ask())[0] and answer)
    assert [(card.uuid, card.parent) for card in cards] == [(UUID, ""), ("MIG-0", UUID), ("MIG-1", UUID)]


@pytest.mark.parametrize(("init", "message"), [(18, "version mismatch"), ("crash", "SIGSEGV")])
def test_a_failing_driver_is_reported_and_asked_again_later(
    init: object, message: str, fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until
) -> None:
    child = children(fake_nvml({"init": init, "cards": [{}]}))
    until(lambda: message in child.ask()[1])
    assert message in child.ask()[1]  # at once, and without a new child
    assert child.pid is None
    fake_nvml({"cards": [{}]})
    cards, trouble = until(lambda: (answer := child.ask())[0] and answer)
    assert (len(cards), trouble) == (1, "")


def test_a_hanging_driver_does_not_block(fake_nvml: Fake, children: Callable[..., NvmlChild]) -> None:
    child = children(fake_nvml({"init": "hang", "cards": [{}]}))
    assert child.ask(within=0.2) == ((), PENDING)


def test_a_child_that_was_killed_is_started_again(
    fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until
) -> None:
    child = children(fake_nvml({"cards": [{}]}))
    until(lambda: child.ask()[0])
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: "SIGKILL" in child.ask()[1])
    until(lambda: child.ask()[0])


def test_a_card_that_fell_off_the_bus_is_found_again_after_its_reset(
    fake_nvml: Fake, children: Callable[..., NvmlChild], until: Until
) -> None:
    lost = {"errors": {"nvmlDeviceGetMemoryInfo": 15}}
    child = children(fake_nvml({"cards": [{}, lost]}))
    (first, second), trouble = until(lambda: (answer := child.ask())[0] and answer)
    assert (first.lost, second.lost, trouble) == ("", "GPU is lost", "")
    # The fake reads this when it starts, as NVML does, so a new child was needed.
    fake_nvml({"cards": [{}, {}]})
    until(lambda: [card.lost for card in child.ask()[0]] == ["", ""])


def test_the_child_ends_when_its_host_is_killed(fake_nvml: Fake, until: Until) -> None:
    code = (
        "import time; from ownlab.instruments.top.nvml_child import NvmlChild; child = NvmlChild()\n"
        "while not child.ask()[0]: pass\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=fake_nvml({"cards": [{}]})
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.kill()
    host.communicate()
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_importing_it_loads_no_large_library() -> None:
    code = (
        "import sys, ownlab.instruments.top.nvml_child; print(sorted({'msgspec', 'rich', 'psutil'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
