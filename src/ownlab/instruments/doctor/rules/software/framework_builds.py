"""Rules about a framework's build: CPU only, not for AMD or Intel cards, or without code for this card."""

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
    nvidia_cards,
    oldest_capability,
    package_version,
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
from ownlab.text import listing, plural, sentences, text

__all__ = ["CpuOnlyBuild", "NoKernelImage", "RocmBuildMissing", "XpuBuildMissing"]

# torch names the card's capability in its warnings: "with CUDA capability sm_120 is not", "of cuda capability 6.1".
_CAPABILITY_IN_MESSAGE = re.compile(r"CUDA capability (?:sm_)?(\d+?)\.?(\d)\b", re.IGNORECASE)


class CpuOnlyBuild(MessageRule):
    """A framework is installed in its CPU build, and so cannot use the GPU.

    **Why it matters.** torch, TensorFlow and JAX come in builds for CPUs only and builds for CUDA or ROCm. The CPU build
    works, slowly, and refuses the GPU with messages such as "Torch not compiled with CUDA enabled". It is often installed
    by accident: as the dependency of another package, from an index that has only CPU builds, or on a platform where the
    default wheel is the CPU one (Windows; 64-bit ARM before torch 2.11).

    **What to do.** With a GPU: install the CUDA build that this driver and this card can run; the finding shows the
    command. Then check that no other requirement installs the CPU build again. Without a GPU: the build is right, and the
    program should choose the CPU: `device = "cuda" if torch.cuda.is_available() else "cpu"`, and `map_location="cpu"` when
    it loads a checkpoint that was saved on a GPU.

    **Sources.** `torch/cuda/__init__.py` (the message); astral-sh/uv#17236 (CPU wheels chosen silently); jax's own warning.
    """

    code = "cpu-build"
    severity = "error"
    title = text("The framework was built without GPU support")
    blocks = True
    patterns = (
        r"not comp(?:i|l)l?ied with CUDA enabled",
        r"(?<!was )(?<!is )(?<!code )\bnot compiled with CUDA(?! support)",
        r"torch\.cuda\.\w+Tensor (?:is )?not available",
        r"PyTorch is not linked with support for cuda devices|Torch not compiled with CUDA",
        r"module 'torch\._C' has no attribute '_cuda",
        r"no GPU will be used.*not built with CUDA",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        if value_of(machine.host.family) == "darwin":
            yield from self._on_a_mac(self.quotes(case))
            return
        cards = nvidia_cards(machine)
        cpu_builds = [each for each in frameworks_of(machine) if value_of(each.build) == "cpu" and not each.failure]
        # JAX prints the same message if its CUDA plug-in is installed but fails: then the build is not at fault.
        plugin_failed = any("jax_plugins.xla_cuda" in message.text for message in case.messages)
        quotes = self.quotes(case) if (machine.origin == "pasted" or cards) and not plugin_failed else ()
        if not quotes and not (cpu_builds and (cards or self._may_have_a_card(machine))):
            return
        if not quotes and not cards and any("torchvision::nms does not exist" in each.text for each in case.messages):
            return  # the text is about torchvision; that torch is a CPU build may be intended
        names = list(dict.fromkeys(each.name for each in cpu_builds)) or list(
            dict.fromkeys(self._framework_in(quote) for quote in quotes)
        )
        blocks = not any_framework_works(machine)
        yield self.finding(
            title=plural(
                len(names),
                "{frameworks} was built without GPU support",
                "{frameworks} were built without GPU support",
                frameworks=listing(names),
            ),
            evidence=(
                *(text("{framework} is a CPU build", framework=framework_name(each)) for each in cpu_builds),
                *quotes,
            ),
            meaning=text(
                "This build cannot use a GPU, though this machine has one: it was installed from a CPU-only index, or as a"
                " dependency of another package."
            )
            if cards
            else text(
                "This build cannot use a GPU. If the machine has a GPU, the wrong build is installed; if not, the program"
                " asks for a device that does not exist."
            ),
            fix=self._fix(machine, names, bool(cards)),
            severity="error" if blocks else "note",
            blocks=blocks,
        )

    def _on_a_mac(self, quotes: tuple[str, ...]) -> Iterator[Finding]:
        if quotes:
            yield self.finding(
                title=text("The program asks for CUDA on a Mac"),
                evidence=quotes,
                meaning=text("Current Macs do not support CUDA. torch uses Apple's GPU under the name mps."),
                fix=(text("In code: device = 'mps' if torch.backends.mps.is_available() else 'cpu'"),),
                blocks=False,
            )

    @staticmethod
    def _may_have_a_card(machine: Machine) -> bool:
        """A CPU build does not show whether a pasted machine has an NVIDIA card. Macs and NPU machines have none."""
        elsewhere = value_of(machine.host.family) == "darwin" or package_version(machine, "torch-npu") is not None
        return machine.origin == "pasted" and not isinstance(machine.cards, Known) and not elsewhere

    @staticmethod
    def _framework_in(quote: str) -> str:
        return "jax" if "jax" in quote else "tensorflow" if "tensorflow" in quote.lower() else "torch"

    @staticmethod
    def _fix(machine: Machine, names: Iterable[str], cards: bool) -> Iterator[str]:
        yield from (framework_command(machine, name) or no_wheel_advice(machine, name=name) for name in names)
        if not cards:
            yield text(
                "Without a GPU: let the program choose, device = 'cuda' if torch.cuda.is_available() else 'cpu', and load"
                " checkpoints with map_location='cpu'."
            )


def _cards_without_build(machine: Machine, vendor: str) -> tuple[list[Card], Framework | None]:
    """Return the vendor's cards for computing, and the torch that was not built for them.

    Graphics integrated in the CPU are left out; so is a CUDA build on a machine that also has an NVIDIA card.
    """
    cards = [card for card in accelerators_of(machine) if card.vendor == vendor]
    torch = framework(machine, "torch")
    if not cards or torch is None or torch.failure or any_framework_works(machine):
        return cards, None
    wrong = ("cpu",) if nvidia_cards(machine) else ("cpu", "cuda")
    return cards, torch if value_of(torch.build) in wrong else None


def _describe_build(torch: Framework) -> str:
    build = (value_of(torch.build) or "").upper()
    return text("{framework} is a build for {build}", framework=framework_name(torch), build=build)


def _reinstall(machine: Machine, requirement: str) -> str:
    return no_wheel_advice(machine) if is_musl(machine) else f"pip install --force-reinstall {requirement}"


class RocmBuildMissing(MessageRule):
    """The machine has an AMD card, but the framework was not built for ROCm, or not for this card.

    **Why it matters.** AMD cards are used through ROCm; the CUDA and CPU builds of torch do not see them. A ROCm build has
    code for some chips only ("HIP error: invalid device function", "no kernel image" on ROCm). A consumer chip that is
    similar to a supported one can often run its code with an override.

    **What to do.** Install the ROCm build (Linux). For a chip that the build lacks but whose sibling it supports, set
    `HSA_OVERRIDE_GFX_VERSION`, for example `10.3.0` for RDNA 2 and `11.0.0` for RDNA 3; AMD does not support this
    workaround.

    **Sources.** pytorch.org's installation page; ROCm/ROCm discussions of HSA_OVERRIDE_GFX_VERSION.
    """

    code = "rocm-build"
    severity = "error"
    title = text("The framework was not built for this AMD card")
    blocks = True
    patterns = (r"HIP error: (?:invalid device function|no kernel image)", r"hipErrorNoBinaryForGpu")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards, torch = _cards_without_build(machine, "amd")
        quotes = self.quotes(case)
        if torch is None and not quotes:
            return
        override = text("export HSA_OVERRIDE_GFX_VERSION=10.3.0   # RDNA 2; 11.0.0 for RDNA 3; before Python starts")
        yield self.finding(
            evidence=(*describe_cards(cards), *([_describe_build(torch)] if torch is not None else []), *quotes),
            meaning=text(
                "This build has no code for the AMD card: AMD cards need a ROCm build that supports their chip."
            ),
            fix=(*([override] if quotes else []), _reinstall(machine, rocm_requirement())),
        )


class XpuBuildMissing(Rule):
    """The machine has an Intel card, but torch was not built for it.

    **Why it matters.** torch uses Intel's cards (Arc, Data Center GPU Max) through its XPU builds, as
    `torch.device("xpu")`. The CUDA and CPU builds do not see them, and everything runs on the CPU. Graphics integrated in
    the CPU do not count.

    **What to do.** Install the XPU build (Linux, Windows), and let the code choose its device:
    `"xpu" if torch.xpu.is_available() else "cpu"`.

    **Sources.** pytorch.org, "Getting Started on Intel GPU"; Intel's installation guides for client and data-centre GPUs.
    """

    code = "xpu-build"
    severity = "error"
    title = text("torch was not built for this Intel card")
    blocks = True

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        cards, torch = _cards_without_build(machine, "intel")
        # Gaudi is Intel's too, but has its own build of torch.
        cards = [card for card in cards if "Gaudi" not in (value_of(card.name) or "")]
        if torch is None or not cards:
            return
        yield self.finding(
            evidence=(*describe_cards(cards), _describe_build(torch)),
            meaning=text("This build has no code for the Intel card: Intel cards need an XPU build."),
            fix=(
                _reinstall(machine, xpu_requirement()),
                text('In code: device = "xpu" if torch.xpu.is_available() else "cpu"'),
            ),
        )


# Programs with kernels of their own: another torch does not help them.
_NOT_TORCH = re.compile(r"ggml|ollama|llama\.cpp|tensorflow|jaxlib|cupy|numba", re.IGNORECASE)


class NoKernelImage(MessageRule):
    """A framework's build has no code for this card's compute capability.

    **Why it matters.** A CUDA build contains machine code for some compute capabilities (`torch.cuda.get_arch_list()`).
    Code for sm_80 runs on 8.0, 8.6 and 8.9, never on 9.0 or 7.5. `torch.cuda.is_available()` still returns True, but the
    first real operation fails: "no kernel image is available for execution on the device". The error is the same for cards
    that are too new for the build (Blackwell before torch 2.7) and too old for it (Maxwell, Pascal, Volta after they were
    dropped; GeForce 30 with CUDA 10).

    **What to do.** Install a build that supports the card: newer torch with newer CUDA for a new card; for Maxwell, Pascal
    and Volta the cu126 builds up to torch 2.14. If torch itself supports the card, the extension that failed (flash-attn,
    bitsandbytes, detectron2 …) was compiled without it: rebuild it with `TORCH_CUDA_ARCH_LIST` set to the card.

    **Sources.** `torch/cuda/__init__.py` (compatibility of sm code); pytorch/pytorch .ci/manywheel (arch lists of the
    wheels); pytorch/pytorch#167244; Comfy-Org/ComfyUI#16438; NVIDIA's CUDA toolkit release notes (first and last CUDA).
    """

    code = "no-kernel"
    severity = "error"
    title = text("The framework's build has no code for this card")
    blocks = True
    patterns = (
        r"no kernel image is available for execution",
        r"== ?cudaSuccess \((?:8|9|98|209|200) vs",
        r"with CUDA capability sm_\d+ is not compatible",
        r"PyTorch no longer supports this GPU because it is too old|which is of (?:cuda|compute) capability [\d.]+[\s\S]{0,120}Minimum and Maximum cuda capability",
        r"device kernel image is invalid|no kernel image\b|Cuda failure '?invalid (?:device function|kernel image)|not compiled for (?:this|your) (?:GPU|card|architecture)|no kernel found for (?:this|your)",
        r"cudaErrorNoKernelImageForDevice",
        r"CUDA_ERROR_NO_BINARY_FOR_GPU|CUDA_ERROR_INVALID_IMAGE",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        torch = framework(machine, "torch")
        quotes = self.quotes(case)
        arch_list, source = self._arch_list(machine, torch)
        cards = [(card, number) for card in nvidia_cards(machine) if (number := capability(card))]
        unsupported = [(card, number) for card, number in cards if arch_list and not runs_on(arch_list, number)]
        if torch is not None and unsupported:
            evidence = (
                *describe_cards(
                    (card for card, _ in unsupported),
                    lambda card: text("compute capability {number}", number=capability(card)),
                ),
                text(
                    "{framework} has code for {architectures} ({source})",
                    framework=framework_name(torch),
                    architectures=" ".join(arch_list),
                    source=source,
                ),
                *quotes,
            )
            others = [each for each in frameworks_of(machine) if each.name != "torch" and sees_devices(each)]
            blocks = len(unsupported) == len(cards) and not others
            yield self._build_lacks_card(machine, framework_name(torch), arch_list, unsupported[0], evidence, blocks)
        elif quotes and torch is not None and cards and arch_list:
            yield self._extension_lacks_card(torch, cards, quotes)
        elif quotes:
            yield self._from_messages_alone(case, quotes)

    @staticmethod
    def _arch_list(machine: Machine, torch: Framework | None) -> tuple[tuple[str, ...], str]:
        """Return the architectures of the build and their source: its own list, or the table of official wheels."""
        if torch is None or value_of(torch.build) not in (None, "cuda"):
            return (), ""
        own = value_of(torch.arch_list)
        if own:
            return own, text("its own list")
        version, cuda = value_of(torch.version), value_of(torch.cuda)
        build = build_of(version, cuda, torch_platform(machine)) if version and cuda else None
        return (build.arch_list or (), text("list of the official wheel")) if build else ((), "")

    def _build_lacks_card(
        self,
        machine: Machine,
        torch: str,
        arch_list: tuple[str, ...],
        unsupported: tuple[Card, str],
        evidence: tuple[str, ...],
        blocks: bool,
    ) -> Finding:
        card, number = unsupported
        return self.finding(
            title=text(
                "{framework} has no code for {card}", framework=torch, card=value_of(card.name) or card_name(card)
            ),
            evidence=evidence,
            meaning=sentences(
                _why_unsupported(arch_list, number),
                text("torch.cuda.is_available() may return True, but the first operation on the card fails."),
            ),
            fix=[torch_command(machine, number) or no_wheel_advice(machine, number)],
            severity="error" if blocks else "warning",
            blocks=blocks,
        )

    def _extension_lacks_card(
        self, torch: Framework, cards: list[tuple[Card, str]], quotes: tuple[str, ...]
    ) -> Finding:
        architectures = ";".join(sorted({number for _, number in cards}, key=parse_version))
        return self.finding(
            title=text("An extension was compiled without this card"),
            evidence=(
                *quotes,
                text(
                    "{framework} itself has code for {card}",
                    framework=framework_name(torch),
                    card=card_name(cards[0][0]),
                ),
            ),
            meaning=text(
                "torch runs on this card, so the missing kernel belongs to an extension (flash-attn, bitsandbytes,"
                " detectron2, …)."
            ),
            fix=[
                f"TORCH_CUDA_ARCH_LIST='{architectures}' pip install --no-build-isolation --force-reinstall EXTENSION"
            ],
            blocks=False,
        )

    def _from_messages_alone(self, case: Case, quotes: tuple[str, ...]) -> Finding:
        numbers = [parts for message in case.messages for parts in _CAPABILITY_IN_MESSAGE.findall(message.text)]
        number = next((".".join(parts) for parts in numbers if all(parts)), None)
        command = torch_command(case.machine, number) if number or nvidia_cards(case.machine) else None
        return self.finding(
            evidence=quotes,
            meaning=text(
                "The program has no machine code for this card: the build is too old for a new card, or no longer supports"
                " an old one."
            ),
            fix=self._choices(case, number, command),
        )

    @staticmethod
    def _choices(case: Case, number: str | None, command: str | None) -> list[str]:
        """Return the build for this card; else what to install for each generation, and what to do if it is not torch."""
        index = "--index-url https://download.pytorch.org/whl"
        number = number or oldest_capability(case.machine)
        other = text(
            "If it is not torch that fails (apex, flash-attn, ollama, llama.cpp, …): install or build that program for this card;"
            " nvidia-smi --query-gpu=compute_cap --format=csv shows its number. If it never supported this card, use another one."
        )
        if any(_NOT_TORCH.search(message.text) for message in case.messages):
            return [other]
        if command:
            return [command, other]
        if number:
            return [no_wheel_advice(case.machine, number), other]
        return [
            text("New card (GeForce 50, B200): pip install -U torch {index}/cu128   # or newer", index=index),
            text(
                "GeForce 30 and 40, A100, H100: any torch built with CUDA 11.8 or newer: pip install -U torch {index}/cu126",
                index=index,
            ),
            text("Old card (Maxwell, Pascal, Volta): pip install 'torch<2.15' {index}/cu126", index=index),
            other,
        ]


def _why_unsupported(arch_list: tuple[str, ...], number: str) -> str:
    family = architecture_of(number)
    card = (
        text("{architecture} (compute capability {number})", architecture=family.name, number=number)
        if family
        else text("Compute capability {number}", number=number)
    )
    newest = max((parse_version(f"{code[1]}.{code[2]}") for code in _codes(arch_list)), default=())
    if not newest or parse_version(number) <= newest:
        return text("{card} is not among the cards that this build supports.", card=card)
    first = family.first_cuda.get(number) if family else None
    if first:
        return text(
            "{card} is newer than every card that this build supports; it needs CUDA {cuda} or newer.",
            card=card,
            cuda=first,
        )
    return text("{card} is newer than every card that this build supports.", card=card)


def _codes(arch_list: tuple[str, ...]) -> Iterator[re.Match[str]]:
    """ "sm_120a" -> 12 and 0."""
    return (match for code in arch_list if (match := re.match(r"(?:sm|compute)_(\d+)(\d)", code)))
