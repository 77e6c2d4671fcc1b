"""The rule about WSL, where the card belongs to Windows."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import any_framework_works, describe_fact, is_wsl
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["WslLimits"]


class WslLimits(MessageRule):
    """This is WSL: the card belongs to Windows, and some of its data is not visible from here.

    **Why it matters.** In WSL 2 CUDA uses the Windows driver: libcuda is in /usr/lib/wsl/lib, and no NVIDIA driver should
    be installed inside. nvidia-smi does not show processes or their memory there, and often no utilisation. If a Linux
    driver is installed inside WSL, its libcuda is found first, and CUDA stops working. WSL 1 has no GPU support.

    **What to do.** Look on the Windows side for missing data. Remove a Linux driver from inside WSL.

    **Sources.** NVIDIA, CUDA on WSL user guide; WSL#7162; nvitop#49.
    """

    code = "wsl"
    severity = "note"
    title = text("This is WSL: some of the card's data is visible only on Windows")
    patterns = (r"WSL environment detected but no adapters were found",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not is_wsl(machine) and not quotes:
            return
        system = self._system_evidence(machine)
        works = any_framework_works(machine)
        library = machine.nvidia.library_version
        linux_driver = isinstance(library, Known) and library.source.startswith("/") and "/wsl/" not in library.source
        if value_of(machine.host.virtualisation) == "wsl1":
            yield self._blocking(
                title=text("WSL 1 does not support GPUs"),
                evidence=system,
                meaning=text("Only WSL 2 can use a card."),
                fix=(text("In PowerShell: wsl --set-version DISTRIBUTION 2"),),
            )
        elif linux_driver and not works:
            yield self._blocking(
                title=text("A Linux driver is installed inside WSL"),
                evidence=[*system, describe_fact(text("the driver's library:"), library), *quotes],
                meaning=text(
                    "CUDA in WSL uses the Windows driver through /usr/lib/wsl/lib. The libcuda of a Linux driver is found"
                    " first, and cannot work."
                ),
                fix=(
                    as_root(machine, "apt-get purge -y '*nvidia-driver*' 'libnvidia-compute-*' 'libcuda1'"),
                    text("In PowerShell: wsl --shutdown; then check: ls -l /usr/lib/wsl/lib/libcuda.so.1"),
                ),
            )
        elif value_of(machine.cards) or works:
            yield self.finding(
                evidence=system,
                meaning=text(
                    "nvidia-smi in WSL cannot show processes and their memory, and on many cards no utilisation; the driver"
                    " version is the Windows one. CUDA itself works as on Linux."
                ),
                fix=(text("For the missing data: use nvidia-smi.exe or the Task Manager on Windows."),),
            )
        elif quotes:
            yield self._blocking(
                title=text("WSL finds no adapter"),
                evidence=[*system, *quotes],
                meaning=text(
                    "Windows passes no card to WSL: this is WSL 1, the Windows driver is missing or too old, or there is no card."
                ),
                fix=(
                    text(
                        "In PowerShell: wsl -l -v. WSL 1 cannot use a GPU; convert it: wsl --set-version DISTRIBUTION 2; wsl --update"
                    ),
                    text(
                        "On Windows: install the NVIDIA driver from https://www.nvidia.com/drivers; then run: wsl --shutdown"
                    ),
                ),
            )

    @staticmethod
    def _system_evidence(machine: Machine) -> list[str]:
        """Return the facts that identify WSL."""
        if isinstance(machine.host.virtualisation, Known):
            return [describe_fact(text("system:"), machine.host.virtualisation)]
        if not is_wsl(machine):
            return []
        return [
            text(
                "{smi} with {driver}, as in WSL",
                smi=describe_fact("nvidia-smi", machine.nvidia.smi),
                driver=describe_fact(text("driver"), machine.nvidia.driver),
            )
        ]

    def _blocking(self, *, title: str, evidence: list[str], meaning: str, fix: tuple[str, ...]) -> Finding:
        return self.finding(title=title, evidence=evidence, meaning=meaning, fix=fix, severity="error", blocks=True)
