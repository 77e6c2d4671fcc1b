"""Rules about the driver's kernel modules: not loaded, rejected, of the wrong flavour, or without nvidia_uvm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    architecture,
    architecture_name,
    container_kind,
    describe_cards,
    describe_fact,
    is_wsl,
    known_facts,
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
from ownlab.machine.records import Machine, PciDevice
from ownlab.text import sentences, text

__all__ = [
    "KernelModuleNotLoaded",
    "KernelModuleRejected",
    "NouveauInUse",
    "WrongKernelModuleFlavour",
]


def _describe_binding(device: PciDevice) -> str:
    if device.driver:
        return text("PCI {bus}: NVIDIA card, bound to driver {driver}", bus=device.bus_id, driver=device.driver)
    return text("PCI {bus}: NVIDIA card, bound to no driver", bus=device.bus_id)


# Modules for cards: NVIDIA's own, and those that work with them.
_OF_A_CARD = re.compile(
    r"nvidia|\bnv(?:hda|_peer_mem|idiafb)\b|\bgdrdrv\b|\bbbswitch\b|\bamdgpu\b|\bacpi_call\b", re.IGNORECASE
)


class KernelModuleNotLoaded(MessageRule):
    """The driver is installed, but its kernel module is not loaded: nvidia-smi cannot communicate with it.

    **Why it matters.** Without the module no program reaches the card. There are three common causes: the kernel was
    updated and the module was not built for the new one (DKMS, missing headers); Secure Boot rejected the module; or
    nouveau, the kernel's own driver, took the card first.

    **What to do.** Build and load the module, and read the kernel's messages about it. The findings `nouveau` and
    `module-rejected` appear if one of these causes was seen.

    **Sources.** NVIDIA driver README, "known issues"; NVML return value 9 (driver not loaded).
    """

    code = "no-smi"
    severity = "error"
    title = text("The NVIDIA kernel module is not loaded")
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
        # Driver libraries on a machine without a card (a GPU image on a CPU machine) do not need the module.
        if any_framework_works(machine) or on_bus == () or not (quotes or absent):
            return
        evidence = [*quotes, *map(_describe_binding, on_bus or ())]
        if module_loaded(machine) is False:
            evidence.append(text("module nvidia is not loaded (/proc/modules)"))
        evidence += known_facts((text("the driver's library on disk:"), library))
        causes = _load_failure_causes(machine) or [
            text(
                "Usually the kernel was updated (or the driver) and the module was not built for it, or Secure Boot rejects it."
                " On a cluster: the node has no card, or none was given to this job. In WSL: WSL 1, or a driver or Windows that is too old."
            )
        ]
        if is_wsl(machine):
            yield self._in_wsl(machine, evidence)
            return
        yield self.finding(
            evidence=evidence,
            meaning=sentences(text("The driver is installed, but its kernel module is not loaded."), *causes),
            fix=_load_module(machine),
        )

    def _in_wsl(self, machine: Machine, evidence: list[str]) -> Finding:
        """WSL has no kernel module of its own: Windows passes the card on."""
        return self.finding(
            title=text("WSL does not reach the driver of Windows"),
            evidence=evidence,
            meaning=text(
                "In WSL the driver is the one of Windows. It, WSL or this Windows build (some Insider builds) does not pass the"
                " card on; or a Linux driver was installed in WSL, which hides it."
            ),
            fix=(
                *driver_remedy(machine),
                text("Update Windows and WSL (wsl --update); with an Insider build: take another build."),
                text("Remove a Linux driver from inside WSL, never install one there."),
            ),
        )


def _load_failure_causes(machine: Machine) -> list[str]:
    drivers = {device.driver for device in nvidia_on_pci(machine) or ()}
    causes: list[str] = []
    if "nouveau" in drivers:
        causes.append(text("The kernel's own driver, nouveau, uses the card."))
    if "vfio-pci" in drivers:
        causes.append(text("The card is reserved for a virtual machine (vfio-pci)."))
    if value_of(machine.host.secure_boot):
        causes.append(text("Secure Boot is on: it rejects a module without an enrolled signature."))
    return causes


def _load_module(machine: Machine) -> tuple[str, ...]:
    if rented_platform(machine) or is_wsl(machine):
        return driver_remedy(machine)
    if container_kind(machine):
        return (on_host(machine, text("sudo modprobe nvidia && nvidia-smi, then restart the container")),)
    manager = value_of(machine.host.package_manager) or ""
    headers = {
        "apt": "linux-headers-$(uname -r)",
        "dnf": "kernel-devel-$(uname -r)",
        "zypper": "kernel-default-devel",
        "pacman": "linux-headers",
    }.get(manager, "")
    install = install_command(machine, headers)
    build = (
        text(
            "Build the module for this kernel: {command}   # or: dkms autoinstall",
            command=as_root(machine, "akmods --force"),
        )
        if manager == "dnf"
        else text(
            "Build the module for this kernel: {command}   # check with: dkms status",
            command=as_root(machine, "dkms autoinstall"),
        )
    )
    return (
        text(
            "Load the module and read the kernel's messages: {modprobe}; {dmesg} | grep -iE 'nvrm|nvidia|nouveau' | tail",
            modprobe=as_root(machine, "modprobe nvidia"),
            dmesg=as_root(machine, "dmesg"),
        ),
        *([text("If there is no module for this kernel: {command}", command=install)] if install else []),
        build,
        *_last_remedy(machine),
    )


def _last_remedy(machine: Machine) -> tuple[str, ...]:
    """Return the driver's installation, where the card is known to be on the bus: without it no driver helps."""
    if machine.origin == "pasted" and not nvidia_on_pci(machine):
        return ()
    return (
        text("If that does not help: remove all driver packages and install the driver again:"),
        *driver_remedy(machine),
    )


# nova_core replaces nouveau for newer cards in kernels from 6.15 on.
_NOUVEAU_LINES = ("blacklist nouveau", "options nouveau modeset=0", "blacklist nova_core", "blacklist nova_drm")


class NouveauInUse(MessageRule):
    """nouveau, the kernel's own driver, uses an NVIDIA card: CUDA cannot use it.

    **Why it matters.** Only one driver at a time can use a card. nouveau drives displays and does not support CUDA. While
    it uses the card, NVIDIA's module cannot.

    **What to do.** Blacklist nouveau, rebuild the boot image and reboot. Install the NVIDIA driver if it is missing.

    **Sources.** NVIDIA driver README, "nouveau"; the module's message in the kernel log ("was loaded and obtained
    ownership of the NVIDIA device(s)").
    """

    code = "nouveau"
    severity = "error"
    title = text("nouveau uses the NVIDIA card")
    blocks = True
    patterns = (
        r"Kernel driver in use: (?:nouveau|nova\w*)|already bound to (?:NovaCore|nova\w*|nouveau)",
        r"NVIDIA probe routine was not called for \d+ device",
        r"NVRM: nouveau, rivafb, nvidiafb",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        on_bus = nvidia_on_pci(machine)
        bound = [device for device in on_bus or () if device.driver == "nouveau"]
        alone = on_bus is None and module_loaded(machine, "nouveau") and module_loaded(machine) is False
        quotes = self.quotes(case)
        if not (bound or alone or quotes) or (quotes and not bound and any_framework_works(machine)):
            return
        others_work = any(device.driver == "nvidia" for device in on_bus or ()) or any_framework_works(machine)
        only_probable = (
            bool(quotes) and not bound and not any("nouveau" in line or "nova" in line.lower() for line in quotes)
        )
        yield self.finding(
            title=text("Another driver, probably nouveau, uses the NVIDIA card")
            if only_probable
            else text("nova, the kernel's own driver, uses the NVIDIA card")
            if any("nova" in line.lower() for line in quotes)
            else None,
            evidence=[
                *map(_describe_binding, bound),
                *([text("module nouveau is loaded, module nvidia is not (/proc/modules)")] if alone else []),
                *quotes,
            ],
            meaning=text(
                "nouveau drives displays and does not support CUDA. While it uses the card, the NVIDIA driver cannot."
            ),
            fix=self._fix(machine),
            blocks=not others_work,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if container_kind(machine):
            step = text("blacklist nouveau (/etc/modprobe.d), install the NVIDIA driver, and reboot.")
            return (on_host(machine, step),)
        installed = isinstance(machine.nvidia.library_version, Known)
        return (
            modprobe_option(machine, "blacklist-nouveau.conf", *_NOUVEAU_LINES),
            initramfs_command(machine),
            *((as_root(machine, "reboot"),) if installed else driver_remedy(machine)),
        )


class KernelModuleRejected(MessageRule):
    """The kernel rejected the NVIDIA module because Secure Boot does not trust its signature.

    **Why it matters.** With Secure Boot on, the kernel loads signed modules only. A module that DKMS built on this machine
    is signed with a key of this machine. That key must be enrolled once, at the machine's own screen.

    **What to do.** Enrol the key (mokutil), use the modules that the distribution signed, or turn Secure Boot off.

    **Sources.** Ubuntu and Fedora documentation on Secure Boot and third-party modules; kernel module signing.
    """

    code = "module-rejected"
    severity = "error"
    title = text("Secure Boot rejected the NVIDIA kernel module")
    blocks = True
    patterns = (
        r"Key was rejected by service",
        r"Required key not available",
        r"Loading of unsigned module is rejected",
        r"unsigned module loading is restricted|[Ss]ecure [Bb]oot is enabled on this system|module (?:signature )?verification failed[^\n]*(?:reject|refus)|verification of module[^\n]*failed",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self._nvidia_lines(case)
        if not quotes or any_framework_works(machine):
            return
        yield self.finding(
            evidence=[*quotes, *known_facts((text("Secure Boot:"), machine.host.secure_boot))],
            meaning=text("The module was built, but its signature is not among the keys that this machine trusts."),
            fix=self._fix(machine),
        )

    def _nvidia_lines(self, case: Case) -> tuple[str, ...]:
        """Return the matching lines about NVIDIA's module: they name it, or it is the module that is missing here.

        The kernel rejects other modules (VirtualBox, ZFS) with the same message, and does not always name the module.
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
            if _OF_A_CARD.search(line) or (missing and "could not insert" not in line)
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if container_kind(machine):
            step = text("enrol the key that signs the module (mokutil --import), or turn Secure Boot off.")
            return (on_host(machine, step),)
        enrol = {
            "apt": "mokutil --import /var/lib/shim-signed/mok/MOK.der",
            "dnf": "mokutil --import /etc/pki/akmods/certs/public_key.der",
        }.get(value_of(machine.host.package_manager) or "", "mokutil --import THE-KEY-THAT-SIGNS-THE-MODULE.der")
        return (
            text("{command}   # choose a password", command=as_root(machine, enrol)),
            text("{command}   # at the blue screen: Enroll MOK, the same password", command=as_root(machine, "reboot")),
            text("Or turn Secure Boot off in the system firmware (UEFI)."),
        )


class WrongKernelModuleFlavour(MessageRule):
    """The kernel modules have a flavour, open or proprietary, that this card cannot use.

    **Why it matters.** NVIDIA ships its kernel modules in two flavours. Blackwell and Grace Hopper need the open ones;
    Turing, Ampere, Ada and Hopper work with both; Maxwell, Pascal and Volta need the proprietary ones. With the wrong
    flavour the card is on the bus, but nvidia-smi reports "No devices were found".

    **What to do.** Install the other flavour, and reboot.

    **Sources.** NVIDIA Driver Installation Guide, "Kernel modules"; open-gpu-kernel-modules#862, #872.
    """

    code = "module-flavour"
    severity = "error"
    title = text("The kernel modules have the wrong flavour for this card")
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
            card for card in nvidia_cards(machine) if (family := architecture(card)) and family.open_modules == wrong
        ]
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (cards or quotes):
            return
        asks_for_open = any(match["open"] for _, match in self.matches(case))
        needs_open = flavour == "proprietary" or asks_for_open
        yield self.finding(
            title=text("This card needs the open kernel modules")
            if needs_open
            else text("This card needs the proprietary kernel modules"),
            evidence=[
                *([describe_fact(text("kernel modules:"), machine.nvidia.module_flavour)] if flavour else []),
                *describe_cards(cards, architecture_name),
                *quotes,
            ],
            meaning=text("The loaded modules cannot start this card; the open ones can.")
            if needs_open
            else text("The loaded modules cannot start this card; the proprietary ones can."),
            fix=driver_remedy(machine, flavour="open" if needs_open else "proprietary"),
        )
