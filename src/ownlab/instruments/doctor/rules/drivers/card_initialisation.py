"""Rules about cards that the loaded driver cannot start or reach: no device, no fabric, no answer."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    cuda_builds,
    describe_cards,
    describe_fact,
    module_loaded,
    nvidia_cards,
    nvidia_on_pci,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, driver_remedy, install_command, on_host
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.instruments.doctor.rules.devices.device_visibility import hiding_assignments
from ownlab.machine.environment_variables import visible_devices
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Machine

__all__ = ["CardInitialisationFailed", "DriverHang", "FabricManagerNotReady", "NoVisibleGpu"]


class CardInitialisationFailed(MessageRule):
    """The driver is loaded, and says "No devices were found" or cannot start a card that is on the bus.

    **Why it matters.** The module is there, but starting the card failed: its flavour is wrong (Blackwell needs the open
    modules), the firmware leaves no address space for the card (Above 4G decoding, Resizable BAR), the firmware on the
    card (GSP) does not start or does not fit the driver, the driver no longer serves so old a card, or the card is
    failing or badly seated.

    **What to do.** The kernel log says which: look for NVRM lines.

    **Sources.** open-gpu-kernel-modules#862, #872; the driver's messages "RmInitAdapter failed".
    """

    code = "no-device"
    severity = "error"
    title = "The driver is loaded, but cannot start the card"
    blocks = True
    patterns = (
        r"^\W*No devices were found|: No devices were found",
        r"RmInitAdapter failed",
        r"rm_init_adapter failed",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        on_bus = nvidia_on_pci(machine)
        bound = [one for one in on_bus or () if one.driver == "nvidia"]
        none_started = bool(bound) and isinstance(machine.cards, Known) and not nvidia_cards(machine)
        quotes = self.quotes(case)
        if any_framework_works(machine) and not none_started:
            quotes = tuple(line for line in quotes if "No devices" not in line)
        if not (none_started or quotes):
            return
        absent = on_bus == () and not any("failed" in line for line in quotes)
        others = bool(nvidia_cards(machine)) or any_framework_works(machine)
        yield self.finding(
            title="The driver is loaded, but there is no card on the bus" if absent else None,
            evidence=[*(f"PCI {one.bus_id}: NVIDIA card, driver bound: nvidia" for one in bound), *quotes],
            meaning="The driver runs and finds no NVIDIA card on the PCI bus: it is not plugged in, not passed through, or"
            " gone from the bus."
            if absent
            else _why_not_started(case),
            fix=_start_it(machine, case),
            blocks=not others,
        )


def _why_not_started(case: Case) -> str:
    said = "\n".join(message.text for message in case.messages)
    if "requires use of the NVIDIA open kernel modules" in said or "not supported by open nvidia.ko" in said:
        return "The kernel log says that the modules are of the wrong flavour for this card (see module-flavour)."
    if "fallen off the bus" in said:
        return "The kernel log says that the card fell off the bus: power, seating, heat, or a failing card."
    if "GSP firmware" in said or "GFW" in said:
        return "The firmware on the card (GSP) did not start: files of another driver version, or a failing card."
    return (
        "The card is there and did not start. Usual causes: modules of the wrong flavour, no address space for the card"
        " (firmware settings), firmware files of another driver version, a card too old for this driver, or a failing one."
    )


def _start_it(machine: Machine, case: Case) -> tuple[str, ...]:
    if container_kind(machine):
        return (
            "Start the container anew with the card (docker: --gpus all).",
            on_host(machine, "See whether nvidia-smi shows the card there; if not, sudo dmesg | grep NVRM says why"),
        )
    known = any("RmInitAdapter" in message.text for message in case.messages)
    return (
        *([] if known else [f"See why: {as_root(machine, 'dmesg')} | grep NVRM"]),
        *(f"For a Blackwell card: {step}" for step in driver_remedy(machine, flavour="open")[:1]),
        "In the firmware's set-up: turn on Above 4G Decoding and Resizable BAR.",
        "Switch the machine off and on again (not only a reboot); seat the card and its power cables anew.",
    )


class NoVisibleGpu(MessageRule):
    """CUDA starts and counts no card, or does not start at all, and does not say why.

    **Why it matters.** "No CUDA GPUs are available" and "CUDA driver initialization failed" are what is left when the
    driver's library is found and no card comes through. The cause is elsewhere: the cards are hidden, were not given to
    the container or the job, or could not be started.

    **What to do.** Go from the outside in: does nvidia-smi show the card; is CUDA_VISIBLE_DEVICES set; what does the
    kernel log say. On Colab: is a GPU runtime chosen, and still granted.

    **Sources.** torch, torch/csrc/cuda/Module.cpp and c10/cuda/CUDAFunctions.cpp; cudaErrorNoDevice (100).
    """

    code = "no-visible-gpu"
    severity = "error"
    title = "CUDA finds no card that it can use"
    blocks = True
    patterns = (
        r"No CUDA GPUs are available",
        r"CUDA driver initialization failed",
        r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice",
        r"no CUDA-capable device is detected",
        r"cuda driver library init failure",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        # A variable that hides them is the reason then, and the rule hidden says it.
        value, cards = variable(machine, "CUDA_VISIBLE_DEVICES"), nvidia_cards(machine)
        visible = visible_devices(value, cards)
        hiding = bool(cards) and visible.known and not visible.order
        hiding = hiding or bool(hiding_assignments(case))
        # A build that sees nothing, where no driver is known of either, is the rule no-driver's.
        driverless = not isinstance(machine.nvidia.driver, Known) and any(
            isinstance(one.devices, Known) for one in cuda_builds(machine)
        )
        if not quotes or hiding or driverless or any_framework_works(machine):
            return
        yield self.finding(
            evidence=(*quotes, *([f"CUDA_VISIBLE_DEVICES={value!r}"] if value is not None else [])),
            meaning="The driver's library is there and offers no card. Why cannot be told from these words: the cards may be"
            " hidden, not given to this container or job, or not started by the driver.",
            fix=(
                "See whether the driver shows a card: nvidia-smi",
                "See whether it is hidden: echo $CUDA_VISIBLE_DEVICES",
                on_host(machine, f"See what the driver says: {as_root(machine, 'dmesg')} | grep NVRM | tail"),
            ),
        )


class FabricManagerNotReady(MessageRule):
    """CUDA error 802: the cards of an NVSwitch machine wait for Fabric Manager.

    **Why it matters.** On HGX and DGX machines NVIDIA's Fabric Manager sets up the switches between the cards. Until it
    has, nvidia-smi shows all cards and CUDA starts on none. It must be of exactly the driver's version.

    **What to do.** Install the Fabric Manager of the driver's version, and start it.

    **Sources.** pytorch#35710; dstack#2348; NVIDIA Fabric Manager user guide; cudaErrorSystemNotReady (802).
    """

    code = "fabric"
    severity = "error"
    title = "The cards wait for NVIDIA's Fabric Manager"
    blocks = True
    patterns = (
        r"\berror \(?802\)?",
        r"\bcode=802\b|returned 802\b",
        r"system not yet initialized",
        r"cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        waiting = [
            card
            for card in nvidia_cards(machine)
            if isinstance(card.fabric, Known) and card.fabric.value in ("in-progress", "not-started")
        ]
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (waiting or quotes):
            return
        facts = describe_cards(waiting, lambda card: describe_fact(": fabric", card.fabric))
        if isinstance(machine.nvidia.driver, Known):
            facts.append(describe_fact("driver", machine.nvidia.driver))
        yield self.finding(
            evidence=[*quotes, *facts],
            meaning="The switches between the cards are not set up: Fabric Manager is not installed, does not run, or is"
            " of another version than the driver.",
            fix=self._fix(machine),
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        start = "systemctl enable --now nvidia-fabricmanager"
        if container_kind(machine):
            return (on_host(machine, f"install Fabric Manager of the driver's version, then sudo {start}"),)
        driver = value_of(machine.nvidia.driver)
        branch = parse_version(driver)[0] if driver and parse_version(driver) else None
        by_branch = value_of(machine.host.package_manager) == "apt" and branch is not None
        package = f"nvidia-fabricmanager-{branch}" if by_branch else "nvidia-fabricmanager"
        install = install_command(machine, package)
        exact = f" (exactly {driver})" if driver else " (exactly the driver's version)"
        return (
            install or f"Install Fabric Manager{exact}: the package nvidia-fabricmanager of NVIDIA's repository",
            as_root(machine, start),
            f"See what it says: systemctl status nvidia-fabricmanager. Its version must be the driver's{exact}.",
        )


class DriverHang(MessageRule):
    """nvidia-smi or NVML did not answer in time.

    **Why it matters.** A question to the driver takes milliseconds (seconds at most, where persistence is off and many
    cards wake up). One that hangs points to a card or a driver stuck in the kernel; programs that use it hang as well.

    **What to do.** Read the kernel log for an Xid; turn persistence on if the cards only wake slowly; else reset the card
    or reboot.

    **Sources.** NVIDIA, "GPU debug guidelines"; Xid 119 (GSP timeout) often comes with it.
    """

    code = "smi-hang"
    severity = "error"
    title = "NVIDIA's driver does not answer"
    patterns = (r"(?:nvidia-smi|nvml)\b.* did not answer in",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        facts = [
            f"{where}: {fact.reason}"
            for where, fact in (("NVML", machine.nvidia.nvml), ("nvidia-smi", machine.nvidia.smi))
            if isinstance(fact, Unknown) and "did not answer" in fact.reason
        ]
        evidence = tuple(dict.fromkeys([*facts, *self.quotes(case)]))
        if not evidence:
            return
        blocks = not any_framework_works(machine) and not nvidia_cards(machine) and module_loaded(machine) is not False
        yield self.finding(
            evidence=evidence,
            meaning="A driver that hangs is usually stuck on one card. If it only was slow to wake, a second try answers.",
            fix=(
                "Try again: nvidia-smi",
                on_host(machine, f"{as_root(machine, 'dmesg')} | grep -E 'NVRM|Xid' | tail   # what the driver says"),
                on_host(machine, f"{as_root(machine, 'reboot')}   # if it stays stuck"),
            ),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )
