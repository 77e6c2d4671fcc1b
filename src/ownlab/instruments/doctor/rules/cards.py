"""Rules about the state of a card: lost, erring, slowed down, badly connected, or lacking a number format."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.questions import (
    architecture,
    card_name,
    container_of,
    is_wsl,
    join,
    nvidia_cards,
    some_framework_works,
    told,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, on_host, rented
from ownlab.instruments.doctor.rule import Rule, SignRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card

__all__ = ["CardLost", "EccErrors", "NoBf16", "Persistence", "SlowLink", "Throttling"]

# Health that says nothing bad: "integrated" marks a card inside a CPU.
_SOUND = ("OK", "integrated")


class CardLost(SignRule):
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
    signs = (
        r"GPU is lost",
        r"Unable to determine the device handle",
        r"has fallen off the bus",
        r"NVML_ERROR_GPU_IS_LOST|GPU_IS_LOST",
        r"\| +\d+ +ERR! ",  # nvidia-smi's table, where the name of the card should be
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = nvidia_cards(machine)
        ill = [card for card in cards if (value_of(card.health) or "OK") not in _SOUND]
        quotes = self.quotes(case)
        if not (ill or quotes):
            return
        sound = any(card not in ill for card in cards)
        facts = [told(f"{card_name(card)}:", card.health) for card in ill]
        said = {fact.split(":", 1)[0] for fact in facts}
        quotes = tuple(line for line in quotes if line.split(":", 1)[0] not in {one.split(" (")[0] for one in said})
        yield self.found(
            evidence=[*facts, *quotes],
            meaning="The card stopped answering its driver: power, heat, seating, or a failing card. It comes back with a"
            " restart of the machine at the earliest.",
            fix=(
                "Stop the session and start a new one: it gets another machine."
                if rented(machine)
                else on_host(
                    machine, "Restart the machine (reboot); if the card stays away: switch off, wait, switch on."
                ),
                "If it happens again: power cables, seating, cooling; then the maker. The finding xid tells more.",
            ),
            blocks=not sound and not some_framework_works(machine),
        )


class EccErrors(Rule):
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

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        erring = [card for card in nvidia_cards(machine) if (value_of(card.ecc.uncorrected) or 0) > 0]
        pending = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_pending)]
        failed = [card for card in nvidia_cards(machine) if value_of(card.ecc.remap_failed)]
        if not (erring or pending or failed):
            return
        evidence = [told(f"{card_name(card)}: uncorrected errors", card.ecc.uncorrected) for card in erring]
        evidence += [told(f"{card_name(card)}: row remap pending:", card.ecc.remap_pending) for card in pending]
        evidence += [told(f"{card_name(card)}: row remap failed:", card.ecc.remap_failed) for card in failed]
        index = (failed or pending or erring)[0].index
        reset = on_host(
            machine, f"{as_root(machine, f'nvidia-smi -r -i {index}')}   # end all programs on it first; or reboot"
        )
        if failed:
            title, meaning = "A card's memory is failing", "Its spare rows are used up: the card should be replaced."
        elif erring:
            title, meaning = (
                None,
                "Data was lost since the driver was loaded. Once may be chance; more is a failing card.",
            )
        else:
            title, meaning = (
                "A card waits for a reset to replace a memory row",
                "The bad row is out of use after a reset.",
            )
        yield self.found(
            title=title,
            evidence=evidence,
            meaning=meaning,
            fix=("Have the card replaced (warranty).", reset) if failed else (reset,),
            severity="error" if failed or erring else "warning",
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


class Throttling(SignRule):
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
    signs = (r"(?:HW Slowdown|HW Thermal Slowdown|HW Power Brake Slowdown|SW Thermal Slowdown)\s+: Active",)

    def examine(self, case: Case) -> Iterable[Finding]:
        slowed: list[tuple[str, list[str]]] = []
        capped: list[list[str]] = []
        if not nvidia_cards(case.machine) and (quotes := self.quotes(case)):
            slowed.append(("it is too hot, or short of power", list(quotes)))
        for card in nvidia_cards(case.machine):
            reasons = value_of(card.throttle_reasons) or ()
            named = [_SLOWED[reason] for reason in reasons if reason in _SLOWED]
            about = [told(f"{card_name(card)}:", card.throttle_reasons)]
            if isinstance(card.temperature, Known):
                about.append(told("temperature", card.temperature))
            if isinstance(card.power_draw, Known):
                limit = value_of(card.power_limit)
                about.append(told("power", card.power_draw) + (f" of {limit:g} W" if limit else ""))
            if named:
                slowed.append((join(named), about))
            elif "sw-power-cap" in reasons and _loaded(card):
                capped.append(about)
        if slowed:
            yield self.found(
                evidence=[line for _, about in slowed for line in about],
                meaning=f"{slowed[0][0].capitalize()}. It loses speed as long as this lasts.",
                fix=(
                    "Check airflow, dust, fans and the room's temperature; for power: the supply and its cables.",
                    "Watch it: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
                ),
            )
        if capped:
            yield self.found(
                title="A card works at its power limit",
                evidence=[line for about in capped for line in about],
                meaning="Under full load this is normal: the driver lowers clocks to stay within the limit.",
                fix=("To see whether the limit was lowered: nvidia-smi -q -d POWER   # current against default limit",),
                severity="note",
            )


class Persistence(Rule):
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

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        off = [card for card in nvidia_cards(machine) if value_of(card.persistence) is False]
        windows = value_of(machine.host.family) == "windows" or any(
            isinstance(card.driver_model, Known) for card in off
        )
        if not off or windows or is_wsl(machine):
            return
        daemon = as_root(machine, "systemctl enable --now nvidia-persistenced")
        yield self.found(
            evidence=[told(f"{card_name(card)}: persistence", card.persistence) for card in off],
            meaning="The driver lets go of a card when its last program ends; each start then takes seconds more. Harmless"
            " otherwise, and of no weight where a desktop keeps the card awake.",
            fix=("The platform's provider decides this.",)
            if rented(machine)
            else (
                on_host(
                    machine, f"{'sudo systemctl enable --now nvidia-persistenced' if container_of(machine) else daemon}"
                ),
            ),
        )


class SlowLink(Rule):
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

    def examine(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        evidence = []
        for card in nvidia_cards(machine):
            link = card.pcie
            width, most = value_of(link.width), value_of(link.width_max)
            if width and most and width < most:
                evidence.append(f"{card_name(card)}: {told('PCIe width', link.width)}, at most {most}")
            speed, best = value_of(link.generation), value_of(link.generation_max)
            if speed and best and speed < best and _awake(card):
                evidence.append(
                    f"{card_name(card)}: {told('PCIe generation', link.generation)} at work, at most {best}"
                )
        if not evidence:
            return
        virtual = value_of(machine.host.virtualisation) not in (None, "none")
        yield self.found(
            evidence=evidence,
            meaning="Copies to and from the card are slower than they could be; work on the card itself is not. Some boards"
            " and laptops are built so."
            + (" A virtual machine may show another link than the real one." if virtual else ""),
            fix=("The provider chose this link.",)
            if rented(machine)
            else (
                "Seat the card anew; try another slot, without a riser; set the slot to its full width in the firmware.",
            ),
        )


def _awake(card: Card) -> bool:
    """Whether a card is at work, so that a low link generation is not just its rest."""
    clock, most = value_of(card.clocks.sm), value_of(card.clocks.sm_max)
    return _loaded(card) and (clock is None or most is None or clock >= most / 2)


class NoBf16(SignRule):
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
    signs = (
        r"Bfloat16 is only supported on GPUs with compute capability of at least 8\.0",
        r"Your setup doesn't support bf16/gpu",
    )

    def examine(self, case: Case) -> Iterable[Finding]:
        lacking = [
            (card, found) for card in nvidia_cards(case.machine) if (found := architecture(card)) and not found.bf16
        ]
        quotes = self.quotes(case)
        if not (lacking or quotes):
            return
        yield self.found(
            title="A program wants bfloat16, which this card does not have" if quotes else None,
            evidence=[*quotes, *(f"{card_name(card)}: {found.name}, without bfloat16" for card, found in lacking)],
            meaning="bfloat16 came with Ampere (8.0). On older cards it is refused, or emulated without gain.",
            fix=(
                "Use float16: dtype=torch.float16, --dtype=half (vLLM), fp16=True (transformers); with a GradScaler in training.",
            ),
            severity="error" if quotes else "note",
        )
