"""Rules about which devices a program gets: hidden, reordered, out of range, closed to it, or cut in slices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    accelerators_of,
    any_framework_works,
    card_name,
    describe_cards,
    describe_fact,
    join,
    nvidia_cards,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, on_host, set_variable
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.environment_variables import visible_devices
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card, Machine

__all__ = [
    "DeviceOrder",
    "ExclusiveComputeMode",
    "HiddenDevices",
    "InvalidDeviceOrdinal",
    "MigMode",
    "hiding_assignments",
]

# The variables that choose cards, and whose cards they choose.
_VARIABLES = (("CUDA_VISIBLE_DEVICES", "nvidia"), ("HIP_VISIBLE_DEVICES", "amd"), ("ROCR_VISIBLE_DEVICES", "amd"))
# In a shell or in Python: CUDA_VISIBLE_DEVICES=1, os.environ["CUDA_VISIBLE_DEVICES"] = '1'.
_ASSIGNED = re.compile(r"CUDA_VISIBLE_DEVICES\W{0,4}=\s?(?P<value>[^\s;]*)")


class HiddenDevices(MessageRule):
    """CUDA_VISIBLE_DEVICES hides cards: all of them, or those after an entry that names no card.

    **Why it matters.** CUDA reads the variable once, when it starts. Empty or -1 hides every card. An entry that names
    no card (an index too high, a wrong UUID) ends the list: that one and all after it are hidden, without a word.

    **What to do.** Unset it, or name cards that are here (`nvidia-smi -L` lists indices and UUIDs), before Python starts.

    **Sources.** CUDA C++ Programming Guide, "CUDA environment variables"; all-smi doctor.
    """

    code = "hidden"
    severity = "error"
    title = "The cards are hidden by CUDA_VISIBLE_DEVICES"
    blocks = True
    patterns = (r"No CUDA GPUs are available",)

    def check(self, case: Case) -> Iterable[Finding]:
        found = list(self._by_value(case))
        yield from found
        said = hiding_assignments(case)
        if not found and said and self.quotes(case) and not any_framework_works(case.machine):
            yield self.finding(
                title="The cards may be hidden by CUDA_VISIBLE_DEVICES",
                evidence=[*self.quotes(case), *dict.fromkeys(said)],
                meaning="The text sets CUDA_VISIBLE_DEVICES, and no card is found with it: it may name a card that is not"
                " there. Cards count from 0.",
                fix=("Take that line out, or name cards of: nvidia-smi -L", _RESTART),
                severity="warning",
                blocks=False,
            )

    def _by_value(self, case: Case) -> Iterable[Finding]:
        for name, vendor in _VARIABLES:
            # ROCm counts graphics inside the CPU too, so they stay in the list; to hide them alone is no trouble.
            cards = [card for card in value_of(case.machine.cards) or () if card.vendor == vendor]
            value = variable(case.machine, name)
            if value is not None and not all(card.integrated for card in cards):
                yield from self._look(case.machine, name, value, cards)

    def _look(self, machine: Machine, name: str, value: str, cards: list[Card]) -> Iterable[Finding]:
        visible = visible_devices(value, cards, cards[0].vendor)
        works = any_framework_works(machine)  # then the variable is not what that framework was started with
        if not visible.known or (visible.order and visible.problem is None) or (works and not visible.order):
            return
        blocks = not visible.order
        hidden = [card for card in cards if card.index not in visible.order and not card.integrated]
        what = visible.problem or "that value hides every card"
        list_them = "nvidia-smi -L" if name == "CUDA_VISIBLE_DEVICES" else "rocm-smi"
        yield self.finding(
            title=f"{name} does not mean what it seems to" if visible.order else f"The cards are hidden by {name}",
            evidence=[
                f"{name}={value!r}: {what}",
                *(f"hidden: {named}" for named in describe_cards(hidden, lambda card: "")),
            ],
            meaning="Programs started from here see "
            + (join(f"card {index}" for index in visible.order) + " alone." if visible.order else "no card.")
            + " It may be meant so.",
            fix=(f"{_unset(machine, name)}   # or name cards of: {list_them}", _RESTART),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )


def hiding_assignments(case: Case) -> list[str]:
    """Where a text itself sets CUDA_VISIBLE_DEVICES, and not to cards that are known to be here."""
    cards = nvidia_cards(case.machine)
    said = [match for message in case.messages for match in _ASSIGNED.finditer(message.text)]
    return [match[0] for match in said if not visible_devices(match["value"].strip("\"'"), cards).order]


_RESTART = "Then start Python anew: the variable is read once."


def _unset(machine: Machine, name: str) -> str:
    return f"set {name}=" if value_of(machine.host.family) == "windows" else f"unset {name}"


class DeviceOrder(Rule):
    """CUDA numbers the cards differently from nvidia-smi.

    **Why it matters.** `cuda:0` is the first card of CUDA_VISIBLE_DEVICES, and need not be card 0 of nvidia-smi. Without
    CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA also puts what it thinks the fastest card first, while nvidia-smi goes by the bus:
    with cards of different kinds the two lists differ.

    **What to do.** Nothing, if it is meant so. To have one numbering: set CUDA_DEVICE_ORDER=PCI_BUS_ID.

    **Sources.** CUDA C++ Programming Guide, "CUDA environment variables".
    """

    code = "device-order"
    severity = "note"
    title = "CUDA numbers the cards differently from nvidia-smi"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        value = variable(machine, "CUDA_VISIBLE_DEVICES")
        order = visible_devices(value, cards).order if value is not None else ()
        moved = [(place, index) for place, index in enumerate(order) if place != index]
        by_speed = variable(machine, "CUDA_DEVICE_ORDER") in (None, "FASTEST_FIRST")
        kinds = {name for card in cards if (name := value_of(card.name))}
        uncertain = by_speed and len(kinds) > 1 and isinstance(machine.environment, Known)
        if not (moved or uncertain):
            return
        evidence = [f"CUDA_VISIBLE_DEVICES={value}"] if moved else []
        if uncertain:
            evidence += [f"cards of different kinds: {join(sorted(kinds))}", "CUDA_DEVICE_ORDER is not PCI_BUS_ID"]
        numbered = join(f"cuda:{place} is card {index}" for place, index in moved)
        if uncertain:
            meaning = (
                "CUDA puts the card that it thinks the fastest first; nvidia-smi goes by the bus. A number may mean"
            )
            meaning += " one card here and another there."
        else:
            meaning = f"In programs started from here {numbered} of nvidia-smi."
        yield self.finding(
            evidence=evidence,
            meaning=meaning,
            fix=(set_variable(machine, "CUDA_DEVICE_ORDER=PCI_BUS_ID"),) if uncertain else (),
        )


class InvalidDeviceOrdinal(MessageRule):
    """A program asked for a card number that it cannot see.

    **Why it matters.** The cards work; the program wants more of them than are visible. Numbers count from 0 among the
    visible cards: with CUDA_VISIBLE_DEVICES=3 the only one is `cuda:0`. Launchers (Ray, torchrun, Slurm) set that
    variable per process, so a rank used as a card number is a usual cause; a checkpoint saved on `cuda:1` another.

    **What to do.** Use a number below the count of visible cards, or as many processes as there are cards; load
    checkpoints with `map_location`.

    **Sources.** sglang#3470; vllm#12572; cudaErrorInvalidDevice (101).
    """

    code = "invalid-ordinal"
    severity = "error"
    title = "A program asked for a card number that is not there"
    patterns = (
        r"invalid device ordinal",
        r"\bInvalid device id\b",
        r"deserialize object on CUDA device \d+ but torch\.cuda\.device_count\(\) is \d+",
        r"cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes:
            return
        facts = []
        for name, _ in _VARIABLES:
            value = variable(machine, name)
            if value is not None:
                facts.append(f"{name}={value}")
        cards = [card for card in accelerators_of(machine) if card.vendor in ("nvidia", "amd")]
        if cards:
            facts.append(
                f"{len(cards)} card{'' if len(cards) == 1 else 's'} here: numbers 0 to {len(cards) - 1} at most"
            )
        yield self.finding(
            evidence=[*quotes, *facts],
            meaning="The program's card number is not below the count of the cards that it sees. The cards themselves"
            " are not at fault.",
            fix=(
                'See how many it sees: python -c "import torch; print(torch.cuda.device_count())"',
                "Use a lower number, or no more processes (tensor-parallel size, --nproc-per-node) than cards.",
                'Load checkpoints with torch.load(…, map_location="cuda:0").',
            ),
        )


class ExclusiveComputeMode(MessageRule):
    """A card's compute mode lets one process in, or none; or CUDA says that all devices are busy.

    **Why it matters.** In exclusive mode a second process is refused; in prohibited mode every one is. The words "busy or
    unavailable" also come from a card with MIG on and no instance, and from one left broken by a program that died.

    **What to do.** Set the mode back to default, or end the process that is in.

    **Sources.** nvidia-smi manual, "compute mode"; cudaErrorDevicesUnavailable (46).
    """

    code = "exclusive"
    severity = "error"
    title = "The card is busy, or closed to further processes"
    patterns = (
        r"CUDA-capable devices? ?(?:\(s\) is/)?are busy or unavailable",
        r"busy or unavailable",
        r"cudaErrorDevicesUnavailable",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        closed = [card for card in cards if value_of(card.compute_mode) == "prohibited"]
        single = [card for card in cards if (value_of(card.compute_mode) or "").startswith("exclusive")]
        taken = [card for card in single if value_of(card.processes)]
        quotes = self.quotes(case)
        if not (closed or single or quotes):
            return
        all_closed = bool(cards) and len(closed) + len(taken) == len(cards)
        blocks = (all_closed or bool(quotes)) and not any_framework_works(machine)
        pids = [f"{card_name(card)}: used by pid {one.pid}" for card in taken for one in value_of(card.processes) or ()]
        numbers = ",".join(str(card.index) for card in (*closed, *single))
        reset = as_root(machine, f"nvidia-smi -c 0{f' -i {numbers}' if numbers else ''}")
        only_mode = not (quotes or closed or taken)
        yield self.finding(
            title="The card's compute mode lets one process in at a time" if only_mode else None,
            evidence=[
                *quotes,
                *describe_cards((*closed, *single), lambda card: describe_fact(": compute mode", card.compute_mode)),
                *pids,
            ],
            meaning="One process at a time may use the card in this mode; the next is refused."
            if only_mode
            else "The card refuses the process: by its compute mode, because MIG is on without an instance, or because a"
            " program that died left it unusable.",
            fix=(
                on_host(machine, f"{reset}   # back to the default mode"),
                *(
                    ["See who uses it: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"]
                    if not only_mode
                    else []
                ),
            ),
            severity="note" if only_mode else "error",
            blocks=blocks,
        )


class MigMode(Rule):
    """A card is in MIG mode: cut into slices, or waiting to be.

    **Why it matters.** With MIG on and no instance, CUDA finds no device though nvidia-smi shows the card. With
    instances a process sees one slice, with its own memory and share of the card; utilisation of the whole card is not
    reported, and a container sees just what it was given.

    **What to do.** Without instances: make some, or turn MIG off. With several: choose one per process by its UUID in
    CUDA_VISIBLE_DEVICES.

    **Sources.** NVIDIA MIG user guide; nvidia-container-toolkit#842; dcgm-exporter#50.
    """

    code = "mig"
    severity = "note"
    title = "The card is cut into MIG slices"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        on = [card for card in cards if value_of(card.mig) or value_of(card.mig_instances)]
        empty = [card for card in on if value_of(card.mig_instances) == ()]
        sliced = [card for card in on if card not in empty]
        if empty:
            blocks = len(empty) == len(cards) and not any_framework_works(machine)
            yield self.finding(
                title="MIG is on, but the card has no instance",
                evidence=[
                    *describe_cards(empty, lambda card: describe_fact(": MIG", card.mig)),
                    "no MIG instance is listed",
                ],
                meaning="CUDA finds no device on a card in MIG mode until an instance is made. From inside a container it"
                " can also mean that none was given to it.",
                fix=self._make_instances(machine, empty[0]),
                severity="error" if blocks else "warning",
                blocks=blocks,
            )
        if sliced:
            yield self._slices(sliced)

    @staticmethod
    def _make_instances(machine: Machine, card: Card) -> tuple[str, ...]:
        return (
            on_host(machine, f"nvidia-smi mig -i {card.index} -lgip   # the profiles that this card offers"),
            on_host(machine, f"{as_root(machine, f'nvidia-smi mig -i {card.index} -cgi PROFILE -C')}   # make one"),
            on_host(machine, f"Or turn it off: {as_root(machine, f'nvidia-smi -i {card.index} -mig 0')}"),
        )

    def _slices(self, cards: list[Card]) -> Finding:
        evidence = []
        instances = 0
        for card in cards:
            listed = value_of(card.mig_instances) or ()
            instances += len(listed)
            profiles = join(value_of(one.profile) or one.uuid for one in listed)
            evidence.append(
                f"{card_name(card)}: MIG on"
                + (f", {len(listed)} instance{'' if len(listed) == 1 else 's'}: {profiles}" if listed else "")
            )
        several = "" if instances < 2 else " CUDA gives a process one of them, the first, unless it is told which."
        return self.finding(
            evidence=evidence,
            meaning="A process gets a slice: its share of memory and of the card's units. Utilisation of the whole card is"
            f" not reported.{several}",
            fix=("Choose one by its UUID: CUDA_VISIBLE_DEVICES=MIG-…   # nvidia-smi -L lists them",) if several else (),
        )
