"""Rules about nvidia_uvm, the module through which CUDA shares memory with the card: missing, broken, or without address space."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    cuda_builds,
    is_wsl,
    module_loaded,
    nvidia_cards,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import as_root, modprobe_option, on_host, rented_platform
from ownlab.instruments.doctor.rule import MessageRule, cuda_error
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["HmmRegionMissing", "UvmModuleMissing"]


class UvmModuleMissing(MessageRule):
    """CUDA does not start: "unknown error" (999), or the module nvidia_uvm is missing or in a bad state.

    **Why it matters.** nvidia_uvm is the part of the driver through which CUDA shares memory with the card. nvidia-smi
    works without it, CUDA does not. After a suspend it is often loaded but broken. The same error appears if a program
    changes CUDA_VISIBLE_DEVICES after CUDA has started.

    **What to do.** Reload the module. Enable the driver's suspend services, so that the module survives a suspend. Set the
    variable before the framework is imported.

    **Sources.** pytorch#88639; CUDA runtime API, cudaErrorUnknown (999).
    """

    code = "uvm"
    severity = "error"
    title = text("CUDA does not start: unknown error")
    blocks = True
    patterns = (
        r"CUDA unknown error|CUDA (?:driver )?error: unknown error|OS call failed or operation not supported",
        r"\berror 999\b|get device context 999\b",
        r"cudaErrorUnknown|CUDA_ERROR_UNKNOWN|\bUNKNOWN_ERROR ?\(999?\)|Cuda failure: '?unknown error",
        cuda_error(999, 30, 304),
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if any_framework_works(machine):
            return
        quotes = self.quotes(case)
        missing = (
            module_loaded(machine) is True
            and module_loaded(machine, "nvidia_uvm") is False
            and not is_wsl(machine)
            and bool(nvidia_cards(machine))
        )
        if not (quotes or missing):
            return
        # nvidia-modprobe loads the module at the first use of CUDA: its absence is an error only once CUDA was tried.
        tried = bool(quotes) or any(value_of(build.devices) == () for build in cuda_builds(machine))
        yield self.finding(
            title=None if quotes else text("The module nvidia_uvm, which CUDA needs, is not loaded"),
            evidence=[
                *quotes,
                *([text("module nvidia is loaded, nvidia_uvm is not (/proc/modules)")] if missing else []),
            ],
            meaning=text(
                "The driver works, but its CUDA part does not. Usually the module nvidia_uvm is in a bad state after a"
                " suspend. The same error appears if a program changed CUDA_VISIBLE_DEVICES after CUDA had started."
            )
            if quotes
            else text(
                "The driver works, but its CUDA part is not loaded. nvidia-modprobe loads it at the first use of CUDA;"
                " without nvidia-modprobe it must be loaded by hand."
            ),
            fix=self._fix(machine),
            severity="error" if tried else "note",
            blocks=tried,
        )

    @staticmethod
    def _fix(machine: Machine) -> tuple[str, ...]:
        if rented_platform(machine):
            return (text("Restart the session: the driver cannot be reloaded from here."),)
        if container_kind(machine):
            step = text("sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm; then restart the container")
            return (on_host(machine, step),)
        return (
            text(
                "{unload}; {load}   # stop CUDA programs first",
                unload=as_root(machine, "rmmod nvidia_uvm"),
                load=as_root(machine, "modprobe nvidia_uvm"),
            ),
            text(
                "If it happens after each suspend: {command}",
                command=as_root(machine, "systemctl enable nvidia-suspend nvidia-resume nvidia-hibernate"),
            ),
            text("Set CUDA_VISIBLE_DEVICES before Python starts, not in the program."),
        )


class HmmRegionMissing(MessageRule):
    """CUDA does not start because the kernel found no address space for heterogeneous memory management (HMM).

    **Why it matters.** On some kernels address randomisation (KASLR) leaves no free region where the driver can map the
    card's memory. nvidia_uvm then fails, and CUDA with it.

    **What to do.** Turn HMM off in nvidia_uvm, or boot without KASLR.

    **Sources.** CUDA Toolkit 13.2 release notes, known issues.
    """

    code = "hmm"
    severity = "error"
    title = text("nvidia_uvm found no free memory region (KASLR and HMM)")
    blocks = True
    patterns = (r"request_free_mem_region\b.*-34",)

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        if not quotes or any_framework_works(machine):
            return
        option = modprobe_option(machine, "nvidia-uvm-hmm.conf", "options nvidia_uvm uvm_disable_hmm=1")
        reload = f"{as_root(machine, 'rmmod nvidia_uvm')}; {as_root(machine, 'modprobe nvidia_uvm')}"
        yield self.finding(
            evidence=quotes,
            meaning=text(
                "This is a known issue of kernel and driver: the kernel's random memory layout left no room for HMM."
            ),
            fix=(
                on_host(machine, option),
                on_host(machine, reload),
                text("Or boot with the kernel parameter nokaslr."),
            ),
        )
