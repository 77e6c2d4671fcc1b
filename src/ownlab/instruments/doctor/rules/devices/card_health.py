"""Rules about the state of a card: lost, memory errors, slowed down, slow PCIe link, no bfloat16."""

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
    known_facts,
    nvidia_cards,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import Fact, Known, value_of
from ownlab.machine.records import Card, Machine
from ownlab.text import sentences, text

__all__ = ["CardLost", "EccErrors", "NoBfloat16", "PersistenceOff", "SlowPcieLink", "Throttling"]

# The health of a card that works but needs a reset: NVML's recovery action, or NVML's message about a reset.
_NEEDS_RECOVERY = re.compile(r"recovery action: |requires? (?:a )?reset", re.IGNORECASE)
# With these recovery actions the card stays usable; only communication between cards is affected.
_STILL_USABLE = re.compile(r"drain (?:peer-to-peer|p2p)|IMEX", re.IGNORECASE)
_NEW_SESSION = text("Stop the session and start a new one: it gets another machine.")


class CardLost(MessageRule):
    """A card has dropped off the bus, or its driver can no longer read it.

    **Why it matters.** "GPU is lost" and "Unable to determine the device handle" mean that the card stopped answering: it
    overheated, lacks power, is badly seated, or is failing. Programs on it have died; one lost card can make nvidia-smi
    fail for all cards.

    **What to do.** Reboot; a card that dropped off the bus does not come back in another way. If it happens again: check
    power cables, seating and cooling, then use the manufacturer's warranty. The kernel log has an Xid (often 79) with the
    time.

    **Sources.** NVIDIA Xid catalogue (79); NVML return value 15 (GPU is lost).
    """

    code = "card-lost"
    severity = "error"
    title = text("A card no longer answers")
    patterns = (
        r"GPU is lost",
        r"Unable to determine the device handle",
        r"has fallen off the bus",
        r"NVML_ERROR_GPU_IS_LOST|GPU_IS_LOST|Unknown header type 7f|NVIDIA[^\n]*\(rev ff\)",
        r"\| +\d+ +ERR! ",  # in nvidia-smi's table, in place of the card's name
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        faulty = [card for card in cards if (value_of(card.health) or "OK") != "OK"]
        needing_recovery = [card for card in faulty if _NEEDS_RECOVERY.search(value_of(card.health) or "")]
        lost = [card for card in faulty if card not in needing_recovery]
        others_work = any(card not in faulty for card in cards) or any_framework_works(machine)
        reported = {f"card {card.index}" for card in faulty}
        quotes = tuple(line for line in self.quotes(case) if line.split(":", 1)[0] not in reported)
        if needing_recovery:
            yield self._needs_recovery(machine, needing_recovery, others_work)
        if not (lost or quotes):
            return
        yield self.finding(
            evidence=[*describe_cards(lost, lambda card: describe_fact(None, card.health)), *quotes],
            meaning=text(
                "The card stopped answering its driver because of power, heat or seating, or because it is failing. Only a"
                " restart of the machine can bring it back."
            ),
            fix=(
                _NEW_SESSION
                if rented_platform(machine)
                else on_host(
                    machine,
                    text("Reboot the machine; if the card stays lost: power it off, wait, and power it on again."),
                ),
                text(
                    "If it happens again: check power cables, seating and cooling; then contact the manufacturer. See the"
                    " finding xid for details."
                ),
            ),
            blocks=not others_work,
        )

    def _needs_recovery(self, machine: Machine, cards: list[Card], others_work: bool) -> Finding:
        """Report cards that answer, but for which the driver requests a recovery action."""
        usable = all(_STILL_USABLE.search(value_of(card.health) or "") for card in cards)
        numbers = ",".join(str(card.index) for card in cards)
        reset = text(
            "Stop all programs on the card, then: {command}   # or reboot, if the driver requests it",
            command=as_root(machine, f"nvidia-smi --gpu-reset -i {numbers}"),
        )
        return self.finding(
            title=text("The driver requests that communication between cards be stopped")
            if usable
            else text("The driver requests a reset or restart of a card"),
            evidence=describe_cards(cards, lambda card: describe_fact(None, card.health)),
            meaning=text("The card itself computes, but communication between cards may fail.")
            if usable
            else text(
                "The card answers, but the driver met a fault that only a reset clears. Until then programs on the card may"
                " fail."
            ),
            fix=(
                _NEW_SESSION if rented_platform(machine) else on_host(machine, reset),
                text("The kernel log shows what happened: look for Xid lines (the finding xid)."),
            ),
            severity="warning" if usable else "error",
            blocks=not others_work and not usable,
        )


_FAILING_MEMORY = text(
    "If the errors come back: the card's memory is failing. Compute on another card, and have this one replaced; do not turn ECC off."
)


class EccErrors(MessageRule):
    """A card has memory errors that ECC could not correct, or memory rows that wait to be replaced.

    **Why it matters.** An uncorrected error ends the program that met it; if it did not, the data is wrong. Cards since
    Ampere take a bad row out of use at the next reset (row remapping). A card without spare rows cannot do so, and should
    be replaced.

    **What to do.** For a pending remap, reset the card or reboot. Replace a card whose remap failed, or whose errors
    recur.

    **Sources.** NVIDIA GPU memory error management; Xid 48, 63, 64, 94, 95.
    """

    code = "ecc"
    severity = "error"
    title = text("A card has uncorrected memory errors")
    patterns = (r"uncorrectable ECC error encountered", r"cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        with_errors = [card for card in nvidia_cards(machine) if (value_of(card.ecc.uncorrected) or 0) > 0]
        pending = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_pending)]
        failed = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_failed)]
        if not (with_errors or pending or failed or quotes):
            return
        evidence = [
            *quotes,
            *describe_cards(with_errors, lambda card: describe_fact(text("uncorrected errors"), card.ecc.uncorrected)),
            *describe_cards(pending, lambda card: describe_fact(text("row remap pending:"), card.ecc.remap_pending)),
            *describe_cards(failed, lambda card: describe_fact(text("row remap failed:"), card.ecc.remap_failed)),
        ]
        index = next((card.index for card in (*failed, *pending, *with_errors)), "N")
        command = as_root(machine, f"nvidia-smi -r -i {index}")
        reset = on_host(machine, text("{command}   # stop all programs on it first; or reboot", command=command))
        if failed:
            yield self.finding(
                title=text("A card's memory is failing"),
                evidence=evidence,
                meaning=text("The card has no spare memory rows left and should be replaced."),
                fix=(text("Have the card replaced (warranty)."), reset),
            )
        elif with_errors or quotes:
            yield self.finding(
                evidence=evidence,
                meaning=text(
                    "The card has lost data since the driver was loaded. One error may be chance; more mean a failing card."
                ),
                fix=(reset, _FAILING_MEMORY),
            )
        else:
            yield self.finding(
                title=text("A card needs a reset to replace a memory row"),
                evidence=evidence,
                meaning=text("A reset takes the bad row out of use."),
                fix=(reset,),
                severity="warning",
            )


_SLOWDOWN_MEANINGS = {
    "hw-slowdown": text("The hardware slowed the card down because of heat or power."),
    "hw-thermal": text("The card is too hot: the hardware slowed it down."),
    "sw-thermal": text("The card is hot: the driver slowed it down."),
    "hw-power-brake": text("The power supply requested a slowdown."),
}
# Below this utilisation (percent) low clocks do not matter.
_LOADED = 20


def _loaded(card: Card) -> bool:
    return (value_of(card.utilisation) or 0) >= _LOADED


class Throttling(MessageRule):
    """A card runs slower than it could, because of heat or power.

    **Why it matters.** A card that slows down because of heat or power loses much of its speed, without a message. The
    software power cap is different: a card under full load normally reaches its limit.

    **What to do.** For heat: check airflow, dust, fans and the room. For the power brake: check power supply and cables.
    nvidia-smi -pl shows and sets the limit itself.

    **Sources.** NVML, clocks event reasons.
    """

    code = "throttle"
    severity = "warning"
    title = text("A card is slowed down")
    patterns = (r"(?:HW Slowdown|HW Thermal Slowdown|HW Power Brake Slowdown|SW Thermal Slowdown)\s+: Active",)

    def check(self, case: Case) -> Iterable[Finding]:
        cards = nvidia_cards(case.machine)
        slowed: list[str] = []
        capped: list[str] = []
        meanings: list[str] = []
        if not cards and (quotes := self.quotes(case)):
            slowed += quotes
            meanings.append(text("The card is too hot or lacks power."))
        for card in cards:
            reasons = value_of(card.throttle_reasons) or ()
            known = [_SLOWDOWN_MEANINGS[reason] for reason in reasons if reason in _SLOWDOWN_MEANINGS]
            if known:
                slowed += _describe_clocks(card)
                meanings = meanings or list(known)
            elif "sw-power-cap" in reasons and _loaded(card):
                capped += _describe_clocks(card)
        if slowed:
            yield self.finding(
                evidence=slowed,
                meaning=sentences(*meanings, text("It runs slower as long as this lasts.")),
                fix=(
                    text("Check airflow, dust, fans and the room's temperature; for power: the supply and its cables."),
                    text("Watch it: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
                ),
            )
        if capped:
            yield self.finding(
                title=text("A card works at its power limit"),
                evidence=capped,
                meaning=text("Under full load this is normal: the driver lowers the clocks to stay within the limit."),
                fix=(
                    text("Check whether the limit was lowered: nvidia-smi -q -d POWER   # current and default limit"),
                ),
                severity="note",
            )


def _describe_clocks(card: Card) -> list[str]:
    """Return the throttle reasons, temperature and power of a card as evidence."""
    evidence: list[str] = [
        text("{card}: {reasons}", card=card_name(card), reasons=describe_fact(None, card.throttle_reasons)),
        *known_facts((text("temperature"), card.temperature)),
    ]
    if isinstance(card.power_draw, Known):
        power, limit = describe_fact(text("power"), card.power_draw), value_of(card.power_limit)
        evidence.append(text("{power} of {limit:g} W", power=power, limit=limit) if limit else power)
    return evidence


class PersistenceOff(Rule):
    """Persistence mode is off: the driver releases idle cards, and the next program starts slowly.

    **Why it matters.** Without persistence mode and without a display, the driver unloads a card's state when its last
    program ends, and initialises it again for the next one. This takes seconds per start, more with many cards. Settings
    such as a power limit are lost too.

    **What to do.** Run NVIDIA's persistence daemon.

    **Sources.** NVIDIA driver README, "persistence daemon".
    """

    code = "persistence"
    severity = "note"
    title = text("Persistence mode is off: the first use of a card is slow")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        off = [card for card in nvidia_cards(machine) if value_of(card.persistence) is False]
        windows = value_of(machine.host.family) == "windows" or any(
            isinstance(card.driver_model, Known) for card in off
        )
        if not off or windows or is_wsl(machine):
            return
        start = "systemctl enable --now nvidia-persistenced"
        yield self.finding(
            evidence=describe_cards(off, lambda card: describe_fact(text("persistence"), card.persistence)),
            meaning=text(
                "The driver releases a card when its last program ends, so each start takes some seconds longer. This is"
                " harmless otherwise, and does not matter if a desktop keeps the card awake."
            ),
            fix=(text("Only the platform's provider can change this."),)
            if rented_platform(machine)
            else (on_host(machine, f"sudo {start}" if container_kind(machine) else as_root(machine, start)),),
        )


class SlowPcieLink(Rule):
    """A card's PCIe link is narrower or slower than it could be.

    **Why it matters.** Data reaches the card through this link: half the lanes mean half the speed when batches are
    loaded, or when several cards without NVLink exchange gradients. An idle card lowers the generation (the speed of a
    lane) to save power, and raises it under load; that is normal. The number of lanes does not change in this way.

    **What to do.** Reseat the card, check risers and cables, and check the slot: some boards connect only eight lanes to a
    slot of sixteen, or share lanes between slots.

    **Sources.** NVML, PCIe link; PCI Express card specification; board manuals.
    """

    code = "pcie"
    severity = "warning"
    title = text("A card's PCIe link is narrower or slower than it could be")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        narrow = [card for card in nvidia_cards(machine) if _below(card.pcie.width, card.pcie.width_max)]
        slow = [
            card
            for card in nvidia_cards(machine)
            if _below(card.pcie.generation, card.pcie.generation_max) and _under_load(card)
        ]
        if not narrow and not slow:
            return
        virtual = value_of(machine.host.virtualisation) not in (None, "none")
        yield self.finding(
            evidence=[*describe_cards(narrow, _describe_width), *describe_cards(slow, _describe_generation)],
            meaning=sentences(
                text(
                    "Copies to and from the card are slower than they could be; computation on the card is not. Some boards"
                    " and laptops are built this way."
                ),
                text("A virtual machine may show a different link from the real one.") if virtual else None,
            ),
            fix=(text("The provider chose this link."),)
            if rented_platform(machine)
            else (
                text(
                    "Reseat the card; try another slot, without a riser; set the slot to its full width in the system"
                    " firmware (BIOS)."
                ),
            ),
        )


def _describe_width(card: Card) -> str:
    return text(
        "{width}, at most {maximum}",
        width=describe_fact(text("PCIe width"), card.pcie.width),
        maximum=value_of(card.pcie.width_max),
    )


def _describe_generation(card: Card) -> str:
    return text(
        "{generation} under load, at most {maximum}",
        generation=describe_fact(text("PCIe generation"), card.pcie.generation),
        maximum=value_of(card.pcie.generation_max),
    )


def _below(current: Fact[int], maximum: Fact[int]) -> bool:
    ours, best = value_of(current), value_of(maximum)
    return bool(ours and best and ours < best)


def _under_load(card: Card) -> bool:
    """Whether a card is working, so that a low link generation is not just power saving."""
    clock, maximum = value_of(card.clocks.sm), value_of(card.clocks.sm_max)
    return _loaded(card) and (clock is None or maximum is None or clock >= maximum / 2)


class NoBfloat16(MessageRule):
    """A card has no native bfloat16: programs that require it fail, others emulate it slowly.

    **Why it matters.** bfloat16 came with Ampere (compute capability 8.0). Turing, Volta and older cards emulate it in
    float32 or refuse it; vLLM and others stop with "Bfloat16 is only supported on GPUs with compute capability of at
    least 8.0". torch may report that bf16 is supported on such a card; it means emulation.

    **What to do.** Use float16 (with loss scaling for training), or float32.

    **Sources.** vLLM's message; NVIDIA Ampere tuning guide.
    """

    code = "no-bf16"
    severity = "note"
    title = text("The card has no native bfloat16")
    patterns = (
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        r"Your setup doesn't support bf16/gpu|CUDA Device does not support bfloat16|(?:card|GPU|device) does not support (?:bf16|bfloat16)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        lacking = [card for card in nvidia_cards(case.machine) if (family := architecture(card)) and not family.bf16]
        quotes = self.quotes(case)
        if not (lacking or quotes):
            return
        yield self.finding(
            title=text("A program requires bfloat16, which this card does not have") if quotes else None,
            evidence=[
                *quotes,
                *describe_cards(
                    lacking,
                    lambda card: text("{architecture}, without bfloat16", architecture=architecture_name(card)),
                ),
            ],
            meaning=text(
                "bfloat16 came with Ampere (8.0). Older cards refuse it, or emulate it without gaining speed."
            ),
            fix=(
                text(
                    "Use float16: dtype=torch.float16, --dtype=half (vLLM), fp16=True (transformers); with a GradScaler in"
                    " training."
                ),
            ),
            severity="error" if quotes else "note",
        )
