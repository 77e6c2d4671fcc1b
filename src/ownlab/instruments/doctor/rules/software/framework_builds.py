"""Rules on what a framework's build has code for: any GPU at all, AMD's, Intel's, and this very card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.architectures import architecture_of, runs_on
from ownlab.catalog.torch_wheels import build_of
from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import (
    accelerators_of,
    any_framework_works,
    capability,
    card_name,
    describe_cards,
    framework,
    framework_name,
    frameworks_of,
    is_musl,
    join,
    nvidia_cards,
    package,
    sees_devices,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import (
    framework_command,
    no_wheel_advice,
    rocm_requirement,
    torch_command,
    torch_platform,
    xpu_requirement,
)
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card, Framework, Machine

__all__ = ["CpuOnlyBuild", "NoKernelImage", "RocmBuildMissing", "XpuBuildMissing"]

# torch names the card's capability in its warnings: "with CUDA capability sm_120 is not", "of cuda capability 6.1".
_CAPABILITY_IN_MESSAGE = re.compile(r"CUDA capability (?:sm_)?(\d+?)\.?(\d)\b", re.IGNORECASE)


class CpuOnlyBuild(MessageRule):
    """A framework was installed in its build for CPUs, and so cannot use the GPU.

    **Why it matters.** torch, TensorFlow and JAX come in builds for CPUs alone and builds for CUDA or ROCm. The CPU build
    works, slowly, and refuses the GPU with words such as "Torch not compiled with CUDA enabled". It often comes in by
    accident: as the dependency of another package, from an index that only has CPU builds, or on a platform where the
    default wheel is the CPU one (Windows; 64-bit ARM before torch 2.11).

    **What to do.** With a GPU: install the CUDA build that this driver and this card can run; the finding has the command.
    Then check that no other requirement pulls the CPU build in again. Without a GPU: the build is right, and the program
    should ask for it: `device = "cuda" if torch.cuda.is_available() else "cpu"`, and `map_location="cpu"` when it loads
    a checkpoint that was saved on a GPU.

    **Sources.** torch/cuda/__init__.py (the words); astral-sh/uv#17236 (CPU wheels chosen silently); jax's own warning.
    """

    code = "cpu-build"
    severity = "error"
    title = "The framework was built without GPU support"
    blocks = True
    patterns = (
        r"not comp(?:i|l)l?ied with CUDA enabled",
        r"not compiled with CUDA",
        r"PyTorch is not linked with support for cuda devices",
        r"CUDA-enabled jaxlib is not installed",
        r"no GPU will be used.*not built with CUDA",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if value_of(machine.host.family) == "darwin":
            yield from self._on_a_mac(self.quotes(case))
            return
        cards = nvidia_cards(machine)
        on_cpu = [one for one in frameworks_of(machine) if value_of(one.build) == "cpu" and not one.failure]
        # JAX says the same where its plug-in for CUDA is there and fails: that is not a matter of the build.
        failed = any("jax_plugins.xla_cuda" in message.text for message in case.messages)
        quotes = self.quotes(case) if (machine.origin == "pasted" or cards) and not failed else ()
        if not quotes and not (on_cpu and (cards or self._may_have_a_card(machine))):
            return
        names = {one.name: None for one in on_cpu} or {self._speaker(quote): None for quote in quotes}
        blocks = not any_framework_works(machine)
        yield self.finding(
            title=f"{join(names)} {'was' if len(names) == 1 else 'were'} built without GPU support",
            evidence=(*(f"{framework_name(one)} is a CPU build" for one in on_cpu), *quotes),
            meaning="This build cannot use any GPU, though there is one here: it was installed from a CPU-only index, or"
            " another package pulled it in."
            if cards
            else "This build cannot use any GPU. On a machine with a GPU, the environment is wrong; without one, the"
            " program asks for a device that is not there.",
            fix=self._fix(machine, names, bool(cards)),
            severity="error" if blocks else "note",
            blocks=blocks,
        )

    def _on_a_mac(self, quotes: tuple[str, ...]) -> Iterator[Finding]:
        if quotes:
            yield self.finding(
                title="The program asks for CUDA on a Mac",
                evidence=quotes,
                meaning="No Mac of today has CUDA. torch uses Apple's GPU under the name mps.",
                fix=("In code: device = 'mps' if torch.backends.mps.is_available() else 'cpu'",),
                blocks=False,
            )

    @staticmethod
    def _may_have_a_card(machine: Machine) -> bool:
        """Of a pasted machine a CPU build cannot tell whether it has an NVIDIA card. Macs and NPUs have none."""
        elsewhere = value_of(machine.host.family) == "darwin" or package(machine, "torch-npu") is not None
        return machine.origin == "pasted" and not isinstance(machine.cards, Known) and not elsewhere

    @staticmethod
    def _speaker(quote: str) -> str:
        return "jax" if "jax" in quote else "tensorflow" if "tensorflow" in quote.lower() else "torch"

    @staticmethod
    def _fix(machine: Machine, names: Iterable[str], cards: bool) -> Iterator[str]:
        yield from (framework_command(machine, name) or no_wheel_advice(machine, name=name) for name in names)
        if not cards:
            yield (
                "Without a GPU: let the program choose, device = 'cuda' if torch.cuda.is_available() else 'cpu', and"
                " load checkpoints with map_location='cpu'."
            )


def _for_another_vendor(machine: Machine, vendor: str) -> tuple[list[Card], Framework | None]:
    """The vendor's cards that are there to compute on, and the torch that was not built for them.

    Graphics inside the CPU are left out; so is a CUDA build beside NVIDIA's card, which is there for that one.
    """
    cards = [card for card in accelerators_of(machine) if card.vendor == vendor]
    torch = framework(machine, "torch")
    if not cards or torch is None or torch.failure or any_framework_works(machine):
        return cards, None
    wrong = ("cpu",) if nvidia_cards(machine) else ("cpu", "cuda")
    return cards, torch if value_of(torch.build) in wrong else None


def _is_build_for(torch: Framework) -> str:
    return f"{framework_name(torch)} is a build for {(value_of(torch.build) or '').upper()}"


class RocmBuildMissing(MessageRule):
    """An AMD card is here, and the framework was not built for ROCm, or not for this card.

    **Why it matters.** AMD's cards are reached through ROCm; the CUDA and CPU builds of torch do not see them. A ROCm
    build has code for some chips only ("HIP error: invalid device function", "no kernel image" on ROCm): consumer chips
    close to a supported one can often run its code when told so.

    **What to do.** Install the ROCm build (Linux). For a chip that the build lacks but whose sibling it has, set
    `HSA_OVERRIDE_GFX_VERSION`, for example `10.3.0` for RDNA 2 and `11.0.0` for RDNA 3; it is a workaround that AMD does
    not support.

    **Sources.** pytorch.org's installation page; ROCm/ROCm discussions of HSA_OVERRIDE_GFX_VERSION.
    """

    code = "rocm-build"
    severity = "error"
    title = "The framework was not built for this AMD card"
    blocks = True
    patterns = (r"HIP error: (?:invalid device function|no kernel image)", r"hipErrorNoBinaryForGpu")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards, torch = _for_another_vendor(machine, "amd")
        quotes = self.quotes(case)
        if torch is None and not quotes:
            return
        evidence = describe_cards(cards, lambda card: "")
        if torch is not None:
            evidence.append(_is_build_for(torch))
        fix = [_reinstall(machine, rocm_requirement())]
        if quotes:
            fix.insert(0, "export HSA_OVERRIDE_GFX_VERSION=10.3.0   # RDNA 2; 11.0.0 for RDNA 3; before Python starts")
        yield self.finding(
            evidence=(*evidence, *quotes),
            meaning="The card is AMD's, and this build has no code for it: AMD's cards need a ROCm build with their chip"
            " in it.",
            fix=fix,
        )


def _reinstall(machine: Machine, requirement: str) -> str:
    return no_wheel_advice(machine) if is_musl(machine) else f"pip install --force-reinstall {requirement}"


class XpuBuildMissing(Rule):
    """An Intel card is here, and torch was not built for it.

    **Why it matters.** torch reaches Intel's cards (Arc, Data Center GPU Max) through its XPU builds, as
    `torch.device("xpu")`. The CUDA and CPU builds do not see them, and everything runs on the CPU. Graphics inside the
    CPU are not meant here.

    **What to do.** Install the XPU build (Linux, Windows), and let code choose its device:
    `"xpu" if torch.xpu.is_available() else "cpu"`.

    **Sources.** pytorch.org, "Getting Started on Intel GPU"; Intel's installation guides for client and data-centre GPUs.
    """

    code = "xpu-build"
    severity = "error"
    title = "torch was not built for this Intel card"
    blocks = True

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards, torch = _for_another_vendor(machine, "intel")
        # Gaudi is Intel's too, and has a torch of its own.
        cards = [card for card in cards if "Gaudi" not in (value_of(card.name) or "")]
        if torch is None or not cards:
            return
        yield self.finding(
            evidence=(*describe_cards(cards, lambda card: ""), _is_build_for(torch)),
            meaning="The card is Intel's, and this build has no code for it: Intel's cards need an XPU build.",
            fix=(
                _reinstall(machine, xpu_requirement()),
                'In code: device = "xpu" if torch.xpu.is_available() else "cpu"',
            ),
        )


class NoKernelImage(MessageRule):
    """A framework's build has no code for this card's compute capability.

    **Why it matters.** A CUDA build carries machine code for some compute capabilities (`torch.cuda.get_arch_list()`).
    Code for sm_80 runs on 8.0, 8.6 and 8.9, never on 9.0 or 7.5. `torch.cuda.is_available()` is True all the same, and
    the first real operation fails: "no kernel image is available for execution on the device". Cards too new for the
    build (Blackwell before torch 2.7) and too old for it (Maxwell, Pascal, Volta after they were dropped; GeForce 30
    with CUDA 10) look alike here.

    **What to do.** Install a build that has the card: newer torch with newer CUDA for a new card; for Maxwell, Pascal
    and Volta the cu126 builds up to torch 2.14. Where torch itself has the card, the extension that failed (flash-attn,
    bitsandbytes, detectron2 …) was compiled without it: rebuild it with `TORCH_CUDA_ARCH_LIST` set to the card.

    **Sources.** torch/cuda/__init__.py (compatibility of sm code); pytorch/pytorch .ci/manywheel (arch lists of the
    wheels); pytorch/pytorch#167244; Comfy-Org/ComfyUI#16438; NVIDIA's CUDA toolkit release notes (first and last CUDA).
    """

    code = "no-kernel"
    severity = "error"
    title = "The framework's build has no code for this card"
    blocks = True
    patterns = (
        r"no kernel image is available for execution",
        r"with CUDA capability sm_\d+ is not compatible",
        r"PyTorch no longer supports this GPU because it is too old",
        r"device kernel image is invalid",
        r"cudaErrorNoKernelImageForDevice",
        r"CUDA_ERROR_NO_BINARY_FOR_GPU",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        torch = framework(machine, "torch")
        quotes = self.quotes(case)
        arch_list, source = self._arch_list(machine, torch)
        cards = [(card, found) for card in nvidia_cards(machine) if (found := capability(card))]
        left_out = [(card, found) for card, found in cards if arch_list and not runs_on(arch_list, found)]
        if torch is not None and left_out:
            evidence = (
                *describe_cards(
                    (card for card, _ in left_out), lambda card: f" has compute capability {capability(card)}"
                ),
                f"{framework_name(torch)} has code for {' '.join(arch_list)} ({source})",
                *quotes,
            )
            others = [one for one in frameworks_of(machine) if one.name != "torch" and sees_devices(one)]
            blocks = len(left_out) == len(cards) and not others
            yield self._build_lacks(machine, framework_name(torch), arch_list, left_out[0], evidence, blocks)
        elif quotes and torch is not None and cards and arch_list:
            yield self._extension_lacks(torch, cards, quotes)
        elif quotes:
            yield self._from_messages_alone(case, quotes)

    @staticmethod
    def _arch_list(machine: Machine, torch: Framework | None) -> tuple[tuple[str, ...], str]:
        """What the build has code for: its own word, else the table of official wheels."""
        if torch is None or value_of(torch.build) not in (None, "cuda"):
            return (), ""
        own = value_of(torch.arch_list)
        if own:
            return own, "its own list"
        version, cuda = value_of(torch.version), value_of(torch.cuda)
        build = build_of(version, cuda, torch_platform(machine)) if version and cuda else None
        return (build.arch_list or (), "the official wheel's list") if build else ((), "")

    def _build_lacks(
        self,
        machine: Machine,
        torch: str,
        arch_list: tuple[str, ...],
        left_out: tuple[Card, str],
        evidence: tuple[str, ...],
        blocks: bool,
    ) -> Finding:
        card, found = left_out
        name = value_of(card.name)
        family = architecture_of(found)
        first = family.first_cuda.get(found) if family else None
        newest = max((parse_version(f"{code[1]}.{code[2]}") for code in _codes(arch_list)), default=())
        named = f"{family.name} (compute capability {found})" if family else f"Compute capability {found}"
        why = f"{named} is not among the cards of this build."
        if newest and parse_version(found) > newest:
            why = f"{named} is newer than anything in this build" + (f"; its first CUDA is {first}." if first else ".")
        return self.finding(
            title=f"{torch} has no code for {name or card_name(card)}",
            evidence=evidence,
            meaning=f"{why} torch.cuda.is_available() may say True; the first operation on the card fails.",
            fix=[torch_command(machine, found) or no_wheel_advice(machine, found)],
            severity="error" if blocks else "warning",
            blocks=blocks,
        )

    def _extension_lacks(self, torch: Framework, cards: list[tuple[Card, str]], quotes: tuple[str, ...]) -> Finding:
        architectures = ";".join(sorted({found for _, found in cards}, key=parse_version))
        return self.finding(
            title="An extension was compiled without this card",
            evidence=(*quotes, f"{framework_name(torch)} itself has code for {card_name(cards[0][0])}"),
            meaning="torch runs on this card, so the kernel that is missing is one of an extension (flash-attn,"
            " bitsandbytes, detectron2, …).",
            fix=[
                f"TORCH_CUDA_ARCH_LIST='{architectures}' pip install --no-build-isolation --force-reinstall EXTENSION"
            ],
            blocks=False,
        )

    def _from_messages_alone(self, case: Case, quotes: tuple[str, ...]) -> Finding:
        said = [code for message in case.messages for code in _CAPABILITY_IN_MESSAGE.findall(message.text)]
        named = next((".".join(part) for part in said if all(part)), None)
        command = torch_command(case.machine, named) if named or nvidia_cards(case.machine) else None
        index = "--index-url https://download.pytorch.org/whl"
        return self.finding(
            evidence=quotes,
            meaning="The program has no machine code for this card: the build is too old for a new card, or has dropped"
            " an old one.",
            fix=[command]
            if command
            else [
                f"New card (GeForce 50, B200): pip install -U torch {index}/cu128   # or newer",
                f"Old card (Maxwell, Pascal, Volta): pip install 'torch<2.15' {index}/cu126",
            ],
        )


def _codes(arch_list: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """ "sm_120a" -> 12 and 0."""
    return (match for code in arch_list if (match := re.match(r"(?:sm|compute)_(\d+)(\d)", code)))
