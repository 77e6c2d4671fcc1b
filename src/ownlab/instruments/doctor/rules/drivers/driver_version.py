"""Rules about the version of the NVIDIA driver: too old for a framework, or at its end of life."""

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
    known_facts,
    nvidia_cards,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import (
    driver_is_newest_for_cards,
    driver_remedy,
    last_branch,
    no_wheel_advice,
    rented_platform,
    torch_wheel,
)
from ownlab.instruments.doctor.rule import MessageRule, Rule, cuda_error
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Framework, Machine
from ownlab.text import listing, sentences, text

__all__ = ["DriverEndOfLife", "DriverTooOld"]

_FIRST_WITH_MINOR_COMPATIBILITY = 11


class DriverTooOld(MessageRule):
    """The NVIDIA driver is older than the CUDA version that a framework was built with.

    **Why it matters.** A driver runs programs built with its own CUDA version or an older one. It also runs newer
    versions of the same major release: any CUDA 11.x from driver 450.80.02 on, any 12.x from 525.60.13, any 13.x from 580
    (on Windows 452.39, 528.33 and 580). With an older driver the framework refuses the card. The number in "found version
    11040" is not a driver version. It is CUDA 11.4, the newest version that the driver supports (major × 1000 + minor ×
    10).

    **What to do.** Install a newer driver, or a build of the framework for an older CUDA. Both work; the second needs no
    administrator. The installed toolkit (nvcc) does not matter: a wheel includes its own CUDA.

    **Sources.** pytorch#25581; CUDA Toolkit release notes 13.2, tables 2 and 3; NVIDIA, CUDA Compatibility.
    """

    code = "driver-old"
    severity = "error"
    title = text("The NVIDIA driver is too old for this build")
    blocks = True
    aliases = ("insufficient",)
    patterns = (
        r"driver on your system is too old \(found version (?P<found>\d+)\)",
        r"CUDA driver version is insufficient for CUDA runtime version",
        r"CudaRuntimeAPIError: \[35\]|(?:NVIDIA|GPU|CUDA) driver (?:version )?(?:is )?too old",
        r"cudaErrorInsufficientDriver|CUDA driver version is insufficient|cudaErrorCallRequiresNewerDriver|(?<!NCCL WARN )(?:CUDA error|Error 36): API call is not supported in the installed CUDA driver",
        cuda_error(35),
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        needs = [(build, floor) for build in cuda_builds(machine) if (floor := _missing_driver_floor(machine, build))]
        quotes = self.quotes(case)
        if not needs and not quotes:
            return
        newest = self._newest_cuda(case)
        evidence = [
            *(
                text(
                    "{framework} is built with {cuda}: it needs driver {floor} or newer",
                    framework=build.name,
                    cuda=describe_fact(text("CUDA"), build.cuda),
                    floor=floor,
                )
                for build, floor in needs
            ),
            *known_facts((text("driver"), machine.nvidia.driver)),
            *quotes,
        ]
        builds = [f"{build.name} (CUDA {build.cuda.value})" for build, _ in needs if isinstance(build.cuda, Known)]
        floors = sorted((floor for _, floor in needs), key=parse_version)
        blocks = not any_framework_works(machine)
        yield self.finding(
            title=text("The NVIDIA driver is too old for {builds}", builds=listing(builds))
            if builds
            else text("The NVIDIA driver is too old for this build, or this container was started without it")
            if newest is None
            else None,
            evidence=evidence,
            meaning=self._meaning(case, newest, certain=bool(needs)),
            fix=(
                *(_without_facts() if newest is None else ()),
                *_newer_driver_or_older_build(machine, floors[-1] if floors else None, newest),
            ),
            severity="error" if blocks else "warning",
            blocks=blocks,
        )

    def _meaning(self, case: Case, newest: str | None, *, certain: bool) -> str:
        number = next((match["found"] for _, match in self.matches(case) if match["found"]), None)
        return sentences(
            text(
                "The driver is older than the CUDA version that the program was built with, so the program refuses the card."
            ),
            _what_the_driver_runs(newest) if newest else None,
            text("The number {number} in the message is this CUDA version, not a driver version.", number=number)
            if number
            else None,
            None if certain else text("Some programs print the same message if there is no driver at all."),
        )

    def _newest_cuda(self, case: Case) -> str | None:
        """Return the newest CUDA that the driver supports: from torch's message, from the driver, or from the table."""
        for _, match in self.matches(case):
            if match["found"]:
                number = int(match["found"])
                return f"{number // 1000}.{number % 1000 // 10}"
        driver = value_of(case.machine.nvidia.driver)
        return value_of(case.machine.nvidia.cuda) or (
            newest_cuda(driver, driver_family(case.machine)) if driver else None
        )


def _without_facts() -> tuple[str, ...]:
    """Return what to try before a new driver, where only the message is known."""
    return (
        text("In a container: start it with the card, docker run --gpus all …; a driver in the image does not help."),
        text(
            "nvidia-smi   # shows the newest CUDA that the driver supports: a build of the program for this CUDA or an older one needs no new driver"
        ),
        text("Otherwise a new driver, outside the container:"),
    )


def _what_the_driver_runs(newest: str) -> str:
    """nvidia-smi's "CUDA Version: 12.2" is no limit for programs built with 12.4: see minor-version compatibility."""
    major = parse_version(newest)[0]
    if major < _FIRST_WITH_MINOR_COMPATIBILITY:
        return text("The newest CUDA version that this driver supports is {cuda}.", cuda=newest)
    return text(
        "The newest CUDA version that this driver supports is {cuda}; it also runs programs built with later {major}.x.",
        cuda=newest,
        major=major,
    )


def _missing_driver_floor(machine: Machine, framework: Framework) -> str | None:
    """Return the oldest driver that a framework needs if this machine's is older; None if it is new enough or unknown."""
    cuda, driver = value_of(framework.cuda), value_of(machine.nvidia.driver)
    devices = value_of(framework.devices)
    if cuda is None or devices:  # a framework that sees a device has a driver that is new enough
        return None
    floor = driver_floor(cuda, driver_family(machine))
    if floor is None:
        return None
    if driver is not None:
        return floor if parse_version(driver) < parse_version(floor) else None
    newest = value_of(machine.nvidia.cuda)
    return floor if newest is not None and parse_version(newest)[:1] < parse_version(cuda)[:1] else None


def _newer_driver_or_older_build(machine: Machine, floor: str | None, newest: str | None) -> tuple[str, ...]:
    # A driver that supports CUDA 11.6 is at least the floor of 11.x: enough to choose a build.
    driver = value_of(machine.nvidia.driver) or (driver_floor(newest, driver_family(machine)) if newest else None)
    last = last_branch(machine)
    wheel = torch_wheel(machine, driver=driver) if driver else None
    if driver_is_newest_for_cards(machine):
        assert last is not None
        return (
            text(
                "The driver is already of R{branch}, the last branch for {architecture} cards.",
                branch=last.branch,
                architecture=last.architecture,
            ),
            text("Use a build that runs on it: {command}", command=wheel.command)
            if wheel is not None
            else no_wheel_advice(machine),
        )
    newer = driver_remedy(machine, floor=floor)
    if last is not None and floor is not None and parse_version(floor)[0] > last.branch:
        after = torch_wheel(machine, driver=f"{last.branch}.999")  # with the newest driver that the card can have
        return (*newer, text("Then use a build that runs on it: {command}", command=after.command)) if after else newer
    if wheel is None:
        return newer
    command = text(
        "{command}   # torch {torch} for CUDA {cuda} runs on the current driver",
        command=wheel.command,
        torch=wheel.torch,
        cuda=wheel.cuda,
    )
    if rented_platform(machine):
        return (*newer, text("Use a build that runs on this driver: {command}", command=command))
    return (*newer, text("Or, without a new driver: {command}", command=command))


class DriverEndOfLife(Rule):
    """The driver branch has reached its end of life, or is the last branch that supports this card.

    **Why it matters.** The driver still works. But a branch past its end of life gets no more fixes, not even for
    security. A card that no newer branch supports is limited to the CUDA versions of its last branch: Fermi ended with
    R390, Kepler with R470, Maxwell, Pascal and Volta with R580.

    **What to do.** If the branch has ended, plan the upgrade to the next one. If it is the card's last branch, stay on it,
    prevent upgrades to newer branches, and choose builds for a CUDA version that still has code for the card.

    **Sources.** NVIDIA data-centre drivers, R615 documentation (branches and dates); CUDA Toolkit, Driver and
    Architecture Matrix.
    """

    code = "driver-end"
    severity = "note"
    title = text("The driver branch is at its end of life")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        driver = value_of(machine.nvidia.driver)
        if driver is None or driver_family(machine) == "windows":  # the table lists Linux branches
            return
        number = parse_version(driver)[:1]
        families = [(card, family) for card in nvidia_cards(machine) if (family := architecture(card))]
        last = [(card, family) for card, family in families if number == (family.last_driver_branch,)]
        branch = branch_of(driver)
        ended = branch.end_of_life if branch else None
        if last:
            yield self.finding(
                title=text(
                    "R{branch} is the last driver branch for {architectures} cards",
                    branch=number[0],
                    architectures=listing(sorted({family.name for _, family in last})),
                ),
                evidence=[
                    describe_fact(text("driver"), machine.nvidia.driver),
                    *describe_cards([card for card, _ in last]),
                ],
                meaning=sentences(
                    text("Newer branches do not support these cards."),
                    text("NVIDIA maintains this branch until {date}.", date=ended) if ended else None,
                    text("This is not a problem today."),
                ),
                fix=(text("Stay on R{branch}: prevent upgrades to a newer branch.", branch=number[0]),),
            )
        elif ended and ended[:7] < _month_of(machine):
            yield self.finding(
                title=text("Driver branch R{branch} reached its end of life in {date}", branch=number[0], date=ended),
                evidence=[describe_fact(text("driver"), machine.nvidia.driver)],
                meaning=text("The driver works, but gets no more fixes."),
                fix=driver_remedy(machine),
            )


def _month_of(machine: Machine) -> str:
    """Return the month in which the machine was read, so that the result for a recorded machine does not change."""
    return (machine.taken_at or datetime.now(timezone.utc).isoformat())[:7]
