"""Reading the window of the profiler: what belongs to which part of a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.instruments.why.made_window import MadeWindow, three_steps

from ownlab.instruments.why.gpu.kernel_window import read_window


def test_kernels_belong_to_the_part_that_launched_them(tmp_path: Path) -> None:
    window = read_window(three_steps().write(tmp_path), 3)
    assert window is not None
    assert window.busy_by_phase == {"forward": 600.0, "backward": 900.0, "optimizer": 30.0}
    assert window.busy_us == 1530
    assert (window.kernels, window.short_kernels, window.launches) == (12, 6, 12)
    first = window.operations[0]
    assert (first.phase, first.op, first.types, first.shapes) == ("backward", "aten::mm", ("float",), ((32, 64),))
    assert (first.count, first.us, first.unfilled_us) == (3, 900.0, 900.0)


def test_waits_are_those_of_the_operators_around_them(tmp_path: Path) -> None:
    made = three_steps()
    for number in range(3):
        made.operator("aten::item", 1000.0 * number + 195, 425)
    window = read_window(made.write(tmp_path), 3)
    assert window is not None
    assert window.waits_us == {"sync": 3 * 425, "copy": 0}


def test_idle_time_by_what_the_host_did(tmp_path: Path) -> None:
    made = three_steps()
    for number in range(3):
        made.runtime("cudaMalloc", 1000.0 * number + 730, 100)
    window = read_window(made.write(tmp_path), 3)
    assert window is not None
    # Each step ends at 715; the host allocates from 730 to 830, and the next copy begins at 1010.
    assert window.idle_us["allocation"] == 2 * 100
    assert window.idle_us["optimizer"] == pytest.approx(3 * 50 + 2 * 15 - 3 * 5 + 3 * 5, abs=30)
    assert sum(window.idle_us.values()) == pytest.approx(2715 - 10 - window.busy_us - window.copies_us)


def test_copies_beside_kernels_are_not_counted_twice(tmp_path: Path) -> None:
    window = read_window(three_steps().write(tmp_path), 3)
    assert window is not None
    (copies,) = window.copies
    assert (copies.kind, copies.count, copies.bytes, copies.us) == (
        "Memcpy HtoD (Pageable -> Device)",
        3,
        3_000_000,
        270.0,
    )
    assert window.copies_us == 270


def test_a_wait_at_the_end_is_the_profilers_own(tmp_path: Path) -> None:
    made = three_steps().runtime("cudaDeviceSynchronize", 2_900, 5_000)
    window = read_window(made.write(tmp_path), 3)
    assert window is not None
    assert window.waits_us["sync"] == 3 * 412


def test_a_window_without_kernels_says_nothing(tmp_path: Path) -> None:
    assert read_window(MadeWindow().annotation("Optimizer.step#SGD.step", 0, 10).write(tmp_path), 3) is None


def test_many_kinds_of_kernels_are_summed_up(tmp_path: Path) -> None:
    made = MadeWindow()
    for number in range(400):
        made.launch("aten::mul", f"kernel {number}", number * 20, number * 20 + 10, 1 + number % 3)
    window = read_window(made.write(tmp_path), 1)
    assert window is not None
    assert len(window.operations) == 251
    assert sum(each.us for each in window.operations) == pytest.approx(sum(1 + number % 3 for number in range(400)))


def test_a_closure_within_the_optimizer_is_no_part_of_it(tmp_path: Path) -> None:
    made = three_steps()
    for number in range(3):
        made.annotation("Optimizer.step#AdamW.step", 1000.0 * number + 90, 660)
    window = read_window(made.write(tmp_path), 3)
    assert window is not None
    assert window.busy_by_phase == {"forward": 600.0, "backward": 900.0, "optimizer": 30.0}
