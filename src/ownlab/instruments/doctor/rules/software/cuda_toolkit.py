"""Rules on what is compiled together: torch, its companions, extensions, and the CUDA toolkit that builds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.architectures import architecture_of
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.queries import (
    architecture_name,
    capability,
    describe_cards,
    framework,
    nvidia_cards,
    package,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card

__all__ = [
    "CudaVersionMismatch",
    "HostCompilerTooNew",
    "PtxTooNew",
    "ToolkitLacksArchitecture",
    "ToolkitVersionDiffers",
]

# The variant of a wheel; other local versions (a commit, NVIDIA's own builds) say nothing of CUDA.
_VARIANT = re.compile(r"\+(cu\d+|cpu|rocm[\d.]+|xpu)$")
# torch's CUDA as the messages name it.
_TORCH_CUDA = re.compile(r"compile\s+PyTorch \(([\d.]+)\)|PyTorch has CUDA Version=([\d.]+)")


class CudaVersionMismatch(MessageRule):
    """Two parts that must be built with the same CUDA or the same torch are not.

    **Why it matters.** torch, torchvision, torchaudio and every compiled extension share memory layouts and CUDA
    libraries. Built against different CUDA majors or different torch releases, they refuse each other ("compiled with
    different CUDA major versions", "undefined symbol", "operator torchvision::nms does not exist"). Compiling an
    extension needs an nvcc of the same CUDA major as torch.

    **What to do.** Install torch and its companions in one command from one index, and reinstall extensions after torch
    changes. To compile an extension, point CUDA_HOME at a toolkit of torch's CUDA major.

    **Sources.** torch/utils/cpp_extension.py and torchvision/extension.py (the words).
    """

    code = "cuda-mismatch"
    severity = "error"
    title = "Parts built with different CUDA or torch versions are mixed"
    patterns = (
        r"detected CUDA version \([\d.]+\) mismatches the version that was used to compile",
        r"compiled with different\s+CUDA (?:major )?versions",
        r"operator torchvision::nms does not exist",
        r"undefined symbol: \S*(?:c10|torch|THP|at\d+_ops)\S*",
    )
    _COMPANIONS = ("torchvision", "torchaudio")

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        torch = package(case.machine, "torch") or ""
        beside = [(name, package(case.machine, name) or "") for name in self._COMPANIONS]
        mixed = [
            f"{name} {version} stands beside torch {torch}"
            for name, version in beside
            if (ours := _VARIANT.search(torch)) and (other := _VARIANT.search(version)) and ours[1] != other[1]
        ]
        if mixed or quotes:
            yield self.finding(
                evidence=(*mixed, *quotes),
                meaning="These were not built for each other: they refuse to load together, or crash.",
                fix=self._fix(case, quotes),
            )

    @staticmethod
    def _fix(case: Case, quotes: tuple[str, ...]) -> Iterator[str]:
        torch = framework(case.machine, "torch")
        said = [match[1] or match[2] for message in case.messages if (match := _TORCH_CUDA.search(message.text))]
        cuda = (value_of(torch.cuda) if torch else None) or next(iter(said), None)
        if any("mismatches the version" in quote for quote in quotes):
            wanted = major_minor(cuda) if cuda else "X.Y"
            yield f"export CUDA_HOME=/usr/local/cuda-{wanted}   # a toolkit of torch's CUDA; then compile again"
            return
        tag = f"cu{major_minor(cuda).replace('.', '')}" if cuda else "cuXYZ"
        index = f"--index-url https://download.pytorch.org/whl/{tag}"
        yield f"pip install --force-reinstall torch torchvision torchaudio {index}"
        yield "Then reinstall the compiled extensions (flash-attn, xformers, …), so that they are built for this torch."


class ToolkitLacksArchitecture(MessageRule):
    """The CUDA toolkit here cannot compile for this card.

    **Why it matters.** Each architecture has a first toolkit that knows it (Ampere 8.0: CUDA 11.0; GeForce 30, 8.6: 11.1;
    Ada and Hopper: 11.8; Blackwell: 12.8) and, once dropped, a last one (Maxwell, Pascal, Volta: 12.9). With any other
    nvcc, compiling an extension fails: "Unsupported gpu architecture 'compute_86'". Programs that bring their own CUDA,
    as torch's wheels do, are not affected.

    **What to do.** Install a toolkit between the first and the last for this card and put it first on PATH, or point
    CUDA_HOME at it; or leave the card's architecture out of TORCH_CUDA_ARCH_LIST where it is not needed.

    **Sources.** NVIDIA's CUDA toolkit release notes, 11.0 to 13.2.
    """

    code = "toolkit-arch"
    severity = "warning"
    title = "The CUDA toolkit cannot compile for this card"
    patterns = (
        r"Unsupported gpu architecture '(?:compute|sm)_\d+'",
        r"Value '(?:compute|sm)_\d+' is not defined for option",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        nvcc = value_of(case.machine.toolkits.nvcc)
        lacking = [card for card in nvidia_cards(case.machine) if nvcc and not _compiles_for(nvcc, card)]
        quotes = self.quotes(case)
        if lacking or quotes:
            first, last = _toolkits_for(lacking[0]) if lacking else (None, None)
            wanted = f"CUDA {first or 'any'} to {last or 'the newest'}"
            wanted = wanted if lacking else "a CUDA that knows the architecture in the message"
            cards = describe_cards(lacking, lambda card: f": {architecture_name(card)}, {capability(card)}")
            yield self.finding(
                evidence=(*([f"nvcc is {nvcc}"] if lacking else []), *cards, *quotes),
                meaning="Extensions cannot be compiled for this card with this nvcc. Wheels that bring their own CUDA"
                " still run.",
                fix=(
                    f"Install a toolkit: {wanted}.",
                    "export CUDA_HOME=/usr/local/cuda-X.Y PATH=/usr/local/cuda-X.Y/bin:$PATH   # with its version",
                ),
            )


def _toolkits_for(card: Card) -> tuple[str | None, str | None]:
    """The first and the last toolkit that compile for a card; None: the oldest, the newest, or not known."""
    found = capability(card)
    family = architecture_of(found) if found else None
    return (family.first_cuda.get(found), family.last_cuda_for(found)) if family and found else (None, None)


def _compiles_for(nvcc: str, card: Card) -> bool:
    first, last = _toolkits_for(card)
    ours = parse_version(major_minor(nvcc))
    return not (first and ours < parse_version(first)) and not (last and ours > parse_version(last))


class ToolkitVersionDiffers(Rule):
    """The system's CUDA toolkit differs from the CUDA inside the framework; this is normal.

    **Why it matters.** It does not, for running: torch's wheels bring their own CUDA libraries, and only the driver must
    be new enough for them. nvcc and `CUDA Version` in nvidia-smi (the newest CUDA that the driver serves) are three
    different things that often show three different numbers. It matters only when an extension is compiled: then nvcc
    should be of torch's CUDA major version.

    **What to do.** Nothing. To compile an extension: point CUDA_HOME at a toolkit of the same major version.

    **Sources.** NVIDIA's CUDA compatibility guide; torch/utils/cpp_extension.py.
    """

    code = "toolkit-diff"
    severity = "note"
    title = "The CUDA toolkit differs from the framework's CUDA, which is harmless"

    def check(self, case: Case) -> Iterable[Finding]:
        nvcc = value_of(case.machine.toolkits.nvcc)
        torch = framework(case.machine, "torch")
        cuda = value_of(torch.cuda) if torch else None
        if not nvcc or not cuda or not re.match(r"\d", nvcc) or major_minor(nvcc) == major_minor(cuda):
            return
        same_major = parse_version(nvcc)[0] == parse_version(cuda)[0]
        yield self.finding(
            evidence=[f"nvcc is {nvcc}; torch brings CUDA {cuda}"],
            meaning="The wheel brings its own CUDA libraries, so programs run. "
            + (
                "For compiling extensions its major version fits as well."
                if same_major
                else "Only compiling an extension needs an nvcc of torch's CUDA major version."
            ),
            fix=["Nothing to do."]
            if same_major
            else [f"Nothing to do; to compile an extension: export CUDA_HOME=/usr/local/cuda-{major_minor(cuda)}"],
        )


class PtxTooNew(MessageRule):
    """A program's PTX was made by a newer CUDA toolkit than this driver can compile.

    **Why it matters.** Machine code of any CUDA 12.x (13.x) runs on every driver of its family. PTX does not: the driver
    compiles it, and knows only what its own CUDA version knows. A kernel that was just compiled here (Triton, Numba, an
    extension built with a newer nvcc, a wheel with PTX alone for this card) then fails: "the provided PTX was compiled
    with an unsupported toolchain" (222).

    **What to do.** Update the driver to the one of that toolkit, or compile with a toolkit that is no newer than the
    `CUDA Version` that nvidia-smi shows; or install a build with machine code for the card.

    **Sources.** NVIDIA's CUDA compatibility guide, "minor version compatibility" and its limits.
    """

    code = "ptx-toolchain"
    severity = "error"
    title = "PTX was made by a newer CUDA than the driver knows"
    patterns = (r"PTX was compiled with an unsupported toolchain", r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION")

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        serves = value_of(case.machine.nvidia.cuda)
        nvcc = value_of(case.machine.toolkits.nvcc)
        seen = [f"the driver serves CUDA up to {serves}"] if serves else []
        seen += [f"nvcc is {nvcc}"] if nvcc else []
        yield self.finding(
            evidence=(*quotes, *seen),
            meaning="The driver compiles PTX, and this PTX is of a CUDA version newer than its own. Machine code would run.",
            fix=(
                "Update the driver: the newest CUDA that it serves must be as new as the toolkit that made the PTX.",
                f"Or compile with CUDA {serves} or older."
                if serves
                else "Or compile with an older toolkit: nvidia-smi shows the newest that the driver knows.",
            ),
        )


class HostCompilerTooNew(MessageRule):
    """The C++ compiler is newer than this nvcc allows.

    **Why it matters.** Each nvcc knows C++ compilers up to a version; with a newer one, building an extension stops:
    "unsupported GNU version! gcc versions later than 12 are not supported".

    **What to do.** Let nvcc use an older compiler, or install a newer toolkit. `-allow-unsupported-compiler` builds too,
    at one's own risk.

    **Sources.** NVIDIA CUDA installation guide for Linux, host compiler support.
    """

    code = "compiler-new"
    severity = "error"
    title = "The C++ compiler is too new for this nvcc"
    patterns = (
        r"unsupported GNU version! gcc versions later than (?P<gcc>\d+)",
        r"unsupported clang version! clang version must be",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        newest = next((match["gcc"] for _, match in self.matches(case) if match["gcc"]), None)
        version = newest or "N"
        yield self.finding(
            evidence=quotes,
            meaning="nvcc refuses a compiler that it was not tested with; nothing is wrong with the card or the driver.",
            fix=(
                f"export CC=gcc-{version} CXX=g++-{version} NVCC_PREPEND_FLAGS='-ccbin g++-{version}'   # after installing them",
                "Or install a newer CUDA toolkit.",
            ),
        )
