"""Fields by name: the format of nvidia-smi, our own fields, and unknown names."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from tests.instruments.top.samples import BEGUN, GIB, a_card, moments, stream, verdicts, worked

from ownlab.errors import UsageError
from ownlab.instruments.top.fields import DEFAULT_FIELDS, FIELDS, format_header, format_rows, parse_fields
from ownlab.instruments.top.records import CardProcess, Owner, ProcessSample

# As `nvidia-smi --query-gpu=… --format=csv` prints an H200 under full load.
SMI = {
    "name": "NVIDIA H200",
    "index": "0",
    "uuid": "GPU-1838e071-51df-d46d-b58b-83ac4ee1fe62",
    "pci.bus_id": "00000000:00:06.0",
    "utilization.gpu": "99 %",
    "memory.total": "143771 MiB",
    "enforced.power.limit": "700.00 W",
    "clocks.max.sm": "1980 MHz",
    "pcie.link.gen.current": "5",
    "pcie.link.width.current": "16",
    "pstate": "P0",
    "fan.speed": "[N/A]",
    "clocks_throttle_reasons.active": "0x0000000000000004",
    "clocks_throttle_reasons.sw_power_cap": "Active",
    "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
    "count": "1",
}


@pytest.mark.parametrize("name", SMI)
def test_a_field_is_formatted_as_by_nvidia_smi(name: str) -> None:
    (line,) = format_rows(parse_fields(name), stream("bf16")[-1])
    assert line == SMI[name]


def test_rows_are_formatted_as_by_nvidia_smi() -> None:
    (sample,) = moments(a_card(45.0, power=71.126, temperature=61.0), a_card(index=1), count=1)
    fields = parse_fields(" index, utilization.gpu,memory.used ,power.draw,temperature.gpu")
    assert format_header(fields) == "index, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu"
    assert format_rows(fields, sample) == ["0, 45 %, 256 MiB, 71.13 W, 61", "1, 99 %, 256 MiB, 100.00 W, [N/A]"]
    assert format_rows(fields, sample, units=False)[0] == "0, 45, 256, 71.13, 61"


def test_the_header_uses_the_names_of_nvidia_smi_for_aliases() -> None:
    requested = "gpu_name,clocks.sm,clocks.gr,power.limit,clocks_throttle_reasons.active,Utilization.GPU"
    named = (
        "name, clocks.current.sm [MHz], clocks.current.graphics [MHz], power.limit [W], clocks_event_reasons.active, "
        "utilization.gpu [%]"
    )
    assert format_header(parse_fields(requested)) == named


def test_the_serial_number_by_both_of_its_names() -> None:
    with_serial, without = replace(a_card(), serial="1650223001234"), a_card()
    (sample,) = moments(with_serial, count=1)
    assert format_header(parse_fields("index,gpu_serial")) == "index, serial"
    assert format_rows(parse_fields("index,serial"), sample) == ["0, 1650223001234"]
    (sample,) = moments(without, count=1)
    assert format_rows(parse_fields("serial"), sample) == ["[N/A]"]


def test_the_time_is_local_with_milliseconds() -> None:
    (sample,) = moments(a_card(), count=1)
    local = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(BEGUN + 1))
    assert format_rows(parse_fields("timestamp"), sample) == [f"{local}.000"]


def test_our_own_fields() -> None:
    owner = Owner("r1", "lab/train.ipynb", "ada")
    card = a_card(
        saturation=worked(sm=0.7538, tensor=93.04),
        processes=(CardProcess(7, memory=GIB),),
        pcie_received=2.5 * 1024**2,
        memory_free=79 * GIB,
    )
    samples = moments(card, count=3, processes=(ProcessSample(7, owner=owner),), cpu=12.34)
    requested = "sm.active,tensor.active,memory.free,pcie.received,processes,notebooks,verdict,verdict.sentence,host.cpu,interval"
    (line,) = format_rows(parse_fields(requested), samples[-1], verdicts(samples))
    assert line == (
        "0.75 %, 93.04 %, 80896 MiB, 2.5 MiB/s, 1, lab/train.ipynb, tensor, "
        "Compute-bound on tensor cores: they are active 93 % of the time. This is what the card is for., 12.3 %, 1.000 s"
    )


def test_fields_of_the_host_give_one_line() -> None:
    (sample,) = moments(a_card(), a_card(index=1), count=1, cpu=50.0, memory_used=GIB)
    assert format_rows(parse_fields("host.cpu,host.memory.used"), sample) == ["50.0 %, 1024 MiB"]


def test_without_cards_there_is_still_a_line() -> None:
    (sample,) = moments(count=1, cpu=50.0)
    assert format_rows(parse_fields("index,utilization.gpu,host.cpu,count"), sample) == ["[N/A], [N/A], 50.0 %, 0"]


def test_a_cell_with_a_comma_is_quoted() -> None:
    owners = [ProcessSample(7, owner=Owner("r1", 'a, "b".ipynb', "ada"))]
    (sample,) = moments(a_card(processes=(CardProcess(7),)), count=1, processes=tuple(owners))
    assert format_rows(parse_fields("notebooks,index"), sample) == ['"a, ""b"".ipynb", 0']


def test_every_field_can_be_read_from_any_sample() -> None:
    everything = parse_fields(FIELDS)
    for sample in (*moments(count=1), *moments(a_card(None), count=1), *stream("copy")[:1]):
        assert len(format_rows(everything, sample)) == 1
    assert len(parse_fields(DEFAULT_FIELDS)) > 20


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        ("utilisation.gpu", "Did you mean utilization.gpu"),
        ("memory.usd", "Did you mean memory.used"),
        ("sm.activ", "Did you mean sm.active"),
        ("tensor", "Did you mean"),
        ("clocks_throttle_reasons.hw_slow", "Did you mean clocks_event_reasons.hw_slowdown"),
        ("ecc.mode.current", "is a field of nvidia-smi that ownlab does not sample"),
        ("compute_cap", "is a field of nvidia-smi that ownlab does not sample"),
        ("vbios_version", "is a field of nvidia-smi that ownlab does not sample"),
        ("power.draw.instant", "is a field of nvidia-smi that ownlab does not sample"),
        ("frame.rate", "Unknown field frame.rate. All fields"),
        ("§", "Unknown field §"),
    ],
)
def test_an_unknown_field_suggests_the_nearest(requested: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_fields(f"index,{requested}")
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("requested", ["", " , ,"])
def test_no_fields_are_refused(requested: str) -> None:
    with pytest.raises(UsageError, match="No fields given"):
        parse_fields(requested)
