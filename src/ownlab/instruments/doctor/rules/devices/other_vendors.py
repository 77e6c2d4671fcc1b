"""Rules on accelerators that are not NVIDIA's: Huawei's NPUs, Apple's GPUs, Google's TPUs."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.catalog.versions import major_minor
from ownlab.instruments.doctor.queries import (
    card_name,
    container_kind,
    describe_fact,
    framework,
    framework_name,
    join,
    package,
    sees_devices,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Machine

__all__ = ["AscendHealth", "AscendSoftwareMissing", "LibtpuMissing", "MpsUnavailable", "RosettaPython"]


def _cards_of(machine: Machine, vendor: str) -> list[Card]:
    return [card for card in value_of(machine.cards) or () if card.vendor == vendor]


class AscendHealth(MessageRule):
    """An Ascend NPU reports trouble, or its driver does not answer.

    **Why it matters.** `npu-smi info` has a column Health: OK, Warning, Alarm, Critical. What is not OK may fail at any
    time, or has been taken out of use already. "DrvMngGetConsoleLogLevel failed" and "dcmi module initialize failed" mean
    that the driver does not answer: it is not loaded, or a container was started without its devices.

    **What to do.** `npu-smi info -t health -i ID` names the fault; a reset or a reboot clears many. In a container, pass
    /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc, and mount /usr/local/Ascend/driver.

    **Sources.** Huawei, npu-smi command reference (health states); vLLM Ascend, installation (devices of a container);
    Ascend/cann-container-image#46; Project-HAMi/HAMi#1696.
    """

    code = "ascend-health"
    severity = "error"
    title = "An Ascend NPU reports trouble"
    patterns = (
        r"DrvMngGetConsoleLogLevel failed",
        r"dcmi (?:module|model) initialized? failed",
    )
    _MILD = ("warning",)

    def check(self, case: Case) -> Iterable[Finding]:
        cards = _cards_of(case.machine, "huawei")
        sick = [(card, value_of(card.health) or "OK") for card in cards]
        sick = [(card, health) for card, health in sick if health.upper() != "OK"]
        quotes = list(self.quotes(case))
        smi = case.machine.ascend.smi
        if cards and isinstance(smi, Unknown) and smi != NOT_READ:
            quotes.append(describe_fact("npu-smi", smi))
        if quotes:
            held = any("-8020" in line or "device is used" in line for line in quotes)
            yield self.finding(
                title="The Ascend driver does not answer",
                evidence=quotes,
                meaning="Another container or process holds the NPU (-8020)."
                if held
                else "The driver is not loaded, or this container was started without its devices.",
                fix=self._reach(case.machine),
                blocks=True,
            )
        elif sick:
            every = len(sick) == len(cards)
            mild = all(health.lower() in self._MILD for _, health in sick)
            yield self.finding(
                title=f"{join(card_name(card) for card, _ in sick)} {'reports' if len(sick) == 1 else 'report'} trouble",
                evidence=[describe_fact(f"{card_name(card)}: health", card.health) for card, _ in sick],
                meaning="The driver has found a fault in the NPU; work on it may fail or give wrong results.",
                fix=(
                    f"npu-smi info -t health -i {sick[0][0].index}   # names the fault",
                    "Use the other NPUs meanwhile: export ASCEND_RT_VISIBLE_DEVICES=…"
                    if not every
                    else "Reset it (npu-smi set -t reset -i ID -c 0) or reboot; if it stays, have the card looked at.",
                ),
                severity="warning" if mild else "error",
                blocks=every and not mild,
            )

    @staticmethod
    def _reach(machine: Machine) -> tuple[str, ...]:
        container = (
            "docker run --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device"
            " /dev/hisi_hdc -v /usr/local/Ascend/driver:/usr/local/Ascend/driver …"
        )
        host = "lsmod | grep drv_davinci; dmesg | grep -i davinci   # is the driver loaded, and what does it say"
        return (container,) if container_kind(machine) else (host, f"In a container: {container}")


class AscendSoftwareMissing(Rule):
    """Ascend NPUs are here, and CANN or torch-npu is missing.

    **Why it matters.** torch reaches an NPU through Huawei's plug-in torch-npu, and that through CANN, Huawei's
    counterpart of CUDA. Their versions belong together, and torch-npu's is torch's own (torch-npu 2.6.0 for torch 2.6).

    **What to do.** Install CANN (toolkit and kernels), source its set_env.sh, then install torch-npu of torch's version.

    **Sources.** github.com/Ascend/pytorch (table of versions); hiascend.com, CANN installation.
    """

    code = "ascend-stack"
    severity = "warning"
    title = "The NPU's software is not complete"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = _cards_of(machine, "huawei")
        torch = framework(machine, "torch")
        if not cards or (torch is not None and sees_devices(torch)):
            return
        no_cann = machine.origin == "live" and not isinstance(machine.ascend.cann, Known)
        no_plugin = torch is not None and not torch.failure and package(machine, "torch-npu") is None
        no_plugin = no_plugin and isinstance(machine.interpreter.packages, Known)
        if not no_cann and not no_plugin:
            return
        version = value_of(torch.version) if torch else None
        pin = f"=={major_minor(version)}.*" if version else ""
        missing = [name for name, absent in (("CANN", no_cann), ("torch-npu", no_plugin)) if absent]
        yield self.finding(
            title=f"{join(missing)} {'is' if len(missing) == 1 else 'are'} missing for the Ascend NPU",
            evidence=(
                *(card_name(card) for card in cards[:1]),
                *([describe_fact("CANN", machine.ascend.cann)] if no_cann else []),
                *([f"{framework_name(torch)} without torch-npu"] if no_plugin and torch else []),
            ),
            meaning="torch reaches an NPU through torch-npu, and that through CANN.",
            fix=(
                *(
                    ["Install CANN's toolkit and kernels: https://www.hiascend.com/software/cann"]
                    if no_cann
                    else ["source /usr/local/Ascend/ascend-toolkit/set_env.sh"]
                ),
                *([f"pip install 'torch-npu{pin}'   # of torch's own version"] if no_plugin else []),
            ),
        )


class RosettaPython(Rule):
    """Python was built for Intel and runs translated on a Mac with an Apple chip.

    **Why it matters.** A translated (x86_64) Python cannot use the chip's GPU, gets old wheels (torch ended its builds
    for Intel Macs with 2.2), and is slower at everything.

    **What to do.** Install an arm64 Python, from python.org, Homebrew in /opt/homebrew or Miniforge for arm64, and make
    the environment anew with it.

    **Sources.** developer.apple.com, "Accelerated PyTorch training on Mac"; PyTorch 2.3 release notes (Intel Macs).
    """

    code = "rosetta"
    severity = "error"
    title = "This Python is built for Intel and cannot use the Apple GPU"
    blocks = True

    def check(self, case: Case) -> Iterable[Finding]:
        for card in _cards_of(case.machine, "apple"):
            health = value_of(card.health) or ""
            if "Rosetta" in health:
                yield self.finding(
                    evidence=[describe_fact("Apple GPU:", card.health)],
                    meaning="The Mac has an Apple chip, but this Python runs translated, as on an Intel Mac: Metal is closed"
                    " to it.",
                    fix=(
                        "python3 -c 'import platform; print(platform.machine())'   # arm64 is right, x86_64 is not",
                        "brew install python   # with the Homebrew in /opt/homebrew; then make the environment anew",
                    ),
                )


class MpsUnavailable(Rule):
    """A Mac with an Apple GPU, and a torch that does not use it.

    **Why it matters.** torch reaches Apple's GPU through MPS. It needs macOS 13 or newer (14 from torch 2.9 on) and an
    arm64 wheel; otherwise everything runs on the CPU.

    **What to do.** Update macOS and torch. In code: `device = "mps" if torch.backends.mps.is_available() else "cpu"`.

    **Sources.** pytorch.org, "MPS backend"; pytorch/pytorch#162921 (macOS 14); developer.apple.com/metal/pytorch.
    """

    code = "mps-absent"
    severity = "warning"
    title = "torch does not see the Apple GPU"

    def check(self, case: Case) -> Iterable[Finding]:
        cards = [card for card in _cards_of(case.machine, "apple") if "Rosetta" not in (value_of(card.health) or "")]
        torch = framework(case.machine, "torch")
        if not cards or torch is None or torch.failure or sees_devices(torch) or not isinstance(torch.devices, Known):
            return
        built = value_of(torch.build)
        yield self.finding(
            evidence=(
                card_name(cards[0]),
                f"{framework_name(torch)} sees no device",
                *(
                    [describe_fact("system:", case.machine.host.system)]
                    if isinstance(case.machine.host.system, Known)
                    else []
                ),
                *([f"torch: {torch.error.splitlines()[0]}"] if torch.error else []),
            ),
            meaning="This torch was built without MPS: work runs on the CPU."
            if built == "cpu"
            else "This torch has MPS, and macOS does not offer it: the system is too old for it, or a virtual machine.",
            fix=("pip install -U torch",)
            if built == "cpu"
            else ("Update macOS (14 or newer).", "pip install -U torch"),
        )


class LibtpuMissing(Rule):
    """TPU chips are here, and libtpu, the library that drives them, is missing.

    **Why it matters.** JAX and torch_xla reach a TPU through libtpu. Without it they compute on the CPU, silently.

    **What to do.** `pip install 'jax[tpu]'`, or `torch torch_xla[tpu]`: both bring libtpu.

    **Sources.** docs.jax.dev, "Installation", TPU; github.com/pytorch/xla.
    """

    code = "tpu-no-libtpu"
    severity = "warning"
    title = "The TPU's library, libtpu, is missing"

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        files = value_of(machine.tpu.device_files) or ()
        packages = machine.interpreter.packages
        here = any(package(machine, name) for name in ("libtpu", "libtpu-nightly"))
        if not files or here or isinstance(machine.tpu.libtpu, Known) or not isinstance(packages, Known):
            return
        yield self.finding(
            evidence=(
                f"device files: {', '.join(files[:4])}",
                describe_fact("libtpu", machine.tpu.libtpu),
                f"no package libtpu ({packages.source})",
            ),
            meaning="JAX and torch_xla cannot reach the TPU without it, and compute on the CPU.",
            fix=("pip install -U 'jax[tpu]'", "Or, for torch: pip install torch 'torch_xla[tpu]'"),
        )
