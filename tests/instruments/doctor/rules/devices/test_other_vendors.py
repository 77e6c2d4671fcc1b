"""Accelerators of other vendors."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.devices.other_vendors import (
    AscendHealth,
    AscendSoftwareMissing,
    LibtpuMissing,
    MpsUnavailable,
    RosettaPython,
)
from ownlab.machine.facts import Unknown
from ownlab.machine.records import (
    Ascend,
    Card,
    Framework,
    FrameworkDevice,
    Host,
    Interpreter,
    Machine,
    Package,
    Tpu,
)
from ownlab.machine.vendors.apple import parse_sysctl
from ownlab.machine.vendors.ascend import parse_npu_smi

# The two lines of a chip as npu-smi 23.0.6 prints them, with the health given.
NPU = """\
| npu-smi 23.0.6                   Version: 23.0.6                                               |
+===========================+===============+====================================================+
| 1     910B4               | {health}      | 95.9        39                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          2826 / 32768         |
+===========================+===============+====================================================+
"""


@pytest.mark.parametrize("rule", [AscendHealth, AscendSoftwareMissing, MpsUnavailable, RosettaPython, LibtpuMissing])
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(rule, case(h200)) == []


# --- Ascend -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("health", "severity", "blocks"),
    [("Alarm", "error", True), ("Critical", "error", True), ("Warning", "warning", False)],
)
def test_an_npu_with_a_fault(health: str, severity: str, blocks: bool, of: Any, case: Any, find: Any) -> None:
    ascend, cards = parse_npu_smi(NPU.format(health=health))
    (finding,) = find(AscendHealth, case(of(Machine, origin="pasted", cards=cards, ascend=ascend)))
    assert (finding.severity, finding.blocks) == (severity, blocks)
    assert f"health {health}" in finding.evidence[0]


def test_one_of_two_npus(of: Any, case: Any, find: Any) -> None:
    (sick,) = parse_npu_smi(NPU.format(health="Alarm"))[1]
    (well,) = parse_npu_smi(NPU.format(health="OK"))[1]
    (finding,) = find(AscendHealth, case(of(Machine, cards=(well, sick))))
    assert not finding.blocks
    assert "ASCEND_RT_VISIBLE_DEVICES" in finding.fix[1]


def test_healthy_npus(of: Any, case: Any, find: Any) -> None:
    ascend, cards = parse_npu_smi(NPU.format(health="OK"))
    assert len(cards) == 1
    assert find(AscendHealth, case(of(Machine, origin="pasted", cards=cards, ascend=ascend))) == []


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005",
            "not loaded",
        ),
        ("dcmi model initialized failed, because the device is used. ret is -8020", "Another container"),
    ],
)
def test_failure_messages_of_npu_smi(message: str, meaning: str, case: Any, find: Any) -> None:
    (finding,) = find(AscendHealth, case(None, message))
    assert finding.blocks
    assert meaning in finding.meaning


def test_npu_smi_fails_on_this_machine(of: Any, case: Any, find: Any) -> None:
    failure = Unknown("npu-smi info ended with exit code 1: dcmi module initialize failed. ret is -8005")
    card = of(Card, vendor="huawei", index=0, name=failure, health=failure)
    machine = of(Machine, cards=(card,), ascend=of(Ascend, smi=failure), host=of(Host, container="docker"))
    (finding,) = find(AscendHealth, case(machine))
    assert finding.blocks
    assert finding.fix[0].startswith("docker run --device /dev/davinci0")


def with_npu(of: Any, *packages: Package, cann: Any = "8.0.RC3", devices: tuple[FrameworkDevice, ...] = ()) -> Machine:
    torch = of(Framework, name="torch", version="2.1.0", build="cpu", devices=devices)
    machine: Machine = of(
        Machine,
        cards=(of(Card, vendor="huawei", index=0, name="Ascend 910B4", health="OK"),),
        ascend=of(Ascend, cann=cann, smi="23.0.6"),
        interpreter=of(Interpreter, packages=packages, frameworks=(torch,)),
    )
    return machine


def test_torch_npu_is_missing(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(AscendSoftwareMissing, case(with_npu(of, Package("torch", "2.1.0"))))
    assert finding.title == "torch-npu is missing for the Ascend NPU"
    assert "pip install 'torch-npu==2.1.*'" in finding.fix[1]


def test_cann_is_missing(of: Any, case: Any, find: Any) -> None:
    no_cann = Unknown("CANN is not installed in its usual folder, /usr/local/Ascend")
    (finding,) = find(AscendSoftwareMissing, case(with_npu(of, Package("torch_npu", "2.1.0.post10"), cann=no_cann)))
    assert finding.title == "CANN is missing for the Ascend NPU"


def test_complete_ascend_software(of: Any, case: Any, find: Any) -> None:
    assert find(AscendSoftwareMissing, case(with_npu(of, Package("torch_npu", "2.1.0.post10")))) == []
    seen = with_npu(of, devices=(FrameworkDevice("Ascend910B4", kind="npu"),), cann=Unknown("it is somewhere else"))
    assert find(AscendSoftwareMissing, case(seen)) == []


# --- Apple ------------------------------------------------------------------------------------------------------------

TRANSLATED = "machdep.cpu.brand_string: VirtualApple @ 2.50GHz\nhw.memsize: 17179869184\nsysctl.proc_translated: 1\n"
NATIVE = "machdep.cpu.brand_string: Apple M2 Pro\nhw.memsize: 17179869184\nsysctl.proc_translated: 0\n"


def mac(of: Any, sysctl: str, machine: str, torch: Framework | None = None) -> Machine:
    result: Machine = of(
        Machine,
        host=of(Host, family="darwin", system="macOS 13.6"),
        cards=parse_sysctl(sysctl, machine=machine),
        interpreter=of(Interpreter, frameworks=(torch,) if torch else ()),
    )
    return result


def test_a_translated_python(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(RosettaPython, case(mac(of, TRANSLATED, "x86_64")))
    assert finding.blocks
    assert "Rosetta" in finding.evidence[0]
    assert find(RosettaPython, case(mac(of, NATIVE, "arm64"))) == []


@pytest.mark.parametrize(("build", "meaning"), [("mps", "macOS does not offer it"), ("cpu", "built without MPS")])
def test_torch_does_not_see_the_apple_gpu(build: str, meaning: str, of: Any, case: Any, find: Any) -> None:
    error = "The MPS backend is supported on MacOS 14.0+. Current OS version can be queried using `sw_vers`"
    torch = of(Framework, name="torch", version="2.9.0", build=build, devices=(), error=error)
    (finding,) = find(MpsUnavailable, case(mac(of, NATIVE, "arm64", torch)))
    assert meaning in finding.meaning
    assert f"torch: {error}" in finding.evidence


def test_torch_sees_the_apple_gpu_or_was_not_queried(of: Any, case: Any, find: Any) -> None:
    device = FrameworkDevice("Apple M2 Pro", kind="mps")
    seeing = of(Framework, name="torch", version="2.5.1", build="mps", devices=(device,))
    not_asked = of(Framework, name="torch", version="2.5.1")
    for torch in (seeing, not_asked):
        assert find(MpsUnavailable, case(mac(of, NATIVE, "arm64", torch))) == []
    blind = of(Framework, name="torch", version="2.2.2", build="cpu", devices=())
    assert find(MpsUnavailable, case(mac(of, TRANSLATED, "x86_64", blind))) == []  # rosetta says it


# --- TPU --------------------------------------------------------------------------------------------------------------

NO_LIBTPU = Unknown("libtpu.so is in none of the system's folders; the package libtpu may hold one")


def with_tpu(of: Any, *packages: Package, libtpu: Any = NO_LIBTPU, files: Any = ("/dev/accel0",)) -> Machine:
    machine: Machine = of(
        Machine,
        tpu=of(Tpu, device_files=files, libtpu=libtpu),
        interpreter=of(Interpreter, packages=packages),
    )
    return machine


def test_a_tpu_without_its_library(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(LibtpuMissing, case(with_tpu(of, Package("jax", "0.10.2"))))
    assert finding.fix[0] == "pip install -U 'jax[tpu]'"
    assert finding.evidence[0] == "device files: /dev/accel0"


def test_tpus_with_their_library(of: Any, case: Any, find: Any) -> None:
    served = (
        with_tpu(of, Package("libtpu", "0.0.20")),
        with_tpu(of, Package("libtpu_nightly", "0.1")),
        with_tpu(of, libtpu="/lib/libtpu.so"),
        with_tpu(of, files=Unknown("there is no /dev/accel* of a TPU")),
    )
    for machine in served:
        assert find(LibtpuMissing, case(machine)) == []
