"""Rules about two versions of the driver at once: library against kernel module, a stray or compatibility libcuda."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.catalog.architectures import is_datacentre
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    describe_cards,
    describe_fact,
    is_healthy,
    nvidia_cards,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, driver_remedy, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine

__all__ = ["DriverLibraryMismatch", "MixedDriverVersions", "UnsupportedForwardCompatibility"]


class DriverLibraryMismatch(MessageRule):
    """The driver's library on disk and its loaded kernel module are of different versions.

    **Why it matters.** An upgrade (often an unattended one) put new library files under a kernel module that stays
    loaded until the next boot. NVML refuses with error 18, and new CUDA programs fail; those that run already go on.

    **What to do.** Reboot: the new module is loaded. Without a reboot: stop everything that uses the cards and reload
    the modules. In a container the library comes from the host, or lies in the image where it should not.

    **Sources.** gpustat#147; NVML return value 18 (NVML_ERROR_LIB_RM_VERSION_MISMATCH).
    """

    code = "mismatch"
    severity = "error"
    title = "The driver's library and its kernel module are of different versions"
    blocks = True
    patterns = (
        r"Driver/library version mismatch",
        r"NVRM: API mismatch",
        r"NVML_ERROR_LIB_RM_VERSION_MISMATCH",
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
        facts = [
            describe_fact(label, fact)
            for label, fact in (("kernel module", module), ("library", library))
            if isinstance(fact, Known)
        ]
        if isinstance(machine.nvidia.nvml, Known) or any(map(is_healthy, nvidia_cards(machine))):
            yield self._over(facts, quotes)
            return
        yield self.finding(
            evidence=[*facts, *quotes],
            meaning="The driver was upgraded while its old kernel module stays loaded. Programs that run already go on;"
            " new ones cannot reach the card until the module is the new one.",
            fix=self._fix(machine),
        )

    def _over(self, facts: list[str], quotes: tuple[str, ...]) -> Finding:
        return self.finding(
            title="A driver library that does not fit the kernel module was seen",
            evidence=[*facts, *quotes],
            meaning="NVML answers, so the library that is installed fits the loaded module. The line is of the past, or of"
            " one program that brings a library of the driver of its own (an image, LD_LIBRARY_PATH).",
            fix=("See which libcuda a program finds: ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH",),
            severity="warning",
            blocks=False,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if rented_platform(machine):
            return ("Restart the machine from the platform's own page (a new session).",)
        if container_kind(machine):
            return (
                on_host(machine, "sudo reboot"),
                "Then start the container anew, so that it gets the host's new library.",
                "If the host is in order: look for a libcuda.so or libnvidia-ml.so that the image itself contains.",
            )
        held = (
            "To keep it from happening again: sudo apt-mark hold $(dpkg-query -W -f='${Package} ' 'nvidia-driver-*')"
            if value_of(machine.host.package_manager) == "apt"
            else "To keep it from happening again: exclude the nvidia packages from automatic upgrades."
        )
        unload = as_root(machine, "modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia")
        return (
            as_root(machine, "reboot"),
            f"Or, once nothing uses the cards: {unload} && {as_root(machine, 'modprobe nvidia')}",
            held,
        )


class MixedDriverVersions(MessageRule):
    """CUDA error 803: the libcuda that is loaded does not belong to the kernel module that is loaded.

    **Why it matters.** CUDA finds a driver library and a kernel module that cannot work together, so no card is usable.
    It is the same trouble as `mismatch`, told by CUDA instead of NVML; often a second libcuda.so stands in front: in
    LD_LIBRARY_PATH, in a container image, or a compatibility package.

    **What to do.** See which libcuda is loaded; take the stray one away, or reboot after an upgrade.

    **Sources.** nvidia-docker#1256; CUDA runtime API, cudaErrorSystemDriverMismatch (803).
    """

    code = "combo"
    severity = "error"
    title = "libcuda does not fit the loaded kernel module"
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
        facts = [
            describe_fact(label, fact)
            for label, fact in (
                ("kernel module", machine.nvidia.module_version),
                ("library", machine.nvidia.library_version),
            )
            if isinstance(fact, Known)
        ]
        yield self.finding(
            evidence=[*quotes, *facts, *([f"LD_LIBRARY_PATH={paths}"] if paths else [])],
            meaning="Two versions of the driver are mixed: the kernel module is of one, the libcuda that the program"
            " loads of another. After an upgrade without a reboot, or with a second libcuda in front.",
            fix=(
                "See which libcuda is found: ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH",
                "Take the folder with the stray libcuda (often …/compat or …/stubs) out of LD_LIBRARY_PATH.",
                on_host(machine, "If the driver was upgraded since the last boot: sudo reboot"),
            ),
        )


class UnsupportedForwardCompatibility(MessageRule):
    """CUDA error 804: a compatibility libcuda stands in front, and this card is not served by it.

    **Why it matters.** The package cuda-compat lets an old driver run a newer CUDA, but on data-centre cards (and a few
    workstation boards and Jetson) alone. On a GeForce the same library makes every CUDA program fail. Many container
    images bring it, in /usr/local/cuda/compat.

    **What to do.** A newer driver makes the library needless. Or take it out of the way, and use a build for a CUDA that
    the driver serves by itself.

    **Sources.** nvidia-docker#1515; NVIDIA, CUDA Compatibility, "forward compatibility".
    """

    code = "fwd"
    severity = "error"
    title = "A CUDA compatibility library is in front, and this card is not served by it"
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
        paths = [
            part for part in (variable(machine, "LD_LIBRARY_PATH") or "").split(":") if re.search(r"/compat(/|$)", part)
        ]
        unserved = [card for card in nvidia_cards(machine) if is_datacentre(value_of(card.name) or "") is False]
        if not quotes and not (paths and unserved):
            return
        facts = [*(f"LD_LIBRARY_PATH has {part}" for part in paths), *describe_cards(unserved, lambda card: "")]
        if isinstance(machine.nvidia.driver, Known):
            facts.append(describe_fact("driver", machine.nvidia.driver))
        proven = bool(quotes)
        image = ", or delete /usr/local/cuda/compat in the image" if container_kind(machine) or not paths else ""
        yield self.finding(
            evidence=[*quotes, *facts],
            meaning="The compatibility libcuda serves data-centre cards. On others CUDA refuses to start with it."
            + ("" if proven else " No program was seen to fail yet; one that loads this library will."),
            fix=(
                f"Take …/compat out of LD_LIBRARY_PATH{image}.",
                *(f"Or: {step}" for step in driver_remedy(machine)[:1]),
            ),
            severity="error" if proven else "warning",
            blocks=proven,
        )
