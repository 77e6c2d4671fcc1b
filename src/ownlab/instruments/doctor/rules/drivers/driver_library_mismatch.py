"""Rules about two driver versions at once: library against kernel module, or a second (compatibility) libcuda."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.catalog.architectures import is_datacentre
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    describe_cards,
    is_healthy,
    known_facts,
    nvidia_cards,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, driver_remedy, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine
from ownlab.text import sentences, text

__all__ = ["DriverLibraryMismatch", "MixedDriverVersions", "UnsupportedForwardCompatibility"]


def _driver_parts(machine: Machine) -> list[str]:
    """The versions of the kernel module and the library, as far as they are known."""
    return known_facts(
        (text("kernel module"), machine.nvidia.module_version), (text("library"), machine.nvidia.library_version)
    )


# What completes an upgrade that stopped half-way.
_REPAIRS = {"dnf": "dnf distro-sync", "pacman": "pacman -Syu", "zypper": "zypper dup"}


class DriverLibraryMismatch(MessageRule):
    """The driver's library on disk and its loaded kernel module have different versions.

    **Why it matters.** An upgrade (often an unattended one) installed a new library, but the old kernel module stays
    loaded until the next boot. NVML fails with error 18, and new CUDA programs fail; programs that already run continue.

    **What to do.** Reboot to load the new module. Without a reboot: stop every program that uses the cards and reload the
    modules. In a container the library comes from the host, unless the image wrongly contains its own copy.

    **Sources.** gpustat#147; NVML return value 18 (NVML_ERROR_LIB_RM_VERSION_MISMATCH).
    """

    code = "mismatch"
    severity = "error"
    title = text("The driver's library and its kernel module have different versions")
    blocks = True
    patterns = (
        r"Driver/library version mismatch",
        r"NVRM: API mismatch",
        r"NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        r"kernel version [\d.]+ does not match DSO version",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        module, library = machine.nvidia.module_version, machine.nvidia.library_version
        differ = (
            isinstance(module, Known)
            and isinstance(library, Known)
            and parse_version(module.value) != parse_version(library.value)
        )
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (differ or quotes):
            return
        evidence = [*_driver_parts(machine), *quotes]
        if isinstance(machine.nvidia.nvml, Known) or any(map(is_healthy, nvidia_cards(machine))):
            yield self._resolved(evidence)
            return
        yield self.finding(
            evidence=evidence,
            meaning=text(
                "The driver was upgraded, but its old kernel module is still loaded. Programs that already run continue;"
                " new ones cannot use the card until the new module is loaded."
            ),
            fix=self._fix(machine),
        )

    def _resolved(self, evidence: list[str]) -> Finding:
        """NVML works now: the message is old, or one program loads a wrong library."""
        return self.finding(
            title=text("A program reported a driver library that does not match the kernel module"),
            evidence=evidence,
            meaning=text(
                "NVML works, so the installed library matches the loaded module. The message is old, or comes from a"
                " program that loads its own copy of a driver library (from an image or LD_LIBRARY_PATH)."
            ),
            fix=(text("Check which libcuda a program finds: ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH"),),
            severity="warning",
            blocks=False,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if rented_platform(machine):
            return (text("Restart the machine from the platform's own page (a new session)."),)
        if container_kind(machine):
            return (
                on_host(machine, "sudo reboot"),
                text("Then restart the container, so that it gets the host's new library."),
                text("If the host works: look for a libcuda.so or libnvidia-ml.so that the image itself contains."),
            )
        hold = (
            text(
                "To prevent it in future: {command}",
                command="sudo apt-mark hold $(dpkg-query -W -f='${Package} ' 'nvidia-driver-*')",
            )
            if value_of(machine.host.package_manager) == "apt"
            else text("To prevent it in future: exclude the nvidia packages from automatic upgrades.")
        )
        unload = as_root(machine, "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia")
        return (
            as_root(machine, "reboot"),
            text(
                "If it remains after the reboot, the packages are of different versions (an upgrade that stopped half-way, or a package with"
                " an older module): modinfo -F version nvidia; dkms status; then complete the upgrade ({repair}) or go back to the former set.",
                repair=as_root(
                    machine, _REPAIRS.get(value_of(machine.host.package_manager) or "", "apt-get install -f")
                ),
            ),
            text(
                "Or, when no program uses the cards: {unload} && {load}",
                unload=unload,
                load=as_root(machine, "modprobe nvidia"),
            ),
            hold,
        )


class MixedDriverVersions(MessageRule):
    """CUDA error 803: the loaded libcuda does not belong to the loaded kernel module.

    **Why it matters.** CUDA finds a driver library and a kernel module that cannot work together, so no card is usable. It
    is the same problem as `mismatch`, reported by CUDA instead of NVML. Often a second libcuda.so is found first: in
    LD_LIBRARY_PATH, in a container image, or in a compatibility package.

    **What to do.** Check which libcuda is loaded. Remove the wrong one, or reboot after an upgrade.

    **Sources.** nvidia-docker#1256; CUDA runtime API, cudaErrorSystemDriverMismatch (803).
    """

    code = "combo"
    severity = "error"
    title = text("libcuda does not match the loaded kernel module")
    blocks = True
    patterns = (
        r"\berror 803\b",
        r"unsupported display driver ?/ ?cuda driver combination",
        r"SystemDriverMismatch|SYSTEM_DRIVER_MISMATCH",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or any_framework_works(machine):
            return
        paths = variable(machine, "LD_LIBRARY_PATH")
        yield self.finding(
            evidence=[*quotes, *_driver_parts(machine), *([f"LD_LIBRARY_PATH={paths}"] if paths else [])],
            meaning=text(
                "Two driver versions are mixed: the kernel module and the libcuda that the program loads differ. This"
                " happens after an upgrade without a reboot, or if a second libcuda is found first."
            ),
            fix=(
                text("Check which libcuda is found: ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH"),
                text("Remove the folder with the wrong libcuda (often …/compat or …/stubs) from LD_LIBRARY_PATH."),
                on_host(machine, text("If the driver was upgraded since the last boot: sudo reboot")),
            ),
        )


class UnsupportedForwardCompatibility(MessageRule):
    """CUDA error 804: a compatibility libcuda is found first, and it does not support this card.

    **Why it matters.** The package cuda-compat lets an old driver run a newer CUDA, but only on data-centre cards (and a
    few workstation boards and Jetson). On a GeForce the same library makes every CUDA program fail. Many container images
    contain it, in /usr/local/cuda/compat.

    **What to do.** Install a newer driver, which makes the library unnecessary. Or remove the library from the search
    path, and use a build for a CUDA version that the driver supports by itself.

    **Sources.** nvidia-docker#1515; NVIDIA, CUDA Compatibility, "forward compatibility".
    """

    code = "fwd"
    severity = "error"
    title = text("A CUDA compatibility library is found first, and it does not support this card")
    blocks = True
    patterns = (
        r"\berror 804\b",
        r"forward compatibility was attempted on non supported HW",
        r"CompatNotSupportedOnDevice|COMPAT_NOT_SUPPORTED_ON_DEVICE",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if any_framework_works(machine):
            return
        quotes = self.quotes(case)
        folders = (variable(machine, "LD_LIBRARY_PATH") or "").split(":")
        compat = [folder for folder in folders if re.search(r"/compat(/|$)", folder)]
        unsupported = [card for card in nvidia_cards(machine) if is_datacentre(value_of(card.name) or "") is False]
        if not quotes and not (compat and unsupported):
            return
        failed = bool(quotes)
        yield self.finding(
            evidence=[
                *quotes,
                *(text("LD_LIBRARY_PATH contains {folder}", folder=folder) for folder in compat),
                *describe_cards(unsupported),
                *known_facts((text("driver"), machine.nvidia.driver)),
            ],
            meaning=sentences(
                text(
                    "The compatibility libcuda supports data-centre cards only. On other cards CUDA fails to start with it."
                ),
                text("The same message comes if the driver was updated without a reboot.") if quotes else None,
                None if failed else text("No program has failed yet, but one that loads this library will."),
            ),
            fix=(
                text("Remove …/compat from LD_LIBRARY_PATH, or delete /usr/local/cuda/compat in the image.")
                if container_kind(machine) or not compat
                else text("Remove …/compat from LD_LIBRARY_PATH."),
                text("If the driver was updated since the last boot: sudo reboot   # module and libcuda then differ"),
                *(text("Or: {step}", step=step) for step in driver_remedy(machine)[:1]),
            ),
            severity="error" if failed else "warning",
            blocks=failed,
        )
