"""NEW."""

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
from ownlab.machine.records import Machine

__all__ = ["NoDriver"]


class NoDriver(MessageRule):
    """A framework built for CUDA finds no NVIDIA driver, or an NVIDIA card has none.

    **Why it matters.** The driver is the one part that no wheel and no container image brings: it belongs to the host.
    Without it there is no CUDA, whatever toolkit is installed.

    **What to do.** With a card: install the driver. In a container: give it the card (`--gpus all`). In WSL: install
    the driver of Windows. Without a card: nothing is wrong; work runs on the CPU.

    **Sources.** torch, c10/cuda/CUDAFunctions.cpp; pytorch#74733; vllm#14413.
    """

    code = "no-driver"
    severity = "error"
    title = "No NVIDIA driver is found"
    blocks = True
    patterns = (
        r"Found no NVIDIA driver on your system",
        r"libcuda\.so(?:\.1)?: cannot open shared object file",
        r"Could not find cuda drivers on your machine",  # TensorFlow
        r"failed call to cuInit: (?:UNKNOWN ERROR \(303\)|CUDA_ERROR_NO_DEVICE)",
        r"nvidia-smi: (?:command )?not found",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if any_framework_works(machine):
            return
        if nvidia_cards(machine) or isinstance(machine.nvidia.driver, Known):
            if quotes and not (container_kind(machine) and not nvidia_cards(machine)):
                yield self._out_of_sight(machine, quotes)
            return
        on_bus = nvidia_on_pci(machine)
        builds = [one for one in cuda_builds(machine) if isinstance(one.devices, Known)]
        installed = isinstance(machine.nvidia.library_version, Known) or module_loaded(machine)
        if not quotes and (installed or not (on_bus or builds)):
            return
        if not quotes and on_bus and all(one.driver == "nouveau" for one in on_bus):  # the rule nouveau says it
            return
        if not quotes and any(one.driver == "nvidia" for one in on_bus or ()):  # it is there, as far as the bus knows
            return
        if module_loaded(machine) and container_kind(
            machine
        ):  # the host has one: container-no-gpu says what is missing
            return
        evidence = [
            *(
                f"PCI {one.bus_id}: NVIDIA{f' {one.vendor}:{one.device}' if one.device else ''}, driver: {one.driver or 'none'}"
                for one in on_bus or ()
            ),
            *(f"{one.name} is built with {describe_fact('CUDA', one.cuda)} and sees no device" for one in builds),
            *quotes,
        ]
        if on_bus and all(one.driver == "vfio-pci" for one in on_bus):
            yield self.finding(
                title="The NVIDIA card is set aside for a virtual machine (vfio-pci)",
                evidence=evidence,
                meaning="vfio-pci holds the card, so that it can be handed to a virtual machine; the host cannot use it.",
                fix=(
                    "Use it in the virtual machine; or take its ids out of the vfio-pci options in /etc/modprobe.d, and reboot.",
                ),
            )
        elif on_bus:
            yield self.finding(
                title="An NVIDIA card is here, but no driver for it",
                evidence=evidence,
                meaning="The card is on the bus, and NVIDIA's driver is not installed or not loaded.",
                fix=driver_remedy(machine),
            )
        elif on_bus is None:
            yield self.finding(
                title="No NVIDIA driver is found, or there is no card",
                evidence=evidence,
                meaning="Either there is no NVIDIA card in this machine, or its driver does not reach this program."
                " What is known does not tell which.",
                fix=_reach_a_driver(machine),
            )
        # No card on the bus: a build for CUDA computes on the CPU, and no-accelerator says so.

    def _out_of_sight(self, machine: Machine, quotes: tuple[str, ...]) -> Finding:
        inside = (
            ("Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility.",) if container_kind(machine) else ()
        )
        return self.finding(
            title="The driver is here, but the program does not find its libcuda",
            evidence=[*quotes, describe_fact("driver", machine.nvidia.driver)],
            meaning="The kernel module works; libcuda.so.1, the driver's library for CUDA, is not where the loader looks.",
            fix=(
                *inside,
                "See whether it is there: ldconfig -p | grep libcuda",
                "Renew the loader's list: ldconfig (as root)",
            ),
        )


def _choose_a_gpu(machine: Machine) -> tuple[str, ...]:
    if rented_platform(machine) == "Colab":
        return ("Runtime → Change runtime type → choose a GPU.",)
    if rented_platform(machine) == "Kaggle":
        return ("Settings → Accelerator → choose a GPU.",)
    return ()


def _reach_a_driver(machine: Machine) -> tuple[str, ...]:
    if chosen := _choose_a_gpu(machine):
        return chosen
    if is_wsl(machine):
        return driver_remedy(machine)
    if container_kind(machine):
        return ("Start the container with the card: docker run --gpus all …", *driver_remedy(machine))
    return (
        "Look for the card: lspci | grep -i nvidia",
        "With a card, in a container: start it with the card (docker run --gpus all …).",
        *(f"With a card, not in a container: {step}" for step in driver_remedy(machine)[:1]),
    )
