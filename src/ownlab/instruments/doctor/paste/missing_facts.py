"""What else to paste, for a fuller answer: by what is lacking."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ownlab.instruments.doctor.records import Message
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Machine

__all__ = ["missing_from"]


_NPU = re.compile(r"\bNPU (?:error|out of memory)|\btorch[_.]npu\b|\baclrt\w+|\bERR\d{5}\b", re.IGNORECASE)
_APPLE = re.compile(r"\bMPS backend\b|\bmps:0\b")
_AMD = re.compile(r"\bHIP (?:error|out of memory)|\bhip[A-Z]\w+|\brocm|/dev/kfd|\bamdgpu", re.IGNORECASE)
# Whose accelerator the words are about, where they are not about NVIDIA's.
_SIGNS = (("amd", _AMD), ("huawei", _NPU), ("apple", _APPLE))


def missing_from(machine: Machine, messages: Sequence[Message], *, smi_failed: bool) -> tuple[str, ...]:
    maker = None
    if not isinstance(machine.nvidia.driver, Known):
        maker = next((name for name, sign in _SIGNS if any(sign.search(message.text) for message in messages)), None)
    return tuple(_missing(machine, maker, smi_failed))


def _missing(machine: Machine, maker: str | None, smi_failed: bool) -> Iterator[str]:
    cards = value_of(machine.cards) or ()
    packages = {package.name for package in value_of(machine.interpreter.packages) or ()}
    frameworks = value_of(machine.interpreter.frameworks) or ()
    makers = {card.vendor for card in cards}
    tegra = "tegra" in (value_of(machine.host.kernel) or "")  # a Jetson's driver is part of its system
    builds = {value_of(one.build) for one in frameworks}
    others = bool(makers - {"nvidia"} or builds & {"rocm", "xpu"})
    if ("torch-npu" in packages or maker == "huawei") and "huawei" not in makers:
        yield "the output of `npu-smi info`"
    elif smi_failed:
        if isinstance(machine.host.kernel_log, Unknown):
            yield "what the kernel says: `sudo dmesg | grep -iE 'nvrm|xid|nvidia|nouveau'`"
        if isinstance(machine.host.pci, Unknown):
            yield "which driver has the card: `lspci -k | grep -iEA3 'vga|3d|display'`"
    elif maker == "amd" and "amd" not in makers:
        yield "the output of `rocminfo`"
    elif not others and not tegra and maker != "apple" and not isinstance(machine.nvidia.driver, Known):
        yield "the output of `nvidia-smi`"
    if any((value_of(card.name) or "").endswith("...") for card in cards):
        yield "the output of `nvidia-smi -L`: the table cuts long names of cards"
    if not isinstance(machine.interpreter.frameworks, Known) or any(
        isinstance(one.version, Unknown) and not one.failure for one in frameworks
    ):
        yield "the output of `python -m torch.utils.collect_env`, in the environment of the program"
