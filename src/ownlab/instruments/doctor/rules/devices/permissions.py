"""Rules about permissions: device files that this user cannot open, counters reserved for administrators."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.queries import accelerators_of, any_framework_works, container_kind, describe_fact
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, initramfs_command, modprobe_option, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import DeviceFile, Machine
from ownlab.text import text

__all__ = ["DeviceFilePermission", "RestrictedPerformanceCounters"]

# The files that CUDA opens. MIG's capability files (/dev/nvidia-caps) and uvm-tools are for administrators by design.
_NEEDED = re.compile(r"^/dev/nvidia(\d+|ctl|-uvm)$")


class DeviceFilePermission(MessageRule):
    """This user cannot open the device files of the card.

    **Why it matters.** NVIDIA's files (/dev/nvidia0, nvidiactl, nvidia-uvm) are open to all users by default, but some
    sites restrict them to a group. ROCm's /dev/kfd is open to the group render only. Without access a framework reports
    that there is no device.

    **What to do.** Join the group that owns the file, and log in again.

    **Sources.** ROCm installation guide, "permissions"; NVIDIA driver README, NVreg_DeviceFileMode.
    """

    code = "dev-permission"
    severity = "error"
    title = text("This user cannot open the card's device files")
    blocks = True
    patterns = (
        r"/dev/kfd\b.*Permission denied",
        r"/dev/nvidia\S*.*Permission denied",
        r"Failed to initialize NVML: Insufficient Permissions|NVML_ERROR_NO_PERMISSION",
        r"/dev/dri/renderD\d+\b.*Permission denied|cannot open \S?/dev/dri\S*[^\n]*Permission denied|Operation not permitted[^\n]{0,5}\S?/dev/(?:nvidia|kfd|dri)|/dev/(?:nvidia\S*|kfd|dri/\S*)[^\n]{0,40}(?:Operation not permitted|EACCES|EPERM)",
        r"(?<![\w-])crw(?:-rw-|-r--|----)---\s.*\b(?:nvidia\S*|kfd|renderD\d+)\s*(?=\n|$)",
        r"Permission denied[^\n]{0,5}'?/dev/(?:nvidia|kfd|dri/)",
        r"apparmor=\"?DENIED\"?[^\n]*/dev/(?:nvidia|dri|kfd)|SELinux is preventing \S*nvidia|avc: +denied[^\n]*nvidia",
        r"not (?:a )?member of \"?(?:video|render)\"? group|Unable to find group (?:render|video)|group (?:render|video)[^\n]*no matching entries",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        files = [file for file in value_of(machine.nvidia.device_files) or () if _NEEDED.match(file.path)]
        kfd = value_of(machine.amd.kfd) if _may_compute_on_amd(machine) else None
        closed = [file for file in (*files, *((kfd,) if kfd else ())) if not (file.readable and file.writable)]
        quotes = self.quotes(case)
        if any_framework_works(machine) or not (closed or quotes):
            return
        evidence = [*map(_describe_file, closed), *quotes]
        yield self.finding(
            evidence=evidence,
            meaning=text(
                "The card's device files exist, but this user cannot open them, so no program reaches the card."
            ),
            fix=self._fix(machine, rocm=any(word in line for line in evidence for word in ("kfd", "render"))),
        )

    @staticmethod
    def _fix(machine: Machine, *, rocm: bool) -> tuple[str, ...]:
        if container_kind(machine):
            options = "--device /dev/kfd --device /dev/dri --group-add render" if rocm else "--gpus all"
            return (text("Start the container with the card: docker run {options} …", options=options),)
        if rocm:
            return (
                as_root(machine, "usermod -aG render,video $USER"),
                text("Log out and in again (or: newgrp render)."),
                text(
                    'If /dev/kfd belongs to root alone, add a rule: echo \'KERNEL=="kfd", GROUP="render", MODE="0660"\' | {tee}; then reboot',
                    tee=as_root(machine, "tee /etc/udev/rules.d/70-kfd.rules"),
                ),
                text(
                    "In a rootless container: map the groups render and video (/etc/subgid, --group-add keep-groups)."
                ),
            )
        return (
            text("Check which group owns the files: ls -l /dev/nvidia*"),
            text(
                "Join that group: {command}; then log out and in again.",
                command=as_root(machine, "usermod -aG GROUP $USER"),
            ),
            text("For a service: add the account it runs as to that group, and restart it."),
            text(
                "In a container with SELinux: nvidia-container-cli -k list | sudo restorecon -v -f -; or --security-opt=label=disable"
            ),
        )


def _describe_file(file: DeviceFile) -> str:
    if file.readable:
        return text("{path}: readable, not writable", path=file.path)
    if file.writable:
        return text("{path}: not readable, writable", path=file.path)
    return text("{path}: not readable, not writable", path=file.path)


def _may_compute_on_amd(machine: Machine) -> bool:
    """Whether there may be an AMD card for computing: /dev/kfd also exists, closed, for graphics integrated in a CPU."""
    known = isinstance(machine.cards, Known)
    return not known or any(card.vendor == "amd" for card in accelerators_of(machine))


class RestrictedPerformanceCounters(MessageRule):
    """Only administrators can read the card's performance counters: profilers cannot.

    **Why it matters.** Training and inference are not affected. Nsight Compute, CUPTI and the frameworks' kernel profilers
    fail with ERR_NVGPUCTRPERM. Utilisation and GPM figures (nvidia-smi, ownlab) do not need this permission.

    **What to do.** Allow access for all users with a module option, or run the profiler as root; in a container, with
    SYS_ADMIN.

    **Sources.** NVIDIA, ERR_NVGPUCTRPERM; pynvml#19.
    """

    code = "counters"
    severity = "note"
    title = text("Only administrators can read the performance counters")
    patterns = (
        r"CUPTI initialization failed|CUPTI_ERROR_NOT_INITIALIZED|ERR_NVGPUCTRPERM|CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        r"does not have permission to access NVIDIA GPU Performance Counters",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        restricted = machine.nvidia.profiling_restricted
        known = isinstance(restricted, Known) and restricted.value and value_of(machine.host.user_is_root) is not True
        if not (quotes or known):
            return
        yield self.finding(
            evidence=[*quotes, *([describe_fact("RmProfilingAdminOnly:", restricted)] if known else [])],
            meaning=text(
                "Kernel profilers (Nsight Compute, CUPTI) cannot read the card's counters as this user. Training is not"
                " affected."
            ),
            fix=self._fix(machine),
            severity="warning" if quotes else "note",
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if rented_platform(machine):
            return (text("On a rented platform only the provider can change this."),)
        option = modprobe_option(
            machine, "nvidia-counters.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
        )
        if container_kind(machine):
            return (text("Start the container with --cap-add=SYS_ADMIN."), on_host(machine, option))
        return (option, initramfs_command(machine), as_root(machine, "reboot"))
