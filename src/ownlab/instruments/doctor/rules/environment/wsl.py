"""NEW."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    describe_fact,
    is_wsl,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine

__all__ = ["WslLimits"]


class WslLimits(MessageRule):
    """This is WSL: the card is Windows's, and some of it cannot be seen from here.

    **Why it matters.** In WSL 2 CUDA works through the driver of Windows: libcuda lies in /usr/lib/wsl/lib, and no NVIDIA
    driver belongs inside. nvidia-smi shows neither the processes nor their memory there, and often no utilisation. A
    Linux driver installed inside puts its own libcuda in front, and CUDA stops working. WSL 1 has no GPU at all.

    **What to do.** Look at the Windows side for what is missing. Remove a Linux driver from inside WSL.

    **Sources.** NVIDIA, CUDA on WSL user guide; WSL#7162; nvitop#49.
    """

    code = "wsl"
    severity = "note"
    title = "This is WSL: parts of the card show on the Windows side alone"
    patterns = (r"WSL environment detected but no adapters were found",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not is_wsl(machine) and not quotes:
            return
        where = self._where(machine)
        works = any_framework_works(machine)
        library = machine.nvidia.library_version
        foreign = isinstance(library, Known) and library.source.startswith("/") and "/wsl/" not in library.source
        if value_of(machine.host.virtualisation) == "wsl1":
            yield self._blocking(
                title="WSL 1 has no access to GPUs",
                evidence=where,
                meaning="Only WSL 2 passes a card through.",
                fix=("In PowerShell: wsl --set-version DISTRIBUTION 2",),
            )
        elif foreign and not works:
            yield self._blocking(
                title="A Linux driver is installed inside WSL",
                evidence=[*where, describe_fact("the driver's library:", library), *quotes],
                meaning="CUDA in WSL uses the driver of Windows, through /usr/lib/wsl/lib. A Linux driver's libcuda in front"
                " of it cannot work.",
                fix=(
                    as_root(machine, "apt-get purge -y '*nvidia-driver*' 'libnvidia-compute-*' 'libcuda1'"),
                    "In PowerShell: wsl --shutdown; then see: ls -l /usr/lib/wsl/lib/libcuda.so.1",
                ),
            )
        elif value_of(machine.cards) or works:
            yield self.finding(
                evidence=where,
                meaning="nvidia-smi in WSL cannot show processes, their memory, and on many cards utilisation; the driver's"
                " number is that of Windows. CUDA itself works as on Linux.",
                fix=("For what is missing here: nvidia-smi.exe, or the Task Manager, on Windows.",),
            )
        elif quotes:
            yield self._blocking(
                title="WSL finds no adapter",
                evidence=[*where, *quotes],
                meaning="Windows passes no card through to WSL: its driver is missing or too old, or there is no card.",
                fix=("On Windows: install NVIDIA's driver from https://www.nvidia.com/drivers; then wsl --shutdown",),
            )

    @staticmethod
    def _where(machine: Machine) -> list[str]:
        """What shows that this is WSL."""
        if isinstance(machine.host.virtualisation, Known):
            return [describe_fact("system:", machine.host.virtualisation)]
        if not is_wsl(machine):
            return []
        return [
            f"{describe_fact('nvidia-smi', machine.nvidia.smi)} with {describe_fact('driver', machine.nvidia.driver)}, as WSL has it"
        ]

    def _blocking(self, *, title: str, evidence: list[str], meaning: str, fix: tuple[str, ...]) -> Finding:
        return self.finding(title=title, evidence=evidence, meaning=meaning, fix=fix, severity="error", blocks=True)
