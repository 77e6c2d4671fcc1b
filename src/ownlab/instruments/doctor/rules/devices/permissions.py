"""Rules about permissions: device files that this user may not open, counters that are for administrators."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import accelerators_of, any_framework_works, container_kind, describe_fact
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, initramfs_command, modprobe_option, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine

__all__ = ["DeviceFilePermission", "RestrictedPerformanceCounters"]

# What CUDA opens. The capability files of MIG (/dev/nvidia-caps) and uvm-tools are for administrators by design.
_NEEDED = re.compile(r"^/dev/nvidia(\d+|ctl|-uvm)$")


class DeviceFilePermission(MessageRule):
    """This user may not open the device files of the card.

    **Why it matters.** NVIDIA's files (/dev/nvidia0, nvidiactl, nvidia-uvm) are open to all by default; sites close them
    to a group at times. ROCm's /dev/kfd is open to the group render alone. Without them a framework says that there is
    no device.

    **What to do.** Join the group that owns the file, and log in anew.

    **Sources.** ROCm installation guide, "permissions"; NVIDIA driver README, NVreg_DeviceFileMode.
    """

    code = "dev-permission"
    severity = "error"
    title = "This user may not open the card's device files"
    blocks = True
    patterns = (
        r"/dev/kfd\b.*Permission denied",
        r"/dev/nvidia\S*.*Permission denied",
        r"Failed to initialize NVML: Insufficient Permissions",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        files = [one for one in value_of(machine.nvidia.device_files) or () if _NEEDED.match(one.path)]
        kfd = value_of(machine.amd.kfd) if _may_compute_on_amd(machine) else None
        closed = [one for one in (*files, *((kfd,) if kfd else ())) if not (one.readable and one.writable)]
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (closed or quotes):
            return
        facts = [
            f"{one.path}: {'readable' if one.readable else 'not readable'}, "
            + ("writable" if one.writable else "not writable")
            for one in closed
        ]
        yield self.finding(
            evidence=[*facts, *quotes],
            meaning="The card's device files are there and closed to this user, so no program of theirs reaches the card.",
            fix=self._fix(machine, rocm=any("kfd" in line for line in (*facts, *quotes))),
        )

    @staticmethod
    def _fix(machine: Machine, *, rocm: bool) -> tuple[str, ...]:
        if container_kind(machine):
            given = "--device /dev/kfd --device /dev/dri --group-add render" if rocm else "--gpus all"
            return (f"Start the container with the card: docker run {given} …",)
        if rocm:
            return (as_root(machine, "usermod -aG render,video $USER"), "Log out and in again (or: newgrp render).")
        return (
            "See which group owns them: ls -l /dev/nvidia*",
            f"Join it: {as_root(machine, 'usermod -aG GROUP $USER')}; then log out and in again.",
        )


def _may_compute_on_amd(machine: Machine) -> bool:
    """Whether an AMD card may be here to compute on: /dev/kfd is there, and closed, for graphics inside a CPU as well."""
    known = isinstance(machine.cards, Known)
    return not known or any(card.vendor == "amd" for card in accelerators_of(machine))


class RestrictedPerformanceCounters(MessageRule):
    """The card's performance counters are for administrators alone: profilers cannot read them.

    **Why it matters.** Training and inference are not touched. Nsight Compute, CUPTI and frameworks' kernel profilers
    fail with ERR_NVGPUCTRPERM. Utilisation and GPM figures (nvidia-smi, ownlab) need no such right.

    **What to do.** Allow it for all with a module option, or run the profiler as root; in a container with SYS_ADMIN.

    **Sources.** NVIDIA, ERR_NVGPUCTRPERM; pynvml#19.
    """

    code = "counters"
    severity = "note"
    title = "Performance counters are for administrators alone"
    patterns = (r"ERR_NVGPUCTRPERM", r"does not have permission to access NVIDIA GPU Performance Counters")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        restricted = machine.nvidia.profiling_restricted
        known = isinstance(restricted, Known) and restricted.value and value_of(machine.host.user_is_root) is not True
        if not (quotes or known):
            return
        yield self.finding(
            evidence=[*quotes, *([describe_fact("RmProfilingAdminOnly:", restricted)] if known else [])],
            meaning="Kernel profilers (Nsight Compute, CUPTI) cannot read the card's counters as this user. Training is not touched.",
            fix=self._fix(machine),
            severity="warning" if quotes else "note",
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if rented_platform(machine):
            return ("On a rented platform this is the provider's choice.",)
        option = modprobe_option(
            machine, "nvidia-counters.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
        )
        if container_kind(machine):
            return ("Start the container with --cap-add=SYS_ADMIN.", on_host(machine, option))
        return (option, initramfs_command(machine), as_root(machine, "reboot"))
