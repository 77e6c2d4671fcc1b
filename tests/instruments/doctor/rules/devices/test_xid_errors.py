"""Xid errors in the kernel log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.devices.xid_errors import XidErrors
from ownlab.machine.facts import Known
from ownlab.machine.records import Card, Machine


@pytest.mark.parametrize(
    ("name", "numbers", "blocks"),
    [
        ("xid-13-43-ptmain", [13, 43], False),
        ("xid-31-13-32-desktop-418", [31, 13, 32], False),
        ("xid-31-62-45-plotter", [31, 62, 45], True),
        ("xid-119-gsp-dmesg", [119], True),
        ("xid-149-154-nvlink-gb200", [149, 154], True),
        ("xid-48-63-94-row-remap", [48, 63, 94], True),
        ("xid-63-odd-bus", [63], False),
        ("xid-79-aer-tesla-2018", [79], True),
    ],
)
def test_each_xid_number_is_reported_once(
    case: Any, find: Any, paste: Any, name: str, numbers: list[int], blocks: bool
) -> None:
    findings = find(XidErrors, case(None, paste(f"errors/{name}.txt")))
    assert [int(finding.title.split(":")[0].removeprefix("Xid ")) for finding in findings] == numbers
    assert any(finding.blocks for finding in findings) is blocks


def test_lines_are_counted_and_the_last_is_shown(case: Any, find: Any, paste: Any) -> None:
    findings = find(XidErrors, case(None, paste("errors/xid-31-62-45-plotter.txt")))
    assert findings[2].evidence[0] == "Xid 45: 3 times, on PCI 0000:0a:00; the last one:"
    assert findings[2].evidence[1].endswith("Ch 0000000a")
    (finding,) = find(XidErrors, case(None, paste("errors/xid-45-caused-by-149.txt")))
    assert "PCI 0000:dc:00, PCI 0000:ed:00, PCI 0000:ba:00 and PCI 0000:97:00" in finding.evidence[0]


def test_the_due_recovery_action_is_named(case: Any, find: Any, paste: Any) -> None:
    findings = find(XidErrors, case(None, paste("errors/xid-149-154-nvlink-gb200.txt")))
    assert findings[1].fix[0].startswith("GPU Reset Required: ")
    over = "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    (finding,) = find(XidErrors, case(None, over))
    assert not finding.blocks


def test_a_line_in_both_log_and_message_counts_once(of: Any, case: Any, find: Any, h200: Machine) -> None:
    line = "[74889.644138] NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus."
    logged = msgspec.structs.replace(
        h200, host=msgspec.structs.replace(h200.host, kernel_log=Known((line,), source="dmesg"))
    )
    (finding,) = find(XidErrors, case(logged, line, where="kernel log"))
    assert finding.evidence[0] == "Xid 79: on PCI 0000:00:06; the last one:"
    assert not finding.blocks  # torch sees the card now: the line is of the past


def test_another_card_still_works(of: Any, case: Any, find: Any, paste: Any) -> None:
    two = tuple(
        of(Card, vendor="nvidia", index=i, bus_id=place)
        for i, place in enumerate(("00000000:41:00.0", "00000000:1B:00.0"))
    )
    text = paste("errors/xid-119-gsp-dmesg.txt")
    (finding,) = find(XidErrors, case(of(Machine, cards=two), text))
    assert (finding.severity, finding.blocks) == ("error", False)
    (finding,) = find(XidErrors, case(of(Machine, cards=two[:1]), text))
    assert finding.blocks


def test_an_xid_of_a_healthy_card_does_not_block(of: Any, case: Any, find: Any) -> None:
    line = "NVRM: Xid (PCI:0000:41:00): 109, pid=1234, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT"
    card = of(Card, vendor="nvidia", index=0, bus_id="00000000:41:00.0", health="OK")
    (finding,) = find(XidErrors, case(of(Machine, cards=(card,)), line, where="kernel log"))
    assert (finding.severity, finding.blocks) == ("error", False)
    ill = msgspec.structs.replace(card, health=Known("recovery action: reset the GPU", source="NVML"))
    (finding,) = find(XidErrors, case(of(Machine, cards=(ill,)), line, where="kernel log"))
    assert finding.blocks


def test_an_unknown_xid_has_no_explanation(case: Any, find: Any) -> None:
    (finding,) = find(XidErrors, case(None, "NVRM: Xid (PCI:0000:01:00): 9999, something new"))
    assert finding.meaning == "The meaning of Xid 9999 is unknown."
    assert not finding.blocks


def test_other_driver_messages_are_no_xid(case: Any, find: Any, paste: Any, h200: Machine) -> None:
    assert find(XidErrors, case(None, paste("errors/rminitadapter-2016.txt"))) == []
    assert find(XidErrors, case(h200)) == []
