"""Apple silicon: the output of sysctl on Macs."""

from __future__ import annotations

import platform

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card
from ownlab.machine.vendors.apple import parse_sysctl, read_apple, with_python_health

M2 = "machdep.cpu.brand_string: Apple M2 Pro\nhw.memsize: 34359738368\nsysctl.proc_translated: 0\n"
TRANSLATED = "machdep.cpu.brand_string: VirtualApple @ 2.50GHz\nhw.memsize: 17179869184\nsysctl.proc_translated: 1\n"
INTEL = "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\nhw.memsize: 17179869184\n"


def test_an_apple_chip() -> None:
    (card,) = parse_sysctl(M2, machine="arm64")
    assert (card.vendor, card.index) == ("apple", 0)
    assert card.name == Known("Apple M2 Pro", source="sysctl machdep.cpu.brand_string")
    assert card.memory_total == Known(34359738368, source="sysctl hw.memsize (shared with the CPU)", unit="B")
    assert value_of(card.health) == "OK"


def test_a_translated_python_cannot_use_the_gpu() -> None:
    (card,) = parse_sysctl(TRANSLATED, machine="x86_64")
    assert card.name == Unknown("Rosetta hides the chip's name")
    assert "Rosetta" in (value_of(card.health) or "")


def test_a_translated_python_that_sees_the_real_chip_name() -> None:
    (card,) = parse_sysctl(M2, machine="x86_64")
    assert value_of(card.name) == "Apple M2 Pro"
    assert "Rosetta" in (value_of(card.health) or "")


def test_a_mac_with_an_intel_chip_has_no_apple_gpu() -> None:
    assert parse_sysctl(INTEL, machine="x86_64") == ()


def test_sysctl_without_output() -> None:
    (card,) = parse_sysctl("", machine="arm64")
    assert card.name == Unknown("sysctl does not name the chip")
    assert card.memory_total == Unknown("sysctl does not report hw.memsize")


@pytest.mark.skipif(platform.system() == "Darwin", reason="says what other systems have")
def test_other_systems_have_none() -> None:
    assert read_apple() == ()


@pytest.mark.parametrize(("ours", "asked"), [(M2, "x86_64"), (TRANSLATED, "arm64")])
def test_the_selected_interpreter_counts_not_the_one_of_ownlab(ours: str, asked: str) -> None:
    (card,) = parse_sysctl(ours, machine="arm64" if asked == "x86_64" else "x86_64")
    judged = value_of(with_python_health(card, Known(asked, source="platform.machine()")).health) or ""
    assert ("Rosetta" in judged) == (asked == "x86_64")
    assert with_python_health(card, Unknown("not read")) == card


def test_the_health_of_other_cards_is_unchanged() -> None:
    card = Card("amd", 0)
    assert with_python_health(card, Known("x86_64", source="platform.machine()")) == card
