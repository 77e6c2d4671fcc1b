"""Rules about the devices that a program sees: hidden, reordered, out of range, in exclusive mode, or split by MIG."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    accelerators_of,
    any_framework_works,
    card_name,
    describe_cards,
    describe_fact,
    nvidia_cards,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, on_host, set_variable
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.environment_variables import visible_devices
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card, Machine
from ownlab.text import listing, plural, sentences, text

__all__ = [
    "DeviceOrder",
    "ExclusiveComputeMode",
    "HiddenDevices",
    "InvalidDeviceOrdinal",
    "MigMode",
    "hiding_assignments",
]

# The variables that select cards, and the vendor of these cards.
_VARIABLES = (("CUDA_VISIBLE_DEVICES", "nvidia"), ("HIP_VISIBLE_DEVICES", "amd"), ("ROCR_VISIBLE_DEVICES", "amd"))
# In a shell or in Python: CUDA_VISIBLE_DEVICES=1, os.environ["CUDA_VISIBLE_DEVICES"] = '1'.
_ASSIGNED = re.compile(r"CUDA_VISIBLE_DEVICES\W{0,4}=\s?(?P<value>[^\s;]*)")
_RESTART = text("Then restart Python: it reads the variable only once.")


class HiddenDevices(MessageRule):
    """CUDA_VISIBLE_DEVICES hides cards: all of them, or those after an invalid entry.

    **Why it matters.** CUDA reads the variable once, when it starts. Empty or -1 hides every card. An entry that matches no
    card (an index that is too high, a wrong UUID) ends the list: this entry and all later ones are ignored without a
    message.

    **What to do.** Unset the variable, or name existing cards (`nvidia-smi -L` lists indices and UUIDs), before Python
    starts.

    **Sources.** CUDA C++ Programming Guide, "CUDA environment variables"; all-smi doctor.
    """

    code = "hidden"
    severity = "error"
    title = text("CUDA_VISIBLE_DEVICES hides the cards")
    blocks = True
    patterns = (r"No CUDA GPUs are available",)

    def check(self, case: Case) -> Iterable[Finding]:
        findings = list(self._by_environment(case))
        yield from findings
        assignments = hiding_assignments(case)
        if not findings and assignments and self.quotes(case) and not any_framework_works(case.machine):
            yield self.finding(
                title=text("CUDA_VISIBLE_DEVICES may hide the cards"),
                evidence=[*self.quotes(case), *dict.fromkeys(assignments)],
                meaning=text(
                    "The program sets CUDA_VISIBLE_DEVICES and then finds no card: the value may name a card that does not"
                    " exist. Cards are numbered from 0."
                ),
                fix=(text("Remove that line, or name cards listed by: nvidia-smi -L"), _RESTART),
                severity="warning",
                blocks=False,
            )

    def _by_environment(self, case: Case) -> Iterable[Finding]:
        for name, vendor in _VARIABLES:
            # ROCm also counts graphics integrated in the CPU, so they stay in the list; hiding only them is not a problem.
            cards = [card for card in value_of(case.machine.cards) or () if card.vendor == vendor]
            value = variable(case.machine, name)
            if value is not None and not all(card.integrated for card in cards):
                yield from self._check_variable(case.machine, name, value, cards)

    def _check_variable(self, machine: Machine, name: str, value: str, cards: list[Card]) -> Iterable[Finding]:
        visible = visible_devices(value, cards, cards[0].vendor)
        works = any_framework_works(machine)  # then the framework was started with another value
        if not visible.known or (visible.order and visible.problem is None) or (works and not visible.order):
            return
        blocks = not visible.order
        hidden = [card for card in cards if card.index not in visible.order and not card.integrated]
        list_command = "nvidia-smi -L" if name == "CUDA_VISIBLE_DEVICES" else "rocm-smi"
        yield self.finding(
            title=text("{variable} hides some cards", variable=name)
            if visible.order
            else text("{variable} hides the cards", variable=name),
            evidence=[
                text(
                    "{assignment}: {problem}",
                    assignment=f"{name}={value!r}",
                    problem=visible.problem or text("this value hides every card"),
                ),
                *(text("hidden: {cards}", cards=line) for line in describe_cards(hidden)),
            ],
            meaning=sentences(
                text(
                    "Programs started from here see only {cards}.",
                    cards=listing(text("card {index}", index=index) for index in visible.order),
                )
                if visible.order
                else text("Programs started from here see no card."),
                text("This may be intended."),
            ),
            fix=(
                text(
                    "{command}   # or name cards listed by: {list_command}",
                    command=_unset(machine, name),
                    list_command=list_command,
                ),
                _RESTART,
            ),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )


def hiding_assignments(case: Case) -> list[str]:
    """Return the assignments to CUDA_VISIBLE_DEVICES in the messages, except those that name known cards."""
    cards = nvidia_cards(case.machine)
    assignments = [match for message in case.messages for match in _ASSIGNED.finditer(message.text)]
    return [match[0] for match in assignments if not visible_devices(match["value"].strip("\"'"), cards).order]


def _unset(machine: Machine, name: str) -> str:
    return f"set {name}=" if value_of(machine.host.family) == "windows" else f"unset {name}"


class DeviceOrder(Rule):
    """CUDA numbers the cards differently from nvidia-smi.

    **Why it matters.** `cuda:0` is the first card of CUDA_VISIBLE_DEVICES, which need not be card 0 of nvidia-smi. Without
    CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA also puts the card that it considers fastest first, while nvidia-smi uses the bus
    order: with different kinds of cards the two numberings differ.

    **What to do.** Nothing, if it is intended. For one numbering: set CUDA_DEVICE_ORDER=PCI_BUS_ID.

    **Sources.** CUDA C++ Programming Guide, "CUDA environment variables".
    """

    code = "device-order"
    severity = "note"
    title = text("CUDA numbers the cards differently from nvidia-smi")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        value = variable(machine, "CUDA_VISIBLE_DEVICES")
        order = visible_devices(value, cards).order if value is not None else ()
        moved = [(number, index) for number, index in enumerate(order) if number != index]
        by_speed = variable(machine, "CUDA_DEVICE_ORDER") in (None, "FASTEST_FIRST")
        kinds = {name for card in cards if (name := value_of(card.name))}
        uncertain = by_speed and len(kinds) > 1 and isinstance(machine.environment, Known)
        if not (moved or uncertain):
            return
        evidence: list[str] = [f"CUDA_VISIBLE_DEVICES={value}"] if moved else []
        if uncertain:
            evidence += [
                text("different kinds of cards: {names}", names=listing(sorted(kinds))),
                text("CUDA_DEVICE_ORDER is not PCI_BUS_ID"),
            ]
        numbering = listing(
            text("cuda:{number} is card {index}", number=number, index=index) for number, index in moved
        )
        yield self.finding(
            evidence=evidence,
            meaning=text(
                "CUDA puts the card that it considers fastest first; nvidia-smi uses the bus order. The same number may"
                " mean different cards."
            )
            if uncertain
            else text("In programs started from here, {numbering} of nvidia-smi.", numbering=numbering),
            fix=(set_variable(machine, "CUDA_DEVICE_ORDER=PCI_BUS_ID"),) if uncertain else (),
        )


class InvalidDeviceOrdinal(MessageRule):
    """A program asked for a card number that it cannot see.

    **Why it matters.** The cards work, but the program asks for more of them than are visible. Numbers count from 0 among
    the visible cards: with CUDA_VISIBLE_DEVICES=3 the only one is `cuda:0`. Launchers (Ray, torchrun, Slurm) set that
    variable per process, so using a rank as a card number is a common cause; a checkpoint saved on `cuda:1` is another.

    **What to do.** Use a number below the count of visible cards, or as many processes as there are cards; load
    checkpoints with `map_location`.

    **Sources.** sglang#3470; vllm#12572; cudaErrorInvalidDevice (101).
    """

    code = "invalid-ordinal"
    severity = "error"
    title = text("A program asked for a card number that does not exist")
    patterns = (
        r"invalid device ordinal",
        r"\bInvalid device id\b|listed an invalid GPU id|invalid (?:GPU|device) (?:id|index|number|ordinal)\b|[Dd]evice (?:index|id|ordinal) (?:must be|out of range|\d+ (?:is )?(?:out of range|invalid|not available))",
        r"deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is \d+",
        r"cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes:
            return
        facts: list[str] = []
        for name, _ in _VARIABLES:
            value = variable(machine, name)
            if value is not None:
                facts.append(f"{name}={value}")
        cards = [card for card in accelerators_of(machine) if card.vendor in ("nvidia", "amd")]
        if cards:
            facts.append(
                plural(
                    len(cards),
                    "this machine has 1 card: the only valid number is 0",
                    "this machine has {n} cards: valid numbers are at most 0 to {last}",
                    last=len(cards) - 1,
                )
            )
        yield self.finding(
            evidence=[*quotes, *facts],
            meaning=text(
                "The program uses a card number that is too high for the cards it sees. The cards are not at fault."
            ),
            fix=(
                text('Check how many cards it sees: python -c "import torch; print(torch.cuda.device_count())"'),
                text(
                    "Use a lower number, or at most as many processes (tensor-parallel size, --nproc-per-node) as cards."
                ),
                text('Load checkpoints with torch.load(…, map_location="cuda:0").'),
            ),
        )


class ExclusiveComputeMode(MessageRule):
    """A card's compute mode allows one process or none; or CUDA reports that all devices are busy.

    **Why it matters.** In exclusive mode a second process is refused; in prohibited mode every process is. A card with MIG
    on and no instance, or a card left unusable by a crashed program, causes the same error "busy or unavailable".

    **What to do.** Set the mode back to default, or stop the process that uses the card.

    **Sources.** nvidia-smi manual, "compute mode"; cudaErrorDevicesUnavailable (46).
    """

    code = "exclusive"
    severity = "error"
    title = text("The card is busy, or refuses further processes")
    patterns = (
        r"CUDA-capable devices? ?(?:\(s\) is/)?are busy or unavailable",
        r"busy or unavailable",
        r"cudaErrorDevicesUnavailable",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        prohibited = [card for card in cards if value_of(card.compute_mode) == "prohibited"]
        exclusive = [card for card in cards if (value_of(card.compute_mode) or "").startswith("exclusive")]
        in_use = [card for card in exclusive if value_of(card.processes)]
        quotes = self.quotes(case)
        if not (prohibited or exclusive or quotes):
            return
        none_left = bool(cards) and len(prohibited) + len(in_use) == len(cards)
        numbers = ",".join(str(card.index) for card in (*prohibited, *exclusive))
        reset = as_root(machine, f"nvidia-smi -c 0{f' -i {numbers}' if numbers else ''}")
        only_mode = not (quotes or prohibited or in_use)
        yield self.finding(
            title=text("The card's compute mode allows one process at a time") if only_mode else None,
            evidence=[
                *quotes,
                *describe_cards(
                    (*prohibited, *exclusive), lambda card: describe_fact(text("compute mode"), card.compute_mode)
                ),
                *(
                    text("{card}: in use by pid {pid}", card=card_name(card), pid=process.pid)
                    for card in in_use
                    for process in value_of(card.processes) or ()
                ),
            ],
            meaning=text("In this mode one process at a time can use the card; the next one is refused.")
            if only_mode
            else text(
                "The card refuses the process because of its compute mode, because MIG is on without an instance, because a"
                " crashed program left it unusable, or because the driver is damaged (Windows, after an update)."
            ),
            fix=(
                on_host(machine, text("{command}   # back to the default mode", command=reset)),
                *(
                    []
                    if only_mode
                    else [
                        text("Check who uses it: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"),
                        text("If nobody does: restart the machine, then read sudo dmesg | grep -iE 'nvrm|xid'."),
                    ]
                ),
            ),
            severity="note" if only_mode else "error",
            blocks=(none_left or bool(quotes)) and not any_framework_works(machine),
        )


class MigMode(Rule):
    """A card is in MIG mode: split into instances, or without any instance yet.

    **Why it matters.** With MIG on and no instance, CUDA finds no device though nvidia-smi shows the card. With instances,
    a process sees one instance, with its own memory and share of the card. The driver does not report the utilisation of
    the whole card, and a container sees only the instances it was given.

    **What to do.** Without instances: create some, or turn MIG off. With several: choose one per process by its UUID in
    CUDA_VISIBLE_DEVICES.

    **Sources.** NVIDIA MIG user guide; nvidia-container-toolkit#842; dcgm-exporter#50.
    """

    code = "mig"
    severity = "note"
    title = text("The card is split into MIG instances")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        enabled = [card for card in cards if value_of(card.mig) or value_of(card.mig_instances)]
        empty = [card for card in enabled if value_of(card.mig_instances) == ()]
        split = [card for card in enabled if card not in empty]
        if empty:
            blocks = len(empty) == len(cards) and not any_framework_works(machine)
            yield self.finding(
                title=text("MIG is on, but the card has no instance"),
                evidence=[
                    *describe_cards(empty, lambda card: describe_fact(text("MIG"), card.mig)),
                    text("no MIG instance is listed"),
                ],
                meaning=text(
                    "CUDA finds no device on a card in MIG mode until an instance is created. In a container it can also"
                    " mean that the container was given none."
                ),
                fix=self._create_instances(machine, empty[0]),
                severity="error" if blocks else "warning",
                blocks=blocks,
            )
        if split:
            yield self._instances(split)

    @staticmethod
    def _create_instances(machine: Machine, card: Card) -> tuple[str, ...]:
        create = as_root(machine, f"nvidia-smi mig -i {card.index} -cgi PROFILE -C")
        turn_off = as_root(machine, f"nvidia-smi -i {card.index} -mig 0")
        return (
            on_host(
                machine,
                text("nvidia-smi mig -i {index} -lgip   # lists the profiles that this card offers", index=card.index),
            ),
            on_host(machine, text("{command}   # creates an instance", command=create)),
            on_host(machine, text("Or turn MIG off: {command}", command=turn_off)),
        )

    def _instances(self, cards: list[Card]) -> Finding:
        count = sum(len(value_of(card.mig_instances) or ()) for card in cards)
        several = count > 1
        return self.finding(
            evidence=[_describe_instances(card) for card in cards],
            meaning=sentences(
                text(
                    "A process gets one instance with its share of the card's memory and units. The driver does not report"
                    " the utilisation of the whole card."
                ),
                text("CUDA uses the first instance unless CUDA_VISIBLE_DEVICES names another.") if several else None,
            ),
            fix=(text("Choose one by its UUID: CUDA_VISIBLE_DEVICES=MIG-…   # nvidia-smi -L lists them"),)
            if several
            else (),
        )


def _describe_instances(card: Card) -> str:
    instances = value_of(card.mig_instances) or ()
    if not instances:
        return text("{card}: MIG on", card=card_name(card))
    return plural(
        len(instances),
        "{card}: MIG on, 1 instance: {profiles}",
        "{card}: MIG on, {n} instances: {profiles}",
        card=card_name(card),
        profiles=listing(value_of(instance.profile) or instance.uuid for instance in instances),
    )
