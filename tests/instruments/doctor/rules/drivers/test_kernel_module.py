"""The driver's kernel modules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.drivers.kernel_module import (
    KernelModuleNotLoaded,
    KernelModuleRejected,
    NouveauInUse,
    WrongKernelModuleFlavour,
)
from ownlab.instruments.doctor.rules.drivers.unified_memory import HmmRegionMissing, UvmModuleMissing
from ownlab.machine.facts import Known
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine, Nvidia, PciDevice


def card_on_bus(driver: str | None) -> tuple[PciDevice, ...]:
    return (PciDevice("0000:01:00.0", "10de", "2b85", "display", driver),)


@pytest.mark.parametrize("name", ["errors/no-smi-fedora43-5060.txt", "nvidia_smi/failed-couldnt-communicate.txt"])
def test_no_smi_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(KernelModuleNotLoaded, case(None, paste(name)))
    assert finding.blocks
    assert "kernel was updated" in finding.meaning


def test_no_smi_names_the_visible_causes(of: Any, case: Any, find: Any) -> None:
    machine = of(
        Machine,
        host=of(
            Host,
            system="Fedora Linux 43",
            package_manager="dnf",
            pci=card_on_bus("nouveau"),
            modules=("nouveau",),
            secure_boot=True,
        ),
        nvidia=of(Nvidia, library_version="580.105.08"),
    )
    (finding,) = find(KernelModuleNotLoaded, case(machine))
    assert "nouveau" in finding.meaning
    assert "Secure Boot is on" in finding.meaning
    assert any("kernel-devel-$(uname -r)" in step for step in finding.fix)
    assert any("akmods" in step for step in finding.fix)


def test_no_smi_is_silent_without_the_driver_or_with_its_module(of: Any, case: Any, find: Any, h200: Machine) -> None:
    bare = of(Machine, host=of(Host, pci=card_on_bus(None), modules=()))
    assert find(KernelModuleNotLoaded, case(bare)) == []  # no driver at all: the rule no-driver's
    assert find(KernelModuleNotLoaded, case(h200)) == []


def test_no_smi_in_a_container_is_fixed_on_the_host(of: Any, case: Any, find: Any, paste: Any) -> None:
    inside = of(Machine, host=of(Host, container="docker", package_manager="apt"))
    (finding,) = find(KernelModuleNotLoaded, case(inside, paste("errors/no-smi-fedora43-5060.txt")))
    assert all("On the host" in step for step in finding.fix)


def test_no_smi_on_a_machine_without_a_card(of: Any, case: Any, find: Any) -> None:
    message = "NVML: Driver Not Loaded"
    library = of(Nvidia, library_version="580.159.04")
    assert (
        find(
            KernelModuleNotLoaded,
            case(of(Machine, host=of(Host, pci=(), modules=()), nvidia=library), message, where="NVML"),
        )
        == []
    )
    wsl = of(Machine, host=of(Host, pci=(), modules=(), virtualisation="wsl2"), nvidia=library)
    assert len(find(KernelModuleNotLoaded, case(wsl, message, where="NVML"))) == 1  # its bus shows no card in any case


def test_nouveau_on_the_bus(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, host=of(Host, package_manager="pacman", pci=card_on_bus("nouveau"), modules=("nouveau",)))
    (finding,) = find(NouveauInUse, case(machine))
    assert finding.blocks
    assert finding.fix[0].startswith("printf 'blacklist nouveau")
    assert finding.fix[1] == "sudo mkinitcpio -P"
    assert "nvidia-open" in finding.fix[2]


def test_nouveau_next_to_a_working_card_does_not_block(of: Any, case: Any, find: Any) -> None:
    both = (*card_on_bus("nouveau"), PciDevice("0000:02:00.0", "10de", "2684", "display", "nvidia"))
    (finding,) = find(NouveauInUse, case(of(Machine, host=of(Host, pci=both, modules=("nouveau", "nvidia")))))
    assert not finding.blocks


def test_nouveau_from_messages(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(NouveauInUse, case(None, paste("errors/nouveau-lspci-gtx970.txt")))
    assert "Kernel driver in use: nouveau" in finding.evidence[0]
    (finding,) = find(NouveauInUse, case(None, paste("errors/nouveau-owns-card-dmesg.txt")))
    assert finding.blocks


def test_nouveau_without_a_card_is_no_finding(of: Any, case: Any, find: Any, h200: Machine) -> None:
    loaded = of(Machine, host=of(Host, pci=card_on_bus("nvidia"), modules=("nvidia", "nouveau")))
    assert find(NouveauInUse, case(loaded)) == []
    assert find(NouveauInUse, case(h200)) == []


@pytest.mark.parametrize("name", ["errors/module-key-rejected.txt", "errors/module-key-rejected-lockdown.txt"])
def test_module_rejected(of: Any, case: Any, find: Any, paste: Any, name: str) -> None:
    ubuntu = of(Machine, host=of(Host, package_manager="apt", secure_boot=True))
    (finding,) = find(KernelModuleRejected, case(ubuntu, paste(name)))
    assert finding.blocks
    assert "mokutil --import /var/lib/shim-signed/mok/MOK.der" in finding.fix[0]
    assert finding.evidence[-1] == "Secure Boot: True (recorded)"


@pytest.mark.parametrize(
    ("message", "pci", "modules", "count"),
    [
        ("modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service", None, None, 0),
        ("Loading of unsigned module is rejected", None, None, 0),
        ("Loading of unsigned module is rejected", "none", (), 0),
        ("Loading of unsigned module is rejected", "card", (), 1),
        ("Loading of unsigned module is rejected", "card", ("nvidia",), 0),
        ("modprobe: ERROR: could not insert 'vboxdrv': Key was rejected by service", "card", (), 0),
        (
            (
                "could not insert 'vboxdrv': Key was rejected by service\n"
                "could not insert 'nvidia': Key was rejected by service"
            ),
            None,
            None,
            1,
        ),
    ],
)
def test_other_modules_are_rejected_with_the_same_message(
    message: str, pci: str | None, modules: tuple[str, ...] | None, count: int, of: Any, case: Any, find: Any
) -> None:
    facts: dict[str, Any] = {} if modules is None else {"modules": modules}
    if pci:
        facts["pci"] = card_on_bus(None) if pci == "card" else ()
    findings = find(KernelModuleRejected, case(of(Machine, host=of(Host, **facts)), message, where="kernel log"))
    assert len(findings) == count
    assert not any("vboxdrv" in line for finding in findings for line in finding.evidence)


def test_a_loaded_unsigned_module_is_no_finding(case: Any, find: Any) -> None:
    message = "nvidia: module verification failed: signature and/or required key missing - tainting kernel"
    assert find(KernelModuleRejected, case(None, message)) == []


@pytest.mark.parametrize(
    ("name", "flavour", "needed"),
    [
        ("NVIDIA GeForce RTX 5090", "proprietary", "open"),
        ("NVIDIA GeForce GTX 1080 Ti", "open", "proprietary"),
        ("NVIDIA GeForce RTX 5090", "open", None),
        ("NVIDIA GeForce GTX 1080 Ti", "proprietary", None),
        ("NVIDIA GeForce RTX 3090", "open", None),
        ("NVIDIA GeForce RTX 3090", "proprietary", None),
    ],
)
def test_module_flavour(of: Any, case: Any, find: Any, name: str, flavour: str, needed: str | None) -> None:
    machine = of(
        Machine,
        host=of(Host, system="Ubuntu 24.04", package_manager="apt"),
        nvidia=of(Nvidia, module_flavour=flavour),
        cards=(of(Card, vendor="nvidia", index=0, name=name),),
    )
    findings = find(WrongKernelModuleFlavour, case(machine))
    assert [finding.title for finding in findings] == (
        [f"This card needs the {needed} kernel modules"] if needed else []
    )
    if needed == "open":
        assert findings[0].fix[0] == "sudo apt-get install -y nvidia-driver-580-open"


def test_module_flavour_from_the_kernel_log(case: Any, find: Any) -> None:
    # The driver's own messages (kernel-open/nvidia/nv-pci.c, and the proprietary module's).
    needs_open = "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\nNVRM: installed in this system requires use of the NVIDIA open kernel modules."
    (finding,) = find(WrongKernelModuleFlavour, case(None, needs_open))
    assert "open" in finding.title
    too_old = (
        "NVRM: installed in this system is not supported by open nvidia.ko because it does not include the required GPU"
    )
    (finding,) = find(WrongKernelModuleFlavour, case(None, too_old))
    assert "proprietary" in finding.title


def test_uvm_from_messages(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(UvmModuleMissing, case(None, paste("errors/uvm-unknown-error-suspend.txt")))
    assert finding.blocks
    assert "rmmod nvidia_uvm" in finding.fix[0]
    assert find(UvmModuleMissing, case(None, paste("errors/fabric-802-torch.txt"))) == []


def test_uvm_from_modules(of: Any, case: Any, find: Any, h200: Machine) -> None:
    without = of(
        Machine,
        host=of(Host, modules=("nvidia",)),
        cards=(of(Card, vendor="nvidia", index=0),),
    )
    (finding,) = find(UvmModuleMissing, case(without))
    assert (finding.severity, finding.blocks) == ("note", False)  # loaded at the first use of CUDA, which nobody tried
    torch = of(Framework, name="torch", build="cuda", devices=())
    tried = msgspec.structs.replace(without, interpreter=of(Interpreter, frameworks=(torch,)))
    (finding,) = find(UvmModuleMissing, case(tried))
    assert (finding.severity, finding.blocks) == ("error", True)
    wsl = msgspec.structs.replace(without, host=of(Host, modules=("nvidia",), virtualisation="wsl2"))
    assert find(UvmModuleMissing, case(wsl)) == []
    assert find(UvmModuleMissing, case(h200)) == []


def test_hmm(case: Any, find: Any, paste: Any, h200: Machine) -> None:
    (finding,) = find(HmmRegionMissing, case(None, paste("errors/hmm-err-34.txt")))
    assert "uvm_disable_hmm=1" in finding.fix[0]
    assert find(HmmRegionMissing, case(None, "request_free_mem_region: mapped 4096 bytes")) == []
    log = Known((paste("errors/hmm-err-34.txt").strip(),), source="dmesg")
    works = msgspec.structs.replace(h200, host=msgspec.structs.replace(h200.host, kernel_log=log))
    assert find(HmmRegionMissing, case(works, *log.value)) == []
