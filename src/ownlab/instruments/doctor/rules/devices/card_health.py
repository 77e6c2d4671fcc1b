"""Rules about the state of a card: lost, erring, slowed down, badly connected, or lacking a number format."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    architecture,
    architecture_name,
    card_name,
    container_kind,
    describe_cards,
    describe_fact,
    is_wsl,
    join,
    nvidia_cards,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import Fact, Known, value_of
from ownlab.machine.records import Card, Machine

__all__ = ["CardLost", "EccErrors", "NoBfloat16", "PersistenceOff", "SlowPcieLink", "Throttling"]

# Health of a card that answers, and asks for a reset: NVML's recovery action, and its words for a card that needs one.
_ASKS = re.compile(r"recovery action: |requires? (?:a )?reset", re.IGNORECASE)
# Of NVML's recovery actions these leave the card usable; work between cards is what suffers.
_USABLE = re.compile(r"drain (?:peer-to-peer|p2p)|IMEX", re.IGNORECASE)


class CardLost(MessageRule):
    """A card has dropped off the bus, or its driver can no longer read it.

    **Why it matters.** "GPU is lost" and "Unable to determine the device handle" mean that the card stopped answering:
    overheated, short of power, badly seated, or failing. Programs on it have died; nvidia-smi may fail as a whole
    because of the one card.

    **What to do.** Reboot; a card that is gone from the bus comes back no other way. If it recurs: power cables, seating,
    cooling, then the maker's warranty. The kernel log has an Xid (often 79) with the moment.

    **Sources.** NVIDIA Xid catalogue (79); NVML return value 15 (GPU is lost).
    """

    code = "card-lost"
    severity = "error"
    title = "A card no longer answers"
    patterns = (
        r"GPU is lost",
        r"Unable to determine the device handle",
        r"has fallen off the bus",
        r"NVML_ERROR_GPU_IS_LOST|GPU_IS_LOST",
        r"\| +\d+ +ERR! ",  # nvidia-smi's table, where the name of the card should be
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        ill = [card for card in cards if (value_of(card.health) or "OK") != "OK"]
        asking = [card for card in ill if _ASKS.search(value_of(card.health) or "")]
        lost = [card for card in ill if card not in asking]
        sound = any(card not in ill for card in cards) or any_framework_works(machine)
        said_of = {f"card {card.index}" for card in ill}
        quotes = tuple(line for line in self.quotes(case) if line.split(":", 1)[0] not in said_of)
        if asking:
            yield self._asks(machine, asking, sound)
        if not (lost or quotes):
            return
        yield self.finding(
            evidence=[*describe_cards(lost, lambda card: describe_fact(":", card.health)), *quotes],
            meaning="The card stopped answering its driver: power, heat, seating, or a failing card. It comes back with a"
            " restart of the machine at the earliest.",
            fix=(
                "Stop the session and start a new one: it gets another machine."
                if rented_platform(machine)
                else on_host(
                    machine, "Restart the machine (reboot); if the card stays away: switch off, wait, switch on."
                ),
                "If it happens again: power cables, seating, cooling; then the maker. The finding xid tells more.",
            ),
            blocks=not sound,
        )

    def _asks(self, machine: Machine, cards: list[Card], sound: bool) -> Finding:
        """The cards answer, and the driver says what they need."""
        usable = all(_USABLE.search(value_of(card.health) or "") for card in cards)
        numbers = ",".join(str(card.index) for card in cards)
        reset = as_root(machine, f"nvidia-smi --gpu-reset -i {numbers}")
        return self.finding(
            title="The driver asks for a reset or a restart of a card"
            if not usable
            else "The driver asks that work between cards be ended",
            evidence=describe_cards(cards, lambda card: describe_fact(":", card.health)),
            meaning="The card answers, but the driver met a fault that it can clear only so; until then programs on the card"
            " may fail."
            if not usable
            else "The card itself computes; what cards exchange with each other may fail.",
            fix=(
                "Stop the session and start a new one: it gets another machine."
                if rented_platform(machine)
                else on_host(machine, f"End all programs on it, then: {reset}   # or reboot, where it asks for that"),
                "The kernel log says what happened: look for Xid lines (the finding xid).",
            ),
            severity="warning" if usable else "error",
            blocks=not sound and not usable,
        )


class EccErrors(MessageRule):
    """A card has memory errors that ECC could not correct, or rows that wait to be replaced.

    **Why it matters.** An uncorrected error ends the program that met it, and means wrong data if it did not. Cards since
    Ampere take a bad row out of use at the next reset (remap); one whose spare rows are used up fails to, and should be
    replaced.

    **What to do.** Reset the card or reboot for a pending remap. Replace a card whose remap failed, or whose errors recur.

    **Sources.** NVIDIA GPU memory error management; Xid 48, 63, 64, 94, 95.
    """

    code = "ecc"
    severity = "error"
    title = "A card has uncorrected memory errors"
    patterns = (r"uncorrectable ECC error encountered", r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        erring = [card for card in nvidia_cards(machine) if (value_of(card.ecc.uncorrected) or 0) > 0]
        pending = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_pending)]
        failed = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_failed)]
        if not (erring or pending or failed or quotes):
            return
        evidence = [
            *quotes,
            *describe_cards(erring, lambda card: describe_fact(": uncorrected errors", card.ecc.uncorrected)),
            *describe_cards(pending, lambda card: describe_fact(": row remap pending:", card.ecc.remap_pending)),
            *describe_cards(failed, lambda card: describe_fact(": row remap failed:", card.ecc.remap_failed)),
        ]
        index = next((card.index for card in (*failed, *pending, *erring)), "N")
        reset = on_host(
            machine, f"{as_root(machine, f'nvidia-smi -r -i {index}')}   # end all programs on it first; or reboot"
        )
        if failed:
            title, meaning = "A card's memory is failing", "Its spare rows are used up: the card should be replaced."
        elif erring or quotes:
            title, meaning = (
                None,
                "Data was lost since the driver was loaded. Once may be chance; more is a failing card.",
            )
        else:
            title, meaning = (
                "A card waits for a reset to replace a memory row",
                "The bad row is out of use after a reset.",
            )
        yield self.finding(
            title=title,
            evidence=evidence,
            meaning=meaning,
            fix=("Have the card replaced (warranty).", reset) if failed else (reset,),
            severity="error" if failed or erring or quotes else "warning",
        )


_SLOWED = {
    "hw-slowdown": "the hardware slowed it down (heat or power)",
    "hw-thermal": "too hot: the hardware slowed it down",
    "sw-thermal": "hot: the driver slowed it down",
    "hw-power-brake": "the power supply told it to slow down",
}
# Below this share of time a card does no work to speak of, and slow clocks cost nothing.
_LOADED = 20


def _loaded(card: Card) -> bool:
    return (value_of(card.utilisation) or 0) >= _LOADED


class Throttling(MessageRule):
    """A card runs slower than it could: too hot, or short of power.

    **Why it matters.** A card that slows down for heat or power loses a large part of its speed, silently. The power cap
    by software is different: a card under full load reaches its limit by design.

    **What to do.** For heat: airflow, dust, fans, room. For the power brake: power supply and cables. The limit itself can
    be read and set with nvidia-smi -pl.

    **Sources.** NVML, clocks event reasons.
    """

    code = "throttle"
    severity = "warning"
    title = "A card is slowed down"
    patterns = (r"(?:HW Slowdown|HW Thermal Slowdown|HW Power Brake Slowdown|SW Thermal Slowdown)\s+: Active",)

    def check(self, case: Case) -> Iterable[Finding]:
        slowed: list[tuple[str, list[str]]] = []
        capped: list[list[str]] = []
        if not nvidia_cards(case.machine) and (quotes := self.quotes(case)):
            slowed.append(("it is too hot, or short of power", list(quotes)))
        for card in nvidia_cards(case.machine):
            reasons = value_of(card.throttle_reasons) or ()
            named = [_SLOWED[reason] for reason in reasons if reason in _SLOWED]
            about = [describe_fact(f"{card_name(card)}:", card.throttle_reasons)]
            if isinstance(card.temperature, Known):
                about.append(describe_fact("temperature", card.temperature))
            if isinstance(card.power_draw, Known):
                limit = value_of(card.power_limit)
                about.append(describe_fact("power", card.power_draw) + (f" of {limit:g} W" if limit else ""))
            if named:
                slowed.append((join(named), about))
            elif "sw-power-cap" in reasons and _loaded(card):
                capped.append(about)
        if slowed:
            yield self.finding(
                evidence=[line for _, about in slowed for line in about],
                meaning=f"{slowed[0][0].capitalize()}. It loses speed as long as this lasts.",
                fix=(
                    "Check airflow, dust, fans and the room's temperature; for power: the supply and its cables.",
                    "Watch it: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                ),
            )
        if capped:
            yield self.finding(
                title="A card works at its power limit",
                evidence=[line for about in capped for line in about],
                meaning="Under full load this is normal: the driver lowers clocks to stay within the limit.",
                fix=("To see whether the limit was lowered: nvidia-smi -q -d POWER   # current against default limit",),
                severity="note",
            )


class PersistenceOff(Rule):
    """Persistence is off: the driver lets go of idle cards, and the first call is slow.

    **Why it matters.** Without it, and without a display, the driver unloads a card's state when its last program ends,
    and sets it up again for the next one: seconds per start, more with many cards. Settings such as a power limit are
    lost too.

    **What to do.** Run NVIDIA's persistence daemon.

    **Sources.** NVIDIA driver README, "persistence daemon".
    """

    code = "persistence"
    severity = "note"
    title = "Persistence is off: the first use of a card is slow"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        off = [card for card in nvidia_cards(machine) if value_of(card.persistence) is False]
        windows = value_of(machine.host.family) == "windows" or any(
            isinstance(card.driver_model, Known) for card in off
        )
        if not off or windows or is_wsl(machine):
            return
        daemon = as_root(machine, "systemctl enable --now nvidia-persistenced")
        yield self.finding(
            evidence=describe_cards(off, lambda card: describe_fact(": persistence", card.persistence)),
            meaning="The driver lets go of a card when its last program ends; each start then takes seconds more. Harmless"
            " otherwise, and of no weight where a desktop keeps the card awake.",
            fix=("The platform's provider decides this.",)
            if rented_platform(machine)
            else (
                on_host(
                    machine,
                    f"{'sudo systemctl enable --now nvidia-persistenced' if container_kind(machine) else daemon}",
                ),
            ),
        )


class SlowPcieLink(Rule):
    """A card's PCIe link is narrower or slower than it could be.

    **Why it matters.** Data reaches the card through this link: half the lanes are half the speed of loading batches,
    and of several cards exchanging gradients without NVLink. An idle card lowers the generation (the speed of a lane) to
    save power, and raises it under load: that is no fault. Lanes are not given up so.

    **What to do.** Seat the card anew, look at risers and cables, and which slot it is in: some boards wire eight lanes
    to a slot of sixteen, or share them between slots.

    **Sources.** NVML, PCIe link; PCI Express card specification; board manuals.
    """

    code = "pcie"
    severity = "warning"
    title = "A card's PCIe link is narrower or slower than it could be"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        narrow = [card for card in nvidia_cards(machine) if _below(card.pcie.width, card.pcie.width_max)]
        slow = [card for card in nvidia_cards(machine) if _below(card.pcie.generation, card.pcie.generation_max)]
        evidence = [
            *describe_cards(
                narrow,
                lambda card: (
                    f"{describe_fact(': PCIe width', card.pcie.width)}, at most {value_of(card.pcie.width_max)}"
                ),
            ),
            *describe_cards(
                filter(_awake, slow),
                lambda card: (
                    f"{describe_fact(': PCIe generation', card.pcie.generation)} at work,"
                    f" at most {value_of(card.pcie.generation_max)}"
                ),
            ),
        ]
        if not evidence:
            return
        virtual = value_of(machine.host.virtualisation) not in (None, "none")
        yield self.finding(
            evidence=evidence,
            meaning="Copies to and from the card are slower than they could be; work on the card itself is not. Some boards"
            " and laptops are built so."
            + (" A virtual machine may show another link than the real one." if virtual else ""),
            fix=("The provider chose this link.",)
            if rented_platform(machine)
            else (
                "Seat the card anew; try another slot, without a riser; set the slot to its full width in the firmware.",
            ),
        )


def _below(now: Fact[int], most: Fact[int]) -> bool:
    ours, best = value_of(now), value_of(most)
    return bool(ours and best and ours < best)


def _awake(card: Card) -> bool:
    """Whether a card is at work, so that a low link generation is not just its rest."""
    clock, most = value_of(card.clocks.sm), value_of(card.clocks.sm_max)
    return _loaded(card) and (clock is None or most is None or clock >= most / 2)


class NoBfloat16(MessageRule):
    """A card has no bfloat16 of its own: programs that insist on it fail, others emulate it slowly.

    **Why it matters.** bfloat16 came with Ampere (compute capability 8.0). Turing, Volta and older cards compute it in
    float32 or refuse it; vLLM and others stop with "Bfloat16 is only supported on GPUs with compute capability of at
    least 8.0". torch may say that bf16 is supported there: by emulation.

    **What to do.** Use float16 (with loss scaling for training), or float32.

    **Sources.** vLLM's message; NVIDIA Ampere tuning guide.
    """

    code = "no-bf16"
    severity = "note"
    title = "The card has no bfloat16 of its own"
    patterns = (
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        r"Your setup doesn't support bf16/gpu",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        lacking = [card for card in nvidia_cards(case.machine) if (found := architecture(card)) and not found.bf16]
        quotes = self.quotes(case)
        if not (lacking or quotes):
            return
        yield self.finding(
            title="A program wants bfloat16, which this card does not have" if quotes else None,
            evidence=[*quotes, *describe_cards(lacking, lambda card: f": {architecture_name(card)}, without bfloat16")],
            meaning="bfloat16 came with Ampere (8.0). On older cards it is refused, or emulated without gain.",
            fix=(
                "Use float16: dtype=torch.float16, --dtype=half (vLLM), fp16=True (transformers); with a GradScaler in training.",
            ),
            severity="error" if quotes else "note",
        )
