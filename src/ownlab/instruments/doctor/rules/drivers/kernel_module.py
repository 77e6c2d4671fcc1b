"""Rules about the driver's kernel modules: not loaded, refused, of the wrong flavour, or without their companion uvm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    architecture,
    architecture_name,
    container_kind,
    cuda_builds,
    describe_cards,
    describe_fact,
    is_wsl,
    module_loaded,
    nvidia_cards,
    nvidia_on_pci,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import (
    as_root,
    driver_remedy,
    initramfs_command,
    install_command,
    modprobe_option,
    on_host,
    rented_platform,
)
from ownlab.instruments.doctor.rule import MessageRule, quote
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine

__all__ = [
    "HmmRegionMissing",
    "KernelModuleNotLoaded",
    "KernelModuleRejected",
    "NouveauInUse",
    "UvmModuleMissing",
    "WrongKernelModuleFlavour",
]


class KernelModuleNotLoaded(MessageRule):
    """The driver is installed, but its kernel module is not loaded: nvidia-smi cannot speak to it.

    **Why it matters.** Without the module no program reaches the card. It is usually missing for one of three reasons:
    the kernel was updated and the module was not built for the new one (DKMS, missing headers); Secure Boot refused it;
    or nouveau, the kernel's own driver, took the card first.

    **What to do.** Build and load the module, and read what the kernel says to it. The findings `nouveau` and
    `module-rejected` tell where one of these causes was seen.

    **Sources.** NVIDIA driver README, "known issues"; NVML return value 9 (driver not loaded).
    """

    code = "no-smi"
    severity = "error"
    title = "NVIDIA's kernel module is not loaded"
    blocks = True
    patterns = (
        r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        r"\bNVML.*Driver Not Loaded|Driver Not Loaded",
        r"NVML_ERROR_DRIVER_NOT_LOADED",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        on_bus = nvidia_on_pci(machine)
        library = machine.nvidia.library_version
        absent = bool(on_bus) and module_loaded(machine) is False and isinstance(library, Known)
        # The driver's libraries on a machine without a card (an image for GPUs on a machine for CPUs) miss nothing.
        if any_framework_works(machine) or on_bus == () or not (quotes or absent):
            return
        evidence = [
            *quotes,
            *(f"PCI {one.bus_id}: NVIDIA card, driver bound: {one.driver or 'none'}" for one in on_bus or ()),
        ]
        if module_loaded(machine) is False:
            evidence.append("module nvidia is not among the loaded ones (/proc/modules)")
        if isinstance(library, Known):
            evidence.append(describe_fact("the driver's library on disk:", library))
        causes = _causes(machine)
        yield self.finding(
            evidence=evidence,
            meaning="The driver's programs are here, its kernel module is not loaded. "
            + (
                " ".join(causes) if causes else "Most often the kernel was updated and the module was not built for it."
            ),
            fix=_load_module(machine),
        )


def _causes(machine: Machine) -> list[str]:
    drivers = {one.driver for one in nvidia_on_pci(machine) or ()}
    causes = []
    if "nouveau" in drivers:
        causes.append("The kernel's own driver, nouveau, holds the card.")
    if "vfio-pci" in drivers:
        causes.append("The card is set aside for a virtual machine (vfio-pci).")
    if value_of(machine.host.secure_boot):
        causes.append("Secure Boot is on: a module without an enrolled signature is refused.")
    return causes


def _load_module(machine: Machine) -> tuple[str, ...]:
    if rented_platform(machine) or is_wsl(machine):
        return driver_remedy(machine)
    if container_kind(machine):
        return (on_host(machine, "sudo modprobe nvidia && nvidia-smi, then start the container anew"),)
    headers = {
        "apt": "linux-headers-$(uname -r)",
        "dnf": "kernel-devel-$(uname -r)",
        "zypper": "kernel-default-devel",
        "pacman": "linux-headers",
    }.get(value_of(machine.host.package_manager) or "", "")
    install = install_command(machine, headers)
    build = {
        "dnf": f"Build the module for this kernel: {as_root(machine, 'akmods --force')}   # or: dkms autoinstall",
    }.get(
        value_of(machine.host.package_manager) or "",
        f"Build the module for this kernel: {as_root(machine, 'dkms autoinstall')}   # see: dkms status",
    )
    log = f"{as_root(machine, 'dmesg')} | grep -iE 'nvrm|nvidia|nouveau' | tail"
    return (
        f"Load it, and see what the kernel says: {as_root(machine, 'modprobe nvidia')}; {log}",
        *([f"If there is no module for this kernel: {install}"] if install else []),
        build,
        "If that does not help, install the driver anew:",
        *driver_remedy(machine),
    )


class NouveauInUse(MessageRule):
    """nouveau, the kernel's own driver, holds an NVIDIA card: CUDA cannot use it.

    **Why it matters.** One driver at a time serves a card. nouveau draws screens and knows no CUDA; while it holds the
    card, NVIDIA's module cannot.

    **What to do.** Forbid nouveau, renew the boot image, reboot; install NVIDIA's driver where it is missing.

    **Sources.** NVIDIA driver README, "nouveau"; the module's own words in the kernel log ("was loaded and obtained
    ownership of the NVIDIA device(s)").
    """

    code = "nouveau"
    severity = "error"
    title = "nouveau holds the NVIDIA card"
    blocks = True
    patterns = (
        r"Kernel driver in use: nouveau",
        r"NVIDIA probe routine was not called for \d+ device",
        r"NVRM: nouveau, rivafb, nvidiafb",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        on_bus = nvidia_on_pci(machine)
        bound = [one for one in on_bus or () if one.driver == "nouveau"]
        alone = on_bus is None and module_loaded(machine, "nouveau") and module_loaded(machine) is False
        quotes = self.quotes(case)
        if not (bound or alone or quotes) or (quotes and not bound and any_framework_works(machine)):
            return
        others = any(one.driver == "nvidia" for one in on_bus or ()) or any_framework_works(machine)
        probable = bool(quotes) and not bound and not any("nouveau" in line for line in quotes)
        yield self.finding(
            title="Another driver, most likely nouveau, holds the NVIDIA card" if probable else None,
            evidence=[
                *(f"PCI {one.bus_id}: NVIDIA card, driver bound: nouveau" for one in bound),
                *(["module nouveau is loaded, module nvidia is not (/proc/modules)"] if alone else []),
                *quotes,
            ],
            meaning="nouveau draws screens and knows no CUDA. While it holds the card, NVIDIA's driver cannot have it.",
            fix=self._fix(machine),
            blocks=not others,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if container_kind(machine):
            return (on_host(machine, "forbid nouveau (/etc/modprobe.d), install NVIDIA's driver, and reboot."),)
        installed = isinstance(machine.nvidia.library_version, Known)
        return (
            modprobe_option(machine, "blacklist-nouveau.conf", "blacklist nouveau", "options nouveau modeset=0"),
            initramfs_command(machine),
            *((as_root(machine, "reboot"),) if installed else driver_remedy(machine)),
        )


class KernelModuleRejected(MessageRule):
    """The kernel refused NVIDIA's module because Secure Boot does not know its signature.

    **Why it matters.** With Secure Boot on, the kernel loads signed modules alone. One that DKMS built here is signed
    with a key of this machine, which must be enrolled once, at the machine's own screen.

    **What to do.** Enrol the key (mokutil), or use the modules that the distribution signed, or turn Secure Boot off.

    **Sources.** Ubuntu and Fedora documentation on Secure Boot and third-party modules; kernel module signing.
    """

    code = "module-rejected"
    severity = "error"
    title = "Secure Boot refused NVIDIA's kernel module"
    blocks = True
    patterns = (
        r"Key was rejected by service",
        r"Required key not available",
        r"Loading of unsigned module is rejected",
        r"unsigned module loading is restricted",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self._of_nvidia(case)
        if not quotes or any_framework_works(machine):
            return
        boot = (
            [describe_fact("Secure Boot:", machine.host.secure_boot)]
            if isinstance(machine.host.secure_boot, Known)
            else []
        )
        yield self.finding(
            evidence=[*quotes, *boot],
            meaning="The module was built and is not trusted: its signature is not among the keys that this machine accepts.",
            fix=self._fix(machine),
        )

    def _of_nvidia(self, case: Case) -> tuple[str, ...]:
        """The lines that are about NVIDIA's module: they name it, or it is the one that is missing here.

        The kernel refuses other modules (VirtualBox's, ZFS's) with the same words, and does not always name the one.
        """
        missing = bool(nvidia_on_pci(case.machine)) and module_loaded(case.machine) is False
        lines = (
            quote(message, match)
            for message in case.messages
            for match in re.finditer("|".join(self.patterns), message.text, re.IGNORECASE)
        )
        return tuple(
            line
            for line in dict.fromkeys(lines)
            if "nvidia" in line.lower() or (missing and "could not insert" not in line)
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if container_kind(machine):
            return (
                on_host(machine, "enrol the key that signs the module (mokutil --import), or turn Secure Boot off."),
            )
        enrol = {
            "apt": "mokutil --import /var/lib/shim-signed/mok/MOK.der",
            "dnf": "mokutil --import /etc/pki/akmods/certs/public_key.der",
        }.get(value_of(machine.host.package_manager) or "", "mokutil --import THE-KEY-THAT-SIGNS-THE-MODULE.der")
        return (
            f"{as_root(machine, enrol)}   # choose a password",
            f"{as_root(machine, 'reboot')}   # at the blue screen: Enroll MOK, the same password",
            "Or turn Secure Boot off in the firmware's set-up.",
        )


class WrongKernelModuleFlavour(MessageRule):
    """The kernel modules are of the flavour, open or proprietary, that this card cannot use.

    **Why it matters.** NVIDIA ships its kernel modules twice. Blackwell and Grace Hopper need the open ones; Turing,
    Ampere, Ada and Hopper take either; Maxwell, Pascal and Volta need the proprietary ones. With the wrong flavour the
    card is on the bus and nvidia-smi says "No devices were found".

    **What to do.** Install the other flavour, and reboot.

    **Sources.** NVIDIA Driver Installation Guide, "Kernel modules"; open-gpu-kernel-modules#862, #872.
    """

    code = "module-flavour"
    severity = "error"
    title = "The kernel modules are of the wrong flavour for this card"
    blocks = True
    patterns = (
        r"requires use of the NVIDIA (?P<open>open) kernel modules",
        r"not supported by open nvidia\.ko",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        flavour = value_of(machine.nvidia.module_flavour)
        wrong = {"open": "impossible", "proprietary": "required"}.get(flavour or "")
        cards = [
            card for card in nvidia_cards(machine) if (found := architecture(card)) and found.open_modules == wrong
        ]
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (cards or quotes):
            return
        said_open = any(match["open"] for _, match in self.matches(case))
        needed = "open" if flavour == "proprietary" or said_open else "proprietary"
        facts = [describe_fact("kernel modules:", machine.nvidia.module_flavour)] if flavour else []
        yield self.finding(
            title=f"This card needs the {needed} kernel modules",
            evidence=[*facts, *describe_cards(cards, lambda card: f": {architecture_name(card)}"), *quotes],
            meaning=f"The loaded modules cannot start this card; the {needed} ones can.",
            fix=driver_remedy(machine, flavour=needed),
        )


class UvmModuleMissing(MessageRule):
    """CUDA does not start: "unknown error" (999), or the module nvidia_uvm is missing or stale.

    **Why it matters.** nvidia_uvm is the part of the driver through which CUDA shares memory with the card. nvidia-smi
    works without it, CUDA does not. After a suspend it is often there and broken. The same words come when a program
    changes CUDA_VISIBLE_DEVICES after CUDA has started.

    **What to do.** Reload the module. Let the driver's suspend services run, so that it stays whole. Set the variable
    before the framework is imported.

    **Sources.** pytorch#88639; CUDA runtime API, cudaErrorUnknown (999).
    """

    code = "uvm"
    severity = "error"
    title = "CUDA does not start: unknown error"
    blocks = True
    patterns = (r"CUDA unknown error", r"\berror 999\b", r"cudaErrorUnknown|CUDA_ERROR_UNKNOWN")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if any_framework_works(machine):
            return
        quotes = self.quotes(case)
        missing = (
            module_loaded(machine) is True
            and module_loaded(machine, "nvidia_uvm") is False
            and not is_wsl(machine)
            and bool(nvidia_cards(machine))
        )
        if not (quotes or missing):
            return
        # nvidia-modprobe loads it at the first use of CUDA: missing alone is a fault once CUDA was tried.
        tried = bool(quotes) or any(value_of(one.devices) == () for one in cuda_builds(machine))
        yield self.finding(
            title=None if quotes else "The module nvidia_uvm, which CUDA needs, is not loaded",
            evidence=[*quotes, *(["module nvidia is loaded, nvidia_uvm is not (/proc/modules)"] if missing else [])],
            meaning="The driver answers, CUDA's part of it does not."
            + (
                " Mostly its module nvidia_uvm is stale after a suspend; the same words come where a program changed"
                " CUDA_VISIBLE_DEVICES after CUDA had started."
                if quotes
                else " It is loaded at the first use of CUDA where nvidia-modprobe is installed; else by hand."
            ),
            fix=self._fix(machine),
            severity="error" if tried else "note",
            blocks=tried,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        reload = "sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm"
        if rented_platform(machine):
            return ("Restart the session: the driver cannot be reloaded from here.",)
        if container_kind(machine):
            return (on_host(machine, f"{reload}; then start the container anew"),)
        return (
            f"{as_root(machine, 'rmmod nvidia_uvm')}; {as_root(machine, 'modprobe nvidia_uvm')}   # end CUDA programs first",
            f"If it comes after each suspend: {as_root(machine, 'systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate')}",
            "Set CUDA_VISIBLE_DEVICES before Python starts, not in the program.",
        )


class HmmRegionMissing(MessageRule):
    """CUDA does not start because the kernel found no address space for heterogeneous memory (HMM).

    **Why it matters.** On some kernels address randomisation (KASLR) leaves no free region where the driver wants to
    map the card's memory; nvidia_uvm then fails, and CUDA with it.

    **What to do.** Turn HMM off in nvidia_uvm, or boot without KASLR.

    **Sources.** CUDA Toolkit 13.2 release notes, known issues.
    """

    code = "hmm"
    severity = "error"
    title = "nvidia_uvm found no free memory region (KASLR and HMM)"
    blocks = True
    patterns = (r"request_free_mem_region\b.*-34",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or any_framework_works(machine):
            return
        option = modprobe_option(machine, "nvidia-uvm-hmm.conf", "options nvidia_uvm uvm_disable_hmm=1")
        reload = f"{as_root(machine, 'rmmod nvidia_uvm')}; {as_root(machine, 'modprobe nvidia_uvm')}"
        yield self.finding(
            evidence=quotes,
            meaning="A known fault of kernel and driver together: the kernel's random memory layout left no room for HMM.",
            fix=(on_host(machine, option), on_host(machine, reload), "Or boot with the kernel parameter nokaslr."),
        )
