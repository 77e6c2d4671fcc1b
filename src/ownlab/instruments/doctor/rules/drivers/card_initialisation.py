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
    known_facts,
    module_loaded,
    nvidia_cards,
    nvidia_on_pci,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, driver_remedy, install_command, on_host
from ownlab.instruments.doctor.rule import MessageRule, cuda_error
from ownlab.instruments.doctor.rules.devices.device_visibility import hiding_assignments
from ownlab.machine.environment_variables import visible_devices
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Machine
from ownlab.text import in_english, text

__all__ = ["CardInitialisationFailed", "DriverHang", "FabricManagerNotReady", "NoVisibleGpu"]


class CardInitialisationFailed(MessageRule):
    """The driver is loaded, but reports "No devices were found" or cannot start a card that is on the bus.

    **Why it matters.** The kernel module is loaded, but starting the card failed. Possible causes: the module has the
    wrong flavour (Blackwell needs the open modules); the system firmware reserves no address space for the card (Above 4G
    decoding, Resizable BAR); the card's own firmware (GSP) does not start or does not match the driver; the driver no
    longer supports such an old card; the card is failing or badly seated.

    **What to do.** Read the kernel log: its NVRM lines show the cause.

    **Sources.** open-gpu-kernel-modules#862, #872; the driver's messages "RmInitAdapter failed".
    """

    code = "no-device"
    severity = "error"
    title = text("The driver is loaded, but cannot start the card")
    blocks = True
    patterns = (
        r"^\W*No devices were found|: No devices were found",
        r"RmInitAdapter failed",
        r"rm_init_adapter failed|Failed to allocate NvKmsKapiDevice",
        r"\(EE\) NVIDIA[^\n]*Failed to initialize the NVIDIA GPU",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        on_bus = nvidia_on_pci(machine)
        bound = [device for device in on_bus or () if device.driver == "nvidia"]
        none_started = bool(bound) and isinstance(machine.cards, Known) and not nvidia_cards(machine)
        quotes = self.quotes(case)
        if any_framework_works(machine) and not none_started:
            quotes = tuple(line for line in quotes if "No devices" not in line)
        if not (none_started or quotes):
            return
        absent = on_bus == () and not any("failed" in line for line in quotes)
        others_work = bool(nvidia_cards(machine)) or any_framework_works(machine)
        yield self.finding(
            title=text("The driver is loaded, but there is no card on the bus") if absent else None,
            evidence=[
                *(text("PCI {bus}: NVIDIA card, bound to driver nvidia", bus=device.bus_id) for device in bound),
                *quotes,
            ],
            meaning=text(
                "The driver runs but finds no NVIDIA card on the PCI bus: the card is not installed, not passed through to"
                " this machine, or has dropped off the bus."
            )
            if absent
            else _initialisation_failure(case),
            fix=_start_card(machine, case),
            blocks=not others_work,
        )


def _initialisation_failure(case: Case) -> str:
    messages = "\n".join(message.text for message in case.messages)
    if "requires use of the NVIDIA open kernel modules" in messages or "not supported by open nvidia.ko" in messages:
        return text(
            "According to the kernel log, the kernel modules have the wrong flavour for this card (see module-flavour)."
        )
    if "fallen off the bus" in messages:
        return text(
            "According to the kernel log, the card fell off the bus. Check power, seating and cooling; the card may be"
            " failing."
        )
    if "GSP firmware" in messages or "GFW" in messages:
        return text(
            "The card's firmware (GSP) did not start: its files belong to another driver version, or the card is failing."
        )
    return text(
        "The card is on the bus but did not start. Common causes: kernel modules of the wrong flavour, no address space for"
        " the card (firmware settings), firmware files of another driver version, a card too old for this driver, or a"
        " failing card."
    )


def _start_card(machine: Machine, case: Case) -> tuple[str, ...]:
    if container_kind(machine):
        return (
            text("Restart the container with the card (docker: --gpus all)."),
            on_host(
                machine,
                text(
                    "Check whether nvidia-smi shows the card there; if not, read the reason with sudo dmesg | grep NVRM"
                ),
            ),
        )
    logged = any("RmInitAdapter" in message.text for message in case.messages)
    return (
        *([] if logged else [text("Find the reason: {dmesg} | grep NVRM", dmesg=as_root(machine, "dmesg"))]),
        *(text("For a Blackwell card: {step}", step=step) for step in driver_remedy(machine, flavour="open")[:1]),
        text("In the system firmware (BIOS): turn on Above 4G Decoding and Resizable BAR."),
        text("Power the machine off and on again (a reboot is not enough); reseat the card and its power cables."),
    )


class NoVisibleGpu(MessageRule):
    """CUDA finds no card, or does not start at all, without saying why.

    **Why it matters.** "No CUDA GPUs are available" and "CUDA driver initialization failed" mean that CUDA found the
    driver's library but no card. The cause is elsewhere: the cards are hidden, were not given to the container or the job,
    or could not be started.

    **What to do.** Check in this order: does nvidia-smi show the card, is CUDA_VISIBLE_DEVICES set, what does the kernel
    log contain. On Colab: check that a GPU runtime is selected and still assigned.

    **Sources.** torch, torch/csrc/cuda/Module.cpp and c10/cuda/CUDAFunctions.cpp; cudaErrorNoDevice (100).
    """

    code = "no-visible-gpu"
    severity = "error"
    title = text("CUDA finds no usable card")
    blocks = True
    patterns = (
        r"No CUDA GPUs are available",
        r"CUDA driver initialization failed",
        r"CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice",
        cuda_error(100, 38),
        r"no CUDA-capable device\b|\bcu[A-Z]\w+ failed: no device",
        r"cuda driver library init failure",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        # A variable that hides the cards is reported by the rule hidden.
        value, cards = variable(machine, "CUDA_VISIBLE_DEVICES"), nvidia_cards(machine)
        visible = visible_devices(value, cards)
        hidden = bool(cards) and visible.known and not visible.order
        hidden = hidden or bool(hiding_assignments(case))
        # A CUDA build that sees no device on a machine without a known driver is reported by the rule no-driver.
        driverless = not isinstance(machine.nvidia.driver, Known) and any(
            isinstance(build.devices, Known) for build in cuda_builds(machine)
        )
        if not quotes or hidden or driverless or any_framework_works(machine):
            return
        yield self.finding(
            evidence=(*quotes, *([f"CUDA_VISIBLE_DEVICES={value!r}"] if value is not None else [])),
            meaning=text(
                "CUDA found the driver's library, but no card. The message does not show why: the cards may be hidden, not"
                " given to this container or job, or not started by the driver."
            ),
            fix=(
                text("Check whether the driver shows a card: nvidia-smi"),
                text(
                    "Check whether a variable hides it: echo $CUDA_VISIBLE_DEVICES   # -1 or a number too high hides all; the program may set it too (a card's number that does not exist)"
                ),
                *_not_given(machine),
                on_host(
                    machine,
                    text("Read the driver's messages: {dmesg} | grep NVRM | tail", dmesg=as_root(machine, "dmesg")),
                ),
            ),
        )


def _not_given(machine: Machine) -> tuple[str, ...]:
    """Return how a container, a job or a rented notebook gets a card, where it is unknown which of them this is."""
    if machine.origin != "pasted" or container_kind(machine):
        return ()
    return (
        text(
            "In a container: docker run --gpus all …, and on its host ls -l /dev/nvidia* (missing: sudo nvidia-modprobe -u -c=0); in a cluster's job: request a card (Slurm: --gres=gpu:1); Colab, Kaggle: choose a GPU runtime."
        ),
    )


class FabricManagerNotReady(MessageRule):
    """CUDA error 802: the cards of an NVSwitch machine wait for Fabric Manager.

    **Why it matters.** On HGX and DGX machines NVIDIA's Fabric Manager configures the switches between the cards. Until it
    has done so, nvidia-smi shows all cards, but CUDA starts on none. Fabric Manager must have exactly the driver's
    version.

    **What to do.** Install Fabric Manager in the driver's version, and start it.

    **Sources.** pytorch#35710; dstack#2348; NVIDIA Fabric Manager user guide; cudaErrorSystemNotReady (802).
    """

    code = "fabric"
    severity = "error"
    title = text("The cards wait for NVIDIA Fabric Manager")
    blocks = True
    patterns = (
        r"\berror \(?802\)?",
        r"\bcode=802\b|returned 802\b",
        r"system not yet initialized",
        r"fabric ?manager[^\n]*(?:don't match|does not match|mismatch)[^\n]*driver",
        r"Failed to initialize (?:any )?NVSwitch|Failed to start nvidia-fabricmanager|nvidia-fabricmanager\.service: (?:Failed|Main process exited)",
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
        yield self.finding(
            evidence=[
                *quotes,
                *describe_cards(waiting, lambda card: describe_fact(text("fabric"), card.fabric)),
                *known_facts((text("driver"), machine.nvidia.driver)),
            ],
            meaning=text(
                "The switches between the cards are not configured: Fabric Manager is not installed, not running, or has"
                " another version than the driver."
            ),
            fix=self._fix(machine),
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        start = "systemctl enable --now nvidia-fabricmanager"
        if container_kind(machine):
            step = text("install Fabric Manager in the driver's version, then run: sudo {command}", command=start)
            return (on_host(machine, step),)
        driver = value_of(machine.nvidia.driver)
        branch = parse_version(driver)[0] if driver and parse_version(driver) else None
        by_branch = value_of(machine.host.package_manager) == "apt" and branch is not None
        package = f"nvidia-fabricmanager-{branch}" if by_branch else "nvidia-fabricmanager"
        if driver:
            by_hand = text(
                "Install Fabric Manager (exactly {version}): the package nvidia-fabricmanager from NVIDIA's repository",
                version=driver,
            )
            state = text(
                "Check its state: systemctl status nvidia-fabricmanager. Its version must be exactly {version}, the driver's.",
                version=driver,
            )
        else:
            by_hand = text(
                "Install Fabric Manager (exactly the driver's version): the package nvidia-fabricmanager from NVIDIA's"
                " repository"
            )
            state = text(
                "Check its state: systemctl status nvidia-fabricmanager. Its version must be exactly the driver's."
            )
        return (install_command(machine, package) or by_hand, as_root(machine, start), state)


class DriverHang(MessageRule):
    """nvidia-smi or NVML did not answer in time.

    **Why it matters.** A query to the driver takes milliseconds (a few seconds at most, if persistence is off and many
    cards wake up). A query that hangs indicates a card or a driver stuck in the kernel; programs that use it hang as well.

    **What to do.** Look for an Xid in the kernel log. Turn persistence on if the cards only wake slowly; otherwise reset
    the card or reboot.

    **Sources.** NVIDIA, "GPU debug guidelines"; Xid 119 (GSP timeout) often comes with it.
    """

    code = "smi-hang"
    severity = "error"
    title = text("The NVIDIA driver does not answer")
    patterns = (
        r"(?:nvidia-smi|nvml)\b.* did not answer in",
        r"task (?:nvidia\S*|irq/\d+-nvidia):\d+ blocked for more than|soft lockup[^\n]*nvidia|Idling display engine timed out|nvidia-smi (?:hangs|freezes|is stuck|does not respond|never returns)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        facts = [
            text("{where}: {line}", where=where, line=fact.reason)
            for where, fact in (("NVML", machine.nvidia.nvml), ("nvidia-smi", machine.nvidia.smi))
            if isinstance(fact, Unknown) and "did not answer" in in_english(fact.reason)
        ]
        evidence = tuple(dict.fromkeys([*facts, *self.quotes(case)]))
        if not evidence:
            return
        blocks = not any_framework_works(machine) and not nvidia_cards(machine) and module_loaded(machine) is not False
        yield self.finding(
            evidence=evidence,
            meaning=text(
                "A driver that hangs is usually stuck on one card. If it was only slow to wake up, a second try succeeds."
            ),
            fix=(
                text("Try again: nvidia-smi"),
                on_host(
                    machine,
                    text(
                        "{dmesg} | grep -E 'NVRM|Xid' | tail   # the driver's messages",
                        dmesg=as_root(machine, "dmesg"),
                    ),
                ),
                on_host(machine, text("{reboot}   # if it stays stuck", reboot=as_root(machine, "reboot"))),
            ),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )
