"""Rules about NVIDIA's driver as a whole: none, too old, or at its end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from ownlab.catalog.cuda import branch_of, driver_floor, newest_cuda
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    any_framework_works,
    architecture,
    cuda_builds,
    describe_cards,
    describe_fact,
    driver_family,
    join,
    nvidia_cards,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import driver_remedy, rented_platform, torch_wheel
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Framework, Machine

__all__ = ["DriverEndOfLife", "DriverTooOld"]


class DriverTooOld(MessageRule):
    """NVIDIA's driver is older than the CUDA that a framework was built with.

    **Why it matters.** A driver runs programs built with its own CUDA and with every older one. It runs newer ones of
    the same family too: any CUDA 11.x from driver 450.80.02 on, any 12.x from 525.60.13, any 13.x from 580 (on Windows
    452.39, 528.33 and 580). Below that floor the framework refuses the card. The number in "found version 11040" is no
    driver number: it is CUDA 11.4, the newest that the driver serves (major × 1000 + minor × 10).

    **What to do.** Either a newer driver, or a build of the framework for an older CUDA. Both work; the second needs no
    administrator. The toolkit that is installed (nvcc) plays no part: a wheel brings its own CUDA.

    **Sources.** pytorch#25581; CUDA Toolkit release notes 13.2, tables 2 and 3; NVIDIA, CUDA Compatibility.
    """

    code = "driver-old"
    severity = "error"
    title = "NVIDIA's driver is too old for this build"
    blocks = True
    aliases = ("insufficient",)
    patterns = (
        r"driver on your system is too old \(found version (?P<found>\d+)\)",
        r"CUDA driver version is insufficient for CUDA runtime version",
        r"cudaErrorInsufficientDriver",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        needs = [(one, floor) for one in cuda_builds(machine) if (floor := _missing_driver_floor(machine, one))]
        quotes = self.quotes(case)
        if not needs and not quotes:
            return
        newest = self._newest_served(case)
        evidence = [
            *(
                f"{one.name} is built with {describe_fact('CUDA', one.cuda)}: it needs driver {floor} or newer"
                for one, floor in needs
            ),
            *([describe_fact("driver", machine.nvidia.driver)] if isinstance(machine.nvidia.driver, Known) else []),
            *quotes,
        ]
        served = f" The newest CUDA that it serves is {newest}." if newest else ""
        found = [match["found"] for _, match in self.matches(case) if match["found"]]
        decoded = f' "{found[0]}" is that CUDA version, not a driver number.' if found else ""
        named = join(f"{one.name} (CUDA {one.cuda.value})" for one, _ in needs if isinstance(one.cuda, Known))
        floors = sorted((floor for _, floor in needs), key=parse_version)
        blocks = not any_framework_works(machine)
        yield self.finding(
            title=f"NVIDIA's driver is too old for {named}" if named else None,
            evidence=evidence,
            meaning="The driver is older than the CUDA that the program was built with, so the program refuses the card."
            + served
            + decoded
            + ("" if needs else " Some programs say the same where there is no driver at all."),
            fix=_newer_driver_or_older_build(machine, floors[-1] if floors else None, newest),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )

    def _newest_served(self, case: Case) -> str | None:
        """The newest CUDA that the driver serves: as it says itself, as torch found it, or by the table."""
        for _, match in self.matches(case):
            if match["found"]:
                number = int(match["found"])
                return f"{number // 1000}.{number % 1000 // 10}"
        driver = value_of(case.machine.nvidia.driver)
        return value_of(case.machine.nvidia.cuda) or (
            newest_cuda(driver, driver_family(case.machine)) if driver else None
        )


def _missing_driver_floor(machine: Machine, framework: Framework) -> str | None:
    """The driver that a framework needs and this machine does not have; None where it does, or nothing says."""
    cuda, driver = value_of(framework.cuda), value_of(machine.nvidia.driver)
    seen = value_of(framework.devices)
    if cuda is None or seen:  # what sees a device has a driver that serves it
        return None
    floor = driver_floor(cuda, driver_family(machine))
    if floor is None:
        return None
    if driver is not None:
        return floor if parse_version(driver) < parse_version(floor) else None
    served = value_of(machine.nvidia.cuda)
    return floor if served is not None and parse_version(served)[:1] < parse_version(cuda)[:1] else None


def _newer_driver_or_older_build(machine: Machine, floor: str | None, served: str | None) -> tuple[str, ...]:
    # A driver that serves CUDA 11.6 is at least the floor of 11.x: enough to choose a build by.
    driver = value_of(machine.nvidia.driver) or (driver_floor(served, driver_family(machine)) if served else None)
    wheel = torch_wheel(machine, driver=driver) if driver else None
    older = (
        f"{wheel.command}   # torch {wheel.torch} for CUDA {wheel.cuda} runs on the driver that is here"
        if wheel
        else None
    )
    newer = driver_remedy(machine, floor=floor)
    if older is None:
        return newer
    if rented_platform(machine):
        return (*newer, f"Use a build that this driver runs: {older}")
    return (*newer, f"Or, without a new driver: {older}")


class DriverEndOfLife(Rule):
    """The driver's branch has reached its end of life, or is the last one that serves this card.

    **Why it matters.** It works as well as yesterday. But a branch past its end gets no more fixes, security ones
    included; and a card that no newer branch serves stays with the CUDA of its last one: Fermi ended with R390, Kepler
    with R470, Maxwell, Pascal and Volta with R580.

    **What to do.** Where the branch has ended: plan the next one. Where the card's last branch is reached: stay on it,
    keep newer branches from being installed, and choose builds for the CUDA that still has code for the card.

    **Sources.** NVIDIA data-centre drivers, R615 documentation (branches and dates); CUDA Toolkit, Driver and
    Architecture Matrix.
    """

    code = "driver-end"
    severity = "note"
    title = "The driver's branch is at its end"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        driver = value_of(machine.nvidia.driver)
        if driver is None or driver_family(machine) == "windows":  # the table's branches are Linux's
            return
        number = parse_version(driver)[:1]
        last = [(card, found) for card in nvidia_cards(machine) if (found := architecture(card))]
        last = [(card, found) for card, found in last if number == (found.last_driver_branch,)]
        branch = branch_of(driver)
        ended = branch.end_of_life if branch else None
        if last:
            names = sorted({found.name for _, found in last})
            until = f" NVIDIA keeps it until {ended}." if ended else ""
            yield self.finding(
                title=f"R{number[0]} is the last driver branch for {join(names)} cards",
                evidence=[
                    describe_fact("driver", machine.nvidia.driver),
                    *describe_cards([card for card, _ in last], lambda card: ""),
                ],
                meaning=f"Newer branches do not serve these cards.{until} Nothing is wrong today.",
                fix=(f"Stay on R{number[0]}: let no upgrade put a newer branch in its place.",),
            )
        elif ended and ended[:7] < _month_of(machine):
            yield self.finding(
                title=f"Driver branch R{number[0]} had its end of life in {ended}",
                evidence=[describe_fact("driver", machine.nvidia.driver)],
                meaning="The driver works, but gets no more fixes.",
                fix=driver_remedy(machine),
            )


def _month_of(machine: Machine) -> str:
    """The month in which the machine was read, so that a recorded one is judged by its own day."""
    return (machine.taken_at or datetime.now(timezone.utc).isoformat())[:7]
