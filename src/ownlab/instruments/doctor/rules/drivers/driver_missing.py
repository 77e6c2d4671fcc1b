"""The rule about a missing NVIDIA driver."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    cuda_builds,
    describe_fact,
    is_wsl,
    module_loaded,
    nvidia_cards,
    nvidia_on_pci,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import driver_remedy, rented_platform
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known
from ownlab.machine.records import Framework, Machine, PciDevice
from ownlab.text import text

__all__ = ["NoDriver"]


class NoDriver(MessageRule):
    """A framework built for CUDA finds no NVIDIA driver, or an NVIDIA card has no driver.

    **Why it matters.** No wheel and no container image includes the driver: it belongs to the host. Without it there is
    no CUDA, whatever toolkit is installed.

    **What to do.** With a card: install the driver. In a container: start it with the card (`--gpus all`). In WSL: install
    the driver on Windows. Without a card: nothing is wrong; work runs on the CPU.

    **Sources.** torch, c10/cuda/CUDAFunctions.cpp; pytorch#74733; vllm#14413.
    """

    code = "no-driver"
    severity = "error"
    title = text("No NVIDIA driver was found")
    blocks = True
    patterns = (
        r"Found no NVIDIA driver on your system",
        r"libcuda\.so(?:\.1)?: cannot open shared object file",
        r"Could not find cuda drivers on your machine",  # TensorFlow
        r"failed call to cuInit: UNKNOWN ERROR \(303\)",
        r"kernel driver does not appear to be running on this host|/proc/driver/nvidia/version does not exist",
        r"nvidia-smi: (?:command )?not found",
        r"(?:Unable|[Ff]ailed) to (?:dynamically )?load the \"?cuda\"? shared library|CUDA driver could not be loaded|libcuda\.so not found! Do you have a CUDA driver",
        r"CUDA driver library cannot be found|Could not find (?:the )?(?:CUDA|NVIDIA) driver library",
        r"['\"]nvidia-smi['\"] is not recognized|command not found: nvidia-smi|No such file or directory: '?nvidia-smi",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if any_framework_works(machine):
            return
        if nvidia_cards(machine) or isinstance(machine.nvidia.driver, Known):
            if quotes and not (container_kind(machine) and not nvidia_cards(machine)):
                yield self._library_not_found(machine, quotes)
            return
        on_bus = nvidia_on_pci(machine)
        builds = [build for build in cuda_builds(machine) if isinstance(build.devices, Known)]
        if not quotes and not self._missing_without_message(machine, on_bus, builds):
            return
        if module_loaded(machine) and container_kind(machine):  # the host has a driver: see the rule container-no-gpu
            return
        yield from self._by_bus(machine, on_bus, self._evidence(on_bus, builds, quotes))

    @staticmethod
    def _missing_without_message(
        machine: Machine, on_bus: tuple[PciDevice, ...] | None, builds: list[Framework]
    ) -> bool:
        """Whether the facts alone show that a driver is missing."""
        installed = isinstance(machine.nvidia.library_version, Known) or module_loaded(machine)
        if installed or not (on_bus or builds):
            return False
        if on_bus and all(device.driver == "nouveau" for device in on_bus):  # see the rule nouveau
            return False
        return not any(device.driver == "nvidia" for device in on_bus or ())

    @staticmethod
    def _evidence(on_bus: tuple[PciDevice, ...] | None, builds: list[Framework], quotes: tuple[str, ...]) -> list[str]:
        return [
            *(_describe_pci(device) for device in on_bus or ()),
            *(
                text(
                    "{framework} is built with {cuda} and sees no device",
                    framework=build.name,
                    cuda=describe_fact(text("CUDA"), build.cuda),
                )
                for build in builds
            ),
            *quotes,
        ]

    def _by_bus(self, machine: Machine, on_bus: tuple[PciDevice, ...] | None, evidence: list[str]) -> Iterable[Finding]:
        if on_bus and all(device.driver == "vfio-pci" for device in on_bus):
            yield self.finding(
                title=text("The NVIDIA card is reserved for a virtual machine (vfio-pci)"),
                evidence=evidence,
                meaning=text("vfio-pci holds the card for a virtual machine, so the host cannot use it."),
                fix=(
                    text(
                        "Use the card in the virtual machine; or remove its ids from the vfio-pci options in"
                        " /etc/modprobe.d and reboot."
                    ),
                ),
            )
        elif on_bus:
            yield self.finding(
                title=text("The machine has an NVIDIA card, but no driver for it"),
                evidence=evidence,
                meaning=text("The card is on the PCI bus, but the NVIDIA driver is not installed or not loaded."),
                fix=driver_remedy(machine),
            )
        elif on_bus is None:
            yield self.finding(
                title=text("No NVIDIA driver was found, or there is no card"),
                evidence=evidence,
                meaning=text(
                    "Either this machine has no NVIDIA card, or the program cannot reach its driver. The available facts"
                    " do not show which."
                ),
                fix=_reach_driver(machine),
            )
        # No card on the bus: a CUDA build computes on the CPU, and the rule no-accelerator reports it.

    def _library_not_found(self, machine: Machine, quotes: tuple[str, ...]) -> Finding:
        return self.finding(
            title=text("The driver is installed, but the program does not find its libcuda"),
            evidence=[*quotes, describe_fact(text("driver"), machine.nvidia.driver)],
            meaning=text(
                "The kernel module works. libcuda.so.1, the driver's CUDA library, is not where the loader searches."
            ),
            fix=(
                *(
                    [text("Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility.")]
                    if container_kind(machine)
                    else []
                ),
                text("Check whether the library is installed: ldconfig -p | grep libcuda"),
                text("Refresh the loader's cache: ldconfig (as root)"),
            ),
        )


def _describe_pci(device: PciDevice) -> str:
    driver = device.driver or text("none")
    if device.device:
        return text(
            "PCI {bus}: NVIDIA {vendor}:{device}, driver: {driver}",
            bus=device.bus_id,
            vendor=device.vendor,
            device=device.device,
            driver=driver,
        )
    return text("PCI {bus}: NVIDIA, driver: {driver}", bus=device.bus_id, driver=driver)


def _reach_driver(machine: Machine) -> tuple[str, ...]:
    platform = rented_platform(machine)
    if platform == "Colab":
        return (text("Runtime → Change runtime type → choose a GPU."),)
    if platform == "Kaggle":
        return (text("Settings → Accelerator → choose a GPU."),)
    if is_wsl(machine):
        return driver_remedy(machine)
    if container_kind(machine):
        return (text("Start the container with the card: docker run --gpus all …"), *driver_remedy(machine))
    return (
        text("Look for the card: lspci | grep -i nvidia"),
        text("If there is a card, in a container: start it with the card (docker run --gpus all …)."),
        text(
            "In a hosted notebook (Colab, Kaggle): choose a GPU runtime in its settings; no driver can be installed there."
        ),
        text(
            "If nvidia-smi works, libcuda is in a package of its own that is missing: Fedora xorg-x11-drv-nvidia-cuda, Debian libcuda1, Ubuntu libnvidia-compute-BRANCH."
        ),
        *(text("If there is a card, outside a container: {step}", step=step) for step in driver_remedy(machine)[:1]),
    )
