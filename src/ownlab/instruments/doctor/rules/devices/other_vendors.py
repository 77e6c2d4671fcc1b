"""Rules about accelerators of other vendors: Huawei Ascend NPUs, Apple GPUs, Google TPUs."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.catalog.versions import major_minor
from ownlab.instruments.doctor.queries import (
    card_name,
    container_kind,
    describe_fact,
    framework,
    framework_name,
    known_facts,
    package_version,
    sees_devices,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Machine
from ownlab.text import listing, plural, text

__all__ = ["AscendHealth", "AscendSoftwareMissing", "LibtpuMissing", "MpsUnavailable", "RosettaPython"]


def _cards_of(machine: Machine, vendor: str) -> list[Card]:
    return [card for card in value_of(machine.cards) or () if card.vendor == vendor]


class AscendHealth(MessageRule):
    """An Ascend NPU reports a fault, or its driver does not answer.

    **Why it matters.** `npu-smi info` has a column Health: OK, Warning, Alarm, Critical. An NPU that is not OK may fail at
    any time, or is already out of use. "DrvMngGetConsoleLogLevel failed" and "dcmi module initialize failed" mean that the
    driver does not answer: it is not loaded, or a container was started without its devices.

    **What to do.** `npu-smi info -t health -i ID` names the fault; a reset or a reboot clears many faults. In a container,
    pass /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc, and mount /usr/local/Ascend/driver.

    **Sources.** Huawei, npu-smi command reference (health states); vLLM Ascend, installation (devices of a container);
    Ascend/cann-container-image#46; Project-HAMi/HAMi#1696.
    """

    code = "ascend-health"
    severity = "error"
    title = text("An Ascend NPU reports a fault")
    patterns = (
        r"DrvMngGetConsoleLogLevel failed",
        r"dcmi (?:module|model) initialized? failed",
    )
    _MILD = ("warning",)

    def check(self, case: Case) -> Iterable[Finding]:
        cards = _cards_of(case.machine, "huawei")
        health = [(card, value_of(card.health) or "OK") for card in cards]
        faulty = [(card, state) for card, state in health if state.upper() != "OK"]
        quotes = list(self.quotes(case))
        smi = case.machine.ascend.smi
        if cards and isinstance(smi, Unknown) and smi != NOT_READ:
            quotes.append(describe_fact("npu-smi", smi))
        if quotes:
            in_use = any("-8020" in line or "device is used" in line for line in quotes)
            yield self.finding(
                title=text("The Ascend driver does not answer"),
                evidence=quotes,
                meaning=text("Another container or process uses the NPU (-8020).")
                if in_use
                else text("The driver is not loaded, or this container was started without its devices."),
                fix=self._reach_driver(case.machine),
                blocks=True,
            )
        elif faulty:
            all_faulty = len(faulty) == len(cards)
            mild = all(state.lower() in self._MILD for _, state in faulty)
            names = listing(card_name(card) for card, _ in faulty)
            yield self.finding(
                title=plural(len(faulty), "{cards} reports a fault", "{cards} report a fault", cards=names),
                evidence=[
                    text("{card}: {health}", card=card_name(card), health=describe_fact(text("health"), card.health))
                    for card, _ in faulty
                ],
                meaning=text("The driver found a fault in the NPU; work on it may fail or give wrong results."),
                fix=(
                    text("npu-smi info -t health -i {index}   # names the fault", index=faulty[0][0].index),
                    text(
                        "Reset it (npu-smi set -t reset -i ID -c 0) or reboot; if the fault stays, have the card checked."
                    )
                    if all_faulty
                    else text("Until then use the other NPUs: export ASCEND_RT_VISIBLE_DEVICES=…"),
                ),
                severity="warning" if mild else "error",
                blocks=all_faulty and not mild,
            )

    @staticmethod
    def _reach_driver(machine: Machine) -> tuple[str, ...]:
        container = (
            "docker run --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device"
            " /dev/hisi_hdc -v /usr/local/Ascend/driver:/usr/local/Ascend/driver …"
        )
        if container_kind(machine):
            return (container,)
        return (
            text("lsmod | grep drv_davinci; dmesg | grep -i davinci   # is the driver loaded, and what does it report"),
            text("In a container: {command}", command=container),
        )


class AscendSoftwareMissing(Rule):
    """The machine has Ascend NPUs, but CANN or torch-npu is missing.

    **Why it matters.** torch uses an NPU through Huawei's plug-in torch-npu, which needs CANN, Huawei's counterpart of
    CUDA. Their versions must match, and torch-npu has torch's own version (torch-npu 2.6.0 for torch 2.6).

    **What to do.** Install CANN (toolkit and kernels), source its set_env.sh, then install torch-npu in torch's version.

    **Sources.** github.com/Ascend/pytorch (table of versions); hiascend.com, CANN installation.
    """

    code = "ascend-stack"
    severity = "warning"
    title = text("The NPU's software is incomplete")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards = _cards_of(machine, "huawei")
        torch = framework(machine, "torch")
        if not cards or (torch is not None and sees_devices(torch)):
            return
        no_cann = machine.origin == "live" and not isinstance(machine.ascend.cann, Known)
        no_plugin = torch is not None and not torch.failure and package_version(machine, "torch-npu") is None
        no_plugin = no_plugin and isinstance(machine.interpreter.packages, Known)
        if not no_cann and not no_plugin:
            return
        version = value_of(torch.version) if torch else None
        pin = f"=={major_minor(version)}.*" if version else ""
        missing = [name for name, absent in (("CANN", no_cann), ("torch-npu", no_plugin)) if absent]
        yield self.finding(
            title=plural(
                len(missing),
                "{packages} is missing for the Ascend NPU",
                "{packages} are missing for the Ascend NPU",
                packages=listing(missing),
            ),
            evidence=(
                *(card_name(card) for card in cards[:1]),
                *([describe_fact("CANN", machine.ascend.cann)] if no_cann else []),
                *(
                    [text("{framework} without torch-npu", framework=framework_name(torch))]
                    if no_plugin and torch
                    else []
                ),
            ),
            meaning=text("torch uses an NPU through torch-npu, which needs CANN."),
            fix=(
                text("Install CANN's toolkit and kernels: https://www.hiascend.com/software/cann")
                if no_cann
                else "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
                *([text("pip install 'torch-npu{pin}'   # in torch's own version", pin=pin)] if no_plugin else []),
            ),
        )


class RosettaPython(Rule):
    """Python was built for Intel and runs translated (Rosetta) on a Mac with an Apple chip.

    **Why it matters.** A translated (x86_64) Python cannot use the chip's GPU, gets old wheels (torch 2.2 was the last
    with builds for Intel Macs), and is slower at everything.

    **What to do.** Install an arm64 Python from python.org, Homebrew in /opt/homebrew, or Miniforge for arm64, and
    recreate the environment with it.

    **Sources.** developer.apple.com, "Accelerated PyTorch training on Mac"; PyTorch 2.3 release notes (Intel Macs).
    """

    code = "rosetta"
    severity = "error"
    title = text("This Python is built for Intel and cannot use the Apple GPU")
    blocks = True

    def check(self, case: Case) -> Iterable[Finding]:
        for card in _cards_of(case.machine, "apple"):
            if "Rosetta" in (value_of(card.health) or ""):
                yield self.finding(
                    evidence=[describe_fact(text("Apple GPU:"), card.health)],
                    meaning=text(
                        "The Mac has an Apple chip, but this Python is an Intel build that runs translated. It cannot use"
                        " Metal."
                    ),
                    fix=(
                        text(
                            "python3 -c 'import platform; print(platform.machine())'   # must print arm64, not x86_64"
                        ),
                        text(
                            "brew install python   # with the Homebrew in /opt/homebrew; then recreate the environment"
                        ),
                    ),
                )


class MpsUnavailable(Rule):
    """The Mac has an Apple GPU, but torch does not use it.

    **Why it matters.** torch uses Apple's GPU through MPS, which needs macOS 13 or newer (14 from torch 2.9 on) and an
    arm64 wheel; otherwise everything runs on the CPU.

    **What to do.** Update macOS and torch. In code: `device = "mps" if torch.backends.mps.is_available() else "cpu"`.

    **Sources.** pytorch.org, "MPS backend"; pytorch/pytorch#162921 (macOS 14); developer.apple.com/metal/pytorch.
    """

    code = "mps-absent"
    severity = "warning"
    title = text("torch does not see the Apple GPU")

    def check(self, case: Case) -> Iterable[Finding]:
        cards = [card for card in _cards_of(case.machine, "apple") if "Rosetta" not in (value_of(card.health) or "")]
        torch = framework(case.machine, "torch")
        if not cards or torch is None or torch.failure or sees_devices(torch) or not isinstance(torch.devices, Known):
            return
        cpu_build = value_of(torch.build) == "cpu"
        yield self.finding(
            evidence=(
                card_name(cards[0]),
                text("{framework} sees no device", framework=framework_name(torch)),
                *known_facts((text("system:"), case.machine.host.system)),
                *([f"torch: {torch.error.splitlines()[0]}"] if torch.error else []),
            ),
            meaning=text("This torch was built without MPS, so work runs on the CPU.")
            if cpu_build
            else text(
                "This torch supports MPS, but macOS does not offer it: the system is too old, or is a virtual machine."
            ),
            fix=("pip install -U torch",)
            if cpu_build
            else (text("Update macOS (14 or newer)."), "pip install -U torch"),
        )


class LibtpuMissing(Rule):
    """The machine has TPU chips, but libtpu, the library that drives them, is missing.

    **Why it matters.** JAX and torch_xla use a TPU through libtpu. Without it they compute on the CPU, without a warning.

    **What to do.** `pip install 'jax[tpu]'`, or `torch torch_xla[tpu]`: both install libtpu.

    **Sources.** docs.jax.dev, "Installation", TPU; github.com/pytorch/xla.
    """

    code = "tpu-no-libtpu"
    severity = "warning"
    title = text("The TPU's library, libtpu, is missing")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        files = value_of(machine.tpu.device_files) or ()
        packages = machine.interpreter.packages
        installed = any(package_version(machine, name) for name in ("libtpu", "libtpu-nightly"))
        if not files or installed or isinstance(machine.tpu.libtpu, Known) or not isinstance(packages, Known):
            return
        yield self.finding(
            evidence=(
                text("device files: {files}", files=", ".join(files[:4])),
                describe_fact("libtpu", machine.tpu.libtpu),
                text("package libtpu is not installed ({source})", source=packages.source),
            ),
            meaning=text("Without it JAX and torch_xla cannot use the TPU, and compute on the CPU."),
            fix=("pip install -U 'jax[tpu]'", text("Or, for torch: pip install torch 'torch_xla[tpu]'")),
        )
