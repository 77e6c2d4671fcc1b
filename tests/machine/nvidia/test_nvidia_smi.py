"""nvidia-smi's XML of many drivers, complete, truncated and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.errors import InputError, NotRecognised
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.nvidia.nvidia_smi import parse
from ownlab.machine.records import Card
from ownlab.units import MIB

SOURCE = "nvidia-smi -q -x"


def one_card(inside: str) -> Card:
    _, (card,) = parse(f'<nvidia_smi_log><gpu id="00000000:01:00.0">{inside}</gpu></nvidia_smi_log>')
    return card


def test_h200(h200_xml: str) -> None:
    nvidia, (card,) = parse(h200_xml)
    assert nvidia.driver == Known("580.159.04", source=SOURCE)
    assert nvidia.cuda == Known("13.0", source=SOURCE)
    assert nvidia.smi == Known("580.159.04", source=SOURCE)
    assert card.name == Known("NVIDIA H200", source=SOURCE)
    assert card.bus_id == Known("00000000:00:06.0", source=SOURCE)
    assert card.architecture == Known("Hopper", source=SOURCE)
    assert card.memory_total == Known(143771 * MIB, source=SOURCE, unit="B")
    assert card.memory_used == Known(0, source=SOURCE, unit="B")
    assert card.utilisation == Known(0, source=SOURCE, unit="%")
    assert card.power_draw == Known(129.85, source=SOURCE, unit="W")
    assert card.power_limit == Known(700.0, source=SOURCE, unit="W")
    assert card.temperature == Known(38, source=SOURCE, unit="°C")
    assert card.clocks.sm == Known(1980, source=SOURCE, unit="MHz")
    assert card.clocks.memory_max == Known(3201, source=SOURCE, unit="MHz")
    assert card.throttle_reasons == Known(("gpu-idle",), source=SOURCE)
    assert card.pcie.generation_max == Known(5, source=SOURCE)
    assert card.pcie.width == Known(16, source=SOURCE)
    assert card.ecc.enabled == Known(True, source=SOURCE)
    assert card.ecc.uncorrected == Known(0, source=SOURCE)
    assert card.ecc.remap_failed == Known(False, source=SOURCE)
    assert card.mig == Known(False, source=SOURCE)
    assert card.persistence == Known(True, source=SOURCE)
    assert card.compute_mode == Known("default", source=SOURCE)
    assert card.driver_model == Unknown('nvidia-smi reports "N/A"')
    assert card.health == Known("OK", source=SOURCE)
    assert card.processes == Known((), source=SOURCE)


def test_the_caller_chooses_the_source(h200_xml: str) -> None:
    nvidia, (card,) = parse(h200_xml, source="pasted text")
    assert nvidia.driver == Known("580.159.04", source="pasted text")
    assert card.clocks.sm == Known(1980, source="pasted text", unit="MHz")


def test_mig_instances_of_an_a100(pastes: Path) -> None:
    _, (card,) = parse((pastes / "layout-v12-a100-mig.xml").read_text())
    assert value_of(card.mig) is True
    assert card.utilisation == Unknown('nvidia-smi reports "N/A"')
    assert card.ecc.remap_pending == Unknown('nvidia-smi reports "N/A"')  # the whole element says so
    instances = value_of(card.mig_instances)
    assert instances is not None
    assert [each.uuid for each in instances] == [
        f"MIG-GPU-11111111-2222-3333-4444-555555555555/{number}/0" for number in (1, 5, 13)
    ]
    assert instances[0].memory_total == Known(40192 * MIB, source=SOURCE, unit="B")
    assert instances[0].memory_used == Known(20480 * MIB, source=SOURCE, unit="B")


def test_processes_and_pages_of_a_t4(pastes: Path) -> None:
    nvidia, (card,) = parse((pastes / "layout-v11-t4.xml").read_text())
    assert value_of(nvidia.driver) == "515.65.01"
    assert value_of(card.power_limit) == 70.0
    assert (value_of(card.pcie.width), value_of(card.pcie.width_max)) == (8, 16)
    assert value_of(card.mig_instances) == ()  # "None"
    assert value_of(card.ecc.remap_pending) is False  # from its retired pages
    processes = value_of(card.processes)
    assert processes is not None
    assert [(each.pid, each.kind, value_of(each.command)) for each in processes] == [
        (1101, "graphics", "/usr/lib/xorg/Xorg"),
        (1234, "compute", "python3"),
    ]
    assert processes[1].memory == Known(2100 * MIB, source=SOURCE, unit="B")


def test_newer_and_older_names_of_the_same_functions(pastes: Path) -> None:
    _, (new,) = parse((pastes / "layout-v13-rtx3080.xml").read_text())
    assert (value_of(new.power_draw), value_of(new.power_limit)) == (211.1, 320.0)
    assert value_of(new.throttle_reasons) == ()
    _, (middle,) = parse((pastes / "layout-v12-a100-mig.xml").read_text())
    assert (value_of(middle.power_draw), value_of(middle.power_limit)) == (71.3, 400.0)
    assert value_of(middle.throttle_reasons) == ("gpu-idle",)
    nvidia, (old,) = parse((pastes / "layout-v10-gtx1070ti.xml").read_text())
    assert nvidia.cuda == Unknown("this output of nvidia-smi has no cuda_version")
    assert (value_of(old.power_draw), value_of(old.power_limit)) == (9.75, 170.0)
    assert value_of(old.throttle_reasons) == ("gpu-idle",)
    assert old.ecc.uncorrected == Unknown('nvidia-smi reports "N/A"')
    assert value_of(old.memory_total) == 8117 * MIB


def test_omitted_elements_are_unknown() -> None:
    text = "<nvidia_smi_log><gpu><fb_memory_usage><total>4096 MiB</total></fb_memory_usage></gpu></nvidia_smi_log>"
    nvidia, (card,) = parse(text)
    assert nvidia.driver == Unknown("this output of nvidia-smi has no driver_version")
    assert value_of(card.memory_total) == 4096 * MIB
    assert card.processes == Unknown("this output of nvidia-smi has no processes")


def test_driver_610_has_new_names_for_its_versions() -> None:
    old, new = "610.62 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]", "610.62"
    nvidia, _ = parse(f"<nvidia_smi_log><driver_version>{old}</driver_version></nvidia_smi_log>")
    assert value_of(nvidia.driver) == "610.62"
    nvidia, _ = parse(
        f"<nvidia_smi_log><kmd_version>{new}</kmd_version><cuda_umd_version>13.3</cuda_umd_version></nvidia_smi_log>"
    )
    assert (value_of(nvidia.driver), value_of(nvidia.cuda)) == ("610.62", "13.3")


def test_ecc_errors_as_drivers_before_450_list_them() -> None:
    layout = "<device_memory>N/A</device_memory><register_file>2</register_file><total>{}</total>"
    card = one_card(
        "<ecc_errors><volatile>"
        f"<single_bit>{layout.format(7)}</single_bit><double_bit>{layout.format('N/A')}</double_bit>"
        "</volatile><aggregate><double_bit><total>9</total></double_bit></aggregate></ecc_errors>"
    )
    assert value_of(card.ecc.corrected) == 7
    assert card.ecc.uncorrected == Unknown('nvidia-smi reports "N/A"')


def test_ecc_errors_by_memory_and_by_detection() -> None:
    card = one_card(
        "<ecc_errors><volatile><sram_correctable>1</sram_correctable><dram_correctable>2</dram_correctable>"
        "<sram_uncorrectable_parity>3</sram_uncorrectable_parity><sram_uncorrectable_secded>4</sram_uncorrectable_secded>"
        "<dram_uncorrectable>5</dram_uncorrectable></volatile></ecc_errors>"
    )
    assert (value_of(card.ecc.corrected), value_of(card.ecc.uncorrected)) == (3, 12)


@pytest.mark.parametrize("answer", ["N/A", "[N/A]", "Not Supported", "[Not Supported]", "ERR!", "[Unknown Error]"])
def test_text_in_place_of_a_value_becomes_the_reason(answer: str) -> None:
    card = one_card(f"<utilization><gpu_util>{answer}</gpu_util></utilization><serial>{answer}</serial>")
    assert card.utilisation == Unknown(f'nvidia-smi reports "{answer}"')


def test_a_value_that_is_not_a_number() -> None:
    card = one_card(
        "<utilization><gpu_util>lots</gpu_util></utilization><fb_memory_usage><total>x</total></fb_memory_usage>"
    )
    assert card.utilisation == Unknown('nvidia-smi reports "lots"')
    assert card.memory_total == Unknown('nvidia-smi reports "x"')


@pytest.mark.parametrize(
    ("inside", "health"),
    [
        ("<fan_speed>[GPU requires reset]</fan_speed>", "GPU requires reset"),
        ("<product_name>GPU is lost</product_name>", "GPU is lost"),
        ("<temperature><gpu_temp>ERR!</gpu_temp></temperature>", "ERR!"),
        ("<fb_memory_usage><used>[Unknown Error]</used></fb_memory_usage>", "Unknown Error"),
        ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "GPU requires reset"),
        ("<gpu_recovery_action>Reset</gpu_recovery_action>", "recovery action: Reset"),
        ("<fan_speed>ERR!</fan_speed><fb_memory_usage><total>1 MiB</total></fb_memory_usage>", "OK"),
        ("<product_name>Tesla T4</product_name>", None),
    ],
)
def test_health(inside: str, health: str | None) -> None:
    assert value_of(one_card(inside).health) == health


def test_reasons_for_slow_clocks() -> None:
    reasons = ("sw_power_cap", "hw_thermal_slowdown", "applications_clocks_setting", "something_new")
    for kind in ("event", "throttle"):
        inside = "".join(
            f"<clocks_{kind}_reason_{name}>Active</clocks_{kind}_reason_{name}>"
            f"<clocks_{kind}_reason_sync_boost>Not Active</clocks_{kind}_reason_sync_boost>"
            for name in reasons
        )
        card = one_card(f"<clocks_{kind}_reasons>{inside}</clocks_{kind}_reasons>")
        assert value_of(card.throttle_reasons) == ("sw-power-cap", "hw-thermal", "applications-clocks", "something-new")
    assert one_card("<clocks_throttle_reasons>N/A</clocks_throttle_reasons>").throttle_reasons == Unknown(
        'nvidia-smi reports "N/A"'
    )


def test_processes_under_windows_and_without_number() -> None:
    card = one_card(
        "<driver_model><current_dm>WDDM</current_dm></driver_model><processes>"
        "<process_info><pid>4</pid><type>C+G</type><process_name>C:\\Program Files\\a b\\c.exe</process_name>"
        "<used_memory>N/A</used_memory></process_info>"
        "<process_info><pid>XXXX</pid><type>C</type></process_info></processes>"
    )
    assert value_of(card.driver_model) == "WDDM"
    (process,) = value_of(card.processes) or ()
    assert (process.pid, process.kind, value_of(process.command)) == (4, "compute", "C:\\Program Files\\a b\\c.exe")
    assert process.memory == Unknown('nvidia-smi reports "N/A"')
    assert one_card("<processes>N/A</processes>").processes == Unknown('nvidia-smi reports "N/A"')


def test_truncated_xml_keeps_complete_cards_and_complete_parts(pastes: Path) -> None:
    whole = (pastes / "layout-v11-t4.xml").read_text()
    gpu = whole[whole.index("<gpu ") : whole.index("</gpu>") + len("</gpu>")]
    two = whole.replace(gpu, gpu + gpu)
    middle = two.index("<process_info>", two.index("</gpu>")) + 60  # within the first process of the second card
    nvidia, (first, second) = parse(two[:middle])
    assert isinstance(nvidia.smi, Unknown)
    assert "cut or damaged" in nvidia.smi.reason
    assert value_of(nvidia.driver) == "515.65.01"
    assert isinstance(first.processes, Known)
    assert len(first.processes.value) == 2
    assert value_of(second.name) == "Tesla T4"
    assert second.index == 1
    assert second.processes == Unknown("this output of nvidia-smi has no processes")


def test_truncated_xml_gives_a_part_of_the_whole(h200_xml: str) -> None:
    text = h200_xml[: h200_xml.index("<supported_clocks>")]
    _, (whole,) = parse(h200_xml)
    for length in range(text.index("<gpu id") + 40, len(text), 97):
        nvidia, (card,) = parse(text[:length])
        assert isinstance(nvidia.smi, Unknown)
        assert card.bus_id == whole.bus_id
        for field in ("name", "uuid", "memory_total", "memory_used", "power_draw", "throttle_reasons"):
            assert value_of(getattr(card, field)) in (None, value_of(getattr(whole, field)))


def test_text_around_the_xml_is_ignored(h200_xml: str) -> None:
    nvidia, cards = parse(f"$ nvidia-smi -q -x\n{h200_xml}\n$ echo <done>\n")
    assert isinstance(nvidia.smi, Known)
    assert len(cards) == 1


def test_no_cards() -> None:
    nvidia, cards = parse("<nvidia_smi_log><driver_version>580.65.06</driver_version></nvidia_smi_log>")
    assert cards == ()
    assert value_of(nvidia.driver) == "580.65.06"


@pytest.mark.parametrize(
    "text", ["", "Failed to initialize NVML: Unknown Error", "<html></html>", "<nvidia_smi_log", "\0" * 9]
)
def test_other_xml_is_not_recognized(text: str) -> None:
    with pytest.raises(NotRecognised):
        parse(text)


def test_entities_are_rejected_but_a_plain_doctype_is_not() -> None:
    log = "<nvidia_smi_log><gpu><product_name>&b;</product_name></gpu></nvidia_smi_log>"
    bomb = f'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>{log}'
    with pytest.raises(InputError, match="declares entities"):
        parse(bomb)
    nvidia, _ = parse(f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">{log}')
    assert isinstance(nvidia.smi, Unknown)
    assert "undefined entity" in nvidia.smi.reason
