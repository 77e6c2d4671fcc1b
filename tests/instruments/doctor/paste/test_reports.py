"""Reports of two machines, or of one machine at two times, in a single text; and cards mentioned in a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Machine

CardsOf = Callable[[Machine], tuple[Card, ...]]

FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |
|-------------------------------+----------------------+----------------------+
|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |
| N/A   38C    P8     9W /  70W |      0MiB / 15360MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""


@pytest.mark.parametrize(
    "between", ["", "\nand on the other machine:\n", "\nRuntimeError: CUDA error: of the first\n\n"]
)
def test_the_second_machine_is_ignored(between: str, linux: str, cards_of: CardsOf) -> None:
    other = linux.replace("A100-SXM4-80GB", "H200").replace("535.104.05", "570.86.10").replace("2.4.0", "2.6.0")
    after = f"\n{FAILED}\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n\n{TABLE}"
    case = read_paste(linux + between + other + after)
    assert case.recognised[0] == "torch collect_env (the first of 2)"
    assert {value_of(card.name) for card in cards_of(case.machine)} == {"NVIDIA A100-SXM4-80GB"}
    assert value_of(case.machine.nvidia.driver) == "535.104.05"
    answer = "\n".join(message.text for message in case.messages)
    assert ("of the first" in answer) == ("of the first" in between)
    assert "no kernel image" not in answer
    assert FAILED not in answer
    assert case.machine.nvidia.smi == NOT_READ


def test_a_second_report_of_the_same_machine_keeps_the_errors(linux: str) -> None:
    later = linux.replace("PyTorch version: 2.4.0+cu121", "PyTorch version: 2.6.0+cu124")
    case = read_paste(f"{linux}\nwith a newer torch:\n{later}\nRuntimeError: CUDA error: the last\n")
    assert case.recognised[0] == "torch collect_env (the first of 2)"
    assert any("the last" in message.text for message in case.messages)
    (torch,) = value_of(case.machine.interpreter.frameworks) or ()
    assert value_of(torch.version) == "2.4.0+cu121"


def test_tables_of_two_machines(cards_of: CardsOf) -> None:
    other = TABLE.replace("Tesla T4            Off", "NVIDIA H200         Off")
    case = read_paste(f"{TABLE}\nRuntimeError: CUDA error: one\n\n{other}\nRuntimeError: CUDA error: two\n")
    assert [value_of(card.name) for card in cards_of(case.machine)] == ["Tesla T4"]
    assert [message.text for message in case.messages] == ["RuntimeError: CUDA error: one"]
    later = TABLE.replace("535.104.05", "570.86.10")  # the same card after an upgrade
    again = read_paste(f"{TABLE}\nNow:\n{later}\nRuntimeError: CUDA error: two\n")
    assert [message.text for message in again.messages] == ["Now:", "RuntimeError: CUDA error: two"]
    assert again.recognised == ("nvidia-smi table (the first of 2)", "error text")


# --- nvidia-smi failed, and works now ---------------------------------------------------------------------------------


def test_a_failure_before_a_working_table_does_not_count() -> None:
    case = read_paste(f"{FAILED}\n\nThen I rebooted.\n\n{TABLE}")
    assert case.machine.nvidia.smi == Known("535.104.05", "pasted nvidia-smi")
    assert "failure of nvidia-smi" not in case.recognised
    assert all(FAILED not in message.text for message in case.messages)
    assert "no-smi" not in {finding.code for finding in diagnose(case).findings}


def test_a_failure_after_a_working_table_counts() -> None:
    case = read_paste(f"{TABLE}\nAfter the update:\n{FAILED}\n")
    assert "failure of nvidia-smi" in case.recognised
    assert any(message.text == FAILED for message in case.messages)


@pytest.mark.parametrize("place", ["(host) # nvidia-smi", "outside of the container:", "on the host it works:"])
def test_a_failure_on_another_system_counts(place: str) -> None:
    case = read_paste(f"$ nvidia-smi\nFailed to initialize NVML: Unknown Error\n{place}\n{TABLE}")
    assert any(message.where == "nvidia-smi" for message in case.messages)


# --- cards in sentences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("我的显卡是 RTX 4090", ["RTX 4090"]),
        ("我的显卡是RTX4090，训练时很慢", ["RTX 4090"]),
        ("my GPU is a GTX 1080 Ti", ["GTX 1080 Ti"]),
        ("a NVIDIA GeForce RTX 3060 Ti and CUDA 12.1", ["NVIDIA GeForce RTX 3060 Ti"]),
        ("two Tesla V100 and one RTX A6000 in a server, torch 2.1", ["Tesla V100", "RTX A6000"]),
        ("training on an A100-SXM4-80GB with CUDA", ["A100"]),
        ("my GPU is a T4", ["T4"]),
        ("torch: slow on RTX 3090, RTX 4090, RTX 5090 and GTX 1080", None),  # a comparison
        ("CUDA in section T4 of the paper on A4", None),
        ("CUDA on the RTX 9999", None),
        ("cuda: saved to /data/RTX 4090.txt, run A100_3", None),
    ],
)
def test_cards_that_a_user_mentions(text: str, names: list[str] | None) -> None:
    cards = read_paste(text).machine.cards
    if names is None:
        assert isinstance(cards, Unknown)
    else:
        assert isinstance(cards, Known)
        assert cards.source == "pasted text"
        assert [value_of(card.name) for card in cards.value] == names


def test_a_report_wins_over_a_sentence(cards_of: CardsOf) -> None:
    case = read_paste(f"On my laptop with a RTX 4090 it works, here not:\n{TABLE}")
    assert [value_of(card.name) for card in cards_of(case.machine)] == ["Tesla T4"]


@pytest.mark.parametrize("error", ["RuntimeError: Found no NVIDIA driver on your system.", FAILED])
def test_a_mentioned_card_without_a_driver_is_not_listed(error: str) -> None:
    case = read_paste(f"my GPU is a GTX 1080 Ti\n{error}\n")
    assert isinstance(case.machine.cards, Unknown)
    assert not any("driver is here" in finding.title for finding in diagnose(case).findings)
