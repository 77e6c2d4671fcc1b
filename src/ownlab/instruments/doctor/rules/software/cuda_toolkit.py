"""Rules about compiling for CUDA: the toolkit (nvcc), its host compiler, PTX, and extensions built for torch."""

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
    package_version,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import MessageRule, Rule
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card
from ownlab.text import text

__all__ = [
    "CudaVersionMismatch",
    "HostCompilerTooNew",
    "PtxTooNew",
    "ToolkitLacksArchitecture",
    "ToolkitVersionDiffers",
]

# The variant of a wheel; other local versions (a commit, NVIDIA's own builds) do not name a CUDA version.
_VARIANT = re.compile(r"\+(cu\d+|cpu|rocm[\d.]+|xpu)$")
# torch's CUDA version in the messages.
_TORCH_CUDA = re.compile(r"compile\s+PyTorch \(([\d.]+)\)|PyTorch has CUDA Version=([\d.]+)")


class CudaVersionMismatch(MessageRule):
    """Packages that must be built with the same CUDA or the same torch are not.

    **Why it matters.** torch, torchvision, torchaudio and every compiled extension share memory layouts and CUDA
    libraries. If they are built against different CUDA major versions or different torch releases, they do not load
    together ("compiled with different CUDA major versions", "undefined symbol", "operator torchvision::nms does not
    exist"). Compiling an extension needs an nvcc with the same CUDA major version as torch.

    **What to do.** Install torch, torchvision and torchaudio in one command from one index, and reinstall extensions after
    torch changes. To compile an extension, point CUDA_HOME at a toolkit with torch's CUDA major version.

    **Sources.** torch/utils/cpp_extension.py and torchvision/extension.py (the messages).
    """

    code = "cuda-mismatch"
    severity = "error"
    title = text("Packages built with different CUDA or torch versions are mixed")
    patterns = (
        r"detected CUDA version \([\d.]+\) mismatches the version that was used to compile",
        r"compiled with different\s+CUDA (?:major )?versions",
        r"does not match the version torch was compiled with|CUDA_MISMATCH_MESSAGE|CUDAMismatchException",
        r"operator torchvision::\w+ does not exist",
        r"No such operator torchvision::",
        r"Couldn't load custom C\+\+ ops",
        r"undefined symbol: \S*(?:c10|torch|THP|at\d+_ops|_ZNK?2at\d)\S*",
        r"DLL load failed while importing (?:\w+_cuda|_C\w*|\w*_ext\w*): The specified procedure",
    )
    _COMPANIONS = ("torchvision", "torchaudio")

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        torch = package_version(case.machine, "torch") or ""
        companions = [(name, package_version(case.machine, name) or "") for name in self._COMPANIONS]
        mixed = [
            text("{package} {version} is installed with torch {torch}", package=name, version=version, torch=torch)
            for name, version in companions
            if (ours := _VARIANT.search(torch)) and (other := _VARIANT.search(version)) and ours[1] != other[1]
        ]
        if mixed or quotes:
            yield self.finding(
                evidence=(*mixed, *quotes),
                meaning=text("These packages were not built for each other: they do not load together, or crash."),
                fix=self._fix(case, quotes),
            )

    @staticmethod
    def _fix(case: Case, quotes: tuple[str, ...]) -> Iterator[str]:
        torch = framework(case.machine, "torch")
        in_messages = [match[1] or match[2] for message in case.messages if (match := _TORCH_CUDA.search(message.text))]
        cuda = (value_of(torch.cuda) if torch else None) or next(iter(in_messages), None)
        if any("mismatches the version" in quote or "does not match the version" in quote for quote in quotes):
            yield text(
                "export CUDA_HOME=/usr/local/cuda-{cuda}   # a toolkit with torch's CUDA; then compile again",
                cuda=major_minor(cuda) if cuda else "X.Y",
            )
            return
        version = package_version(case.machine, "torch") or ""
        variant = _VARIANT.search(version)
        tag = variant[1] if variant else f"cu{major_minor(cuda).replace('.', '')}" if cuda else "cuXYZ"
        index = f"--index-url https://download.pytorch.org/whl/{tag}"
        if any("undefined symbol" in quote or "DLL load failed" in quote for quote in quotes):
            yield text(
                "Reinstall the extension that fails, so that it is built for the installed torch: pip uninstall -y EXTENSION;"
                " pip install --no-build-isolation --no-cache-dir EXTENSION   # or a release whose wheel is for this torch"
            )
            yield text(
                "If torchvision or torchaudio fails: pip install --force-reinstall torch torchvision torchaudio {index}"
                "   # not in an image or on an accelerator that brings its own torch",
                index=index,
            )
            return
        if any("torchvision" in quote for quote in quotes):
            yield text(
                "Keep torch, and install the torchvision that belongs to it (torch 2.M: torchvision 0.(M+15), 2.6: 0.21):"
                " pip install --force-reinstall --no-deps torchvision==VERSION {index}   # cpu for a CPU build or an NPU",
                index=index,
            )
        yield text(
            "Or all together: pip install --force-reinstall torch torchvision torchaudio {index}; then reinstall compiled"
            " extensions (flash-attn, xformers, …).",
            index=index,
        )


class ToolkitLacksArchitecture(MessageRule):
    """The installed CUDA toolkit cannot compile for this card.

    **Why it matters.** Each architecture has a first toolkit that supports it (Ampere 8.0: CUDA 11.0; GeForce 30, 8.6:
    11.1; Ada and Hopper: 11.8; Blackwell: 12.8) and, once it is dropped, a last one (Maxwell, Pascal, Volta: 12.9). With
    any other nvcc, compiling an extension fails: "Unsupported gpu architecture 'compute_86'". Programs that include their
    own CUDA, such as torch's wheels, are not affected.

    **What to do.** Install a toolkit between the first and the last for this card and put it first on PATH, or point
    CUDA_HOME at it; or leave the card's architecture out of TORCH_CUDA_ARCH_LIST if it is not needed.

    **Sources.** NVIDIA's CUDA toolkit release notes, 11.0 to 13.2.
    """

    code = "toolkit-arch"
    severity = "warning"
    title = text("The CUDA toolkit cannot compile for this card")
    patterns = (
        r"Unsupported gpu architecture '(?:compute|sm)_\d+",
        r"Value '(?:compute|sm)_\d+' is not defined for option",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        nvcc = value_of(case.machine.toolkits.nvcc)
        unsupported = [card for card in nvidia_cards(case.machine) if nvcc and not _compiles_for(nvcc, card)]
        quotes = self.quotes(case)
        if unsupported or quotes:
            yield self.finding(
                evidence=(
                    *([text("nvcc is {version}", version=nvcc)] if unsupported else []),
                    *describe_cards(unsupported, lambda card: f"{architecture_name(card)}, {capability(card)}"),
                    *quotes,
                ),
                title=None
                if unsupported
                else text("This nvcc does not know an architecture for which it should compile"),
                meaning=text(
                    "This nvcc cannot compile extensions for this card. Wheels that include their own CUDA still run."
                )
                if unsupported
                else text(
                    "The build asks for an architecture that is newer than this toolkit, or that the toolkit no longer has. Whether it is the card's own, the message does not show: many projects list all architectures that they know."
                ),
                fix=(
                    *(
                        ()
                        if unsupported
                        else (
                            text(
                                "nvidia-smi --query-gpu=name,compute_cap --format=csv   # another number than in the message: leave that architecture out (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES), or take the project's release for this toolkit"
                            ),
                        )
                    ),
                    _install_toolkit(capability(unsupported[0])) if unsupported else self._toolkit_in_message(quotes),
                    text(
                        "export CUDA_HOME=/usr/local/cuda-X.Y PATH=/usr/local/cuda-X.Y/bin:$PATH   # with its version"
                    ),
                    text(
                        "Or compile for what this nvcc knows: export TORCH_CUDA_ARCH_LIST='8.0+PTX'   # an older architecture of the card's family"
                    ),
                ),
                severity="error" if quotes else None,
            )

    @staticmethod
    def _toolkit_in_message(quotes: tuple[str, ...]) -> str:
        """Name the toolkits for the architecture in the message: compute_86 needs CUDA 11.1."""
        number = next((match for line in quotes if (match := re.search(r"(?:compute|sm)_(\d+)(\d)", line))), None)
        return _install_toolkit(f"{number[1]}.{number[2]}" if number else None)


def _install_toolkit(number: str | None) -> str:
    first, last = _toolkits_for(number)
    if first and last:
        return text("Install a toolkit: CUDA {first} to {last}.", first=first, last=last)
    if first:
        return text("Install a toolkit: CUDA {first} or newer.", first=first)
    if last:
        return text("Install a toolkit: CUDA {last} or older.", last=last)
    return text("Install another CUDA toolkit.")


def _toolkits_for(number: str | None) -> tuple[str | None, str | None]:
    """Return the first and last toolkit that compile for a compute capability; None: no limit, or unknown."""
    family = architecture_of(number) if number else None
    return (family.first_cuda.get(number), family.last_cuda_for(number)) if family and number else (None, None)


def _compiles_for(nvcc: str, card: Card) -> bool:
    first, last = _toolkits_for(capability(card))
    ours = parse_version(major_minor(nvcc))
    return not (first and ours < parse_version(first)) and not (last and ours > parse_version(last))


class ToolkitVersionDiffers(Rule):
    """The system's CUDA toolkit differs from the CUDA inside the framework; this is normal.

    **Why it matters.** It does not matter for running programs: torch's wheels include their own CUDA libraries, and only
    the driver must be new enough for them. nvcc, torch's CUDA and the `CUDA Version` in nvidia-smi (the newest CUDA that
    the driver supports) are three different things that often show three different numbers. It matters only when an
    extension is compiled: then nvcc should have torch's CUDA major version.

    **What to do.** Nothing. To compile an extension: point CUDA_HOME at a toolkit with the same major version.

    **Sources.** NVIDIA's CUDA compatibility guide; torch/utils/cpp_extension.py.
    """

    code = "toolkit-diff"
    severity = "note"
    title = text("The CUDA toolkit differs from the framework's CUDA, which is harmless")

    def check(self, case: Case) -> Iterable[Finding]:
        nvcc = value_of(case.machine.toolkits.nvcc)
        torch = framework(case.machine, "torch")
        cuda = value_of(torch.cuda) if torch else None
        if not nvcc or not cuda or not re.match(r"\d", nvcc) or major_minor(nvcc) == major_minor(cuda):
            return
        same_major = parse_version(nvcc)[0] == parse_version(cuda)[0]
        yield self.finding(
            evidence=[text("nvcc is {nvcc}; torch includes CUDA {cuda}", nvcc=nvcc, cuda=cuda)],
            meaning=text(
                "The wheel includes its own CUDA libraries, so programs run. nvcc's major version also fits for compiling"
                " extensions."
            )
            if same_major
            else text(
                "The wheel includes its own CUDA libraries, so programs run. Only compiling an extension needs an nvcc with"
                " torch's CUDA major version."
            ),
            fix=[
                text("Nothing to do.")
                if same_major
                else text(
                    "Nothing to do; to compile an extension: export CUDA_HOME=/usr/local/cuda-{cuda}",
                    cuda=major_minor(cuda),
                )
            ],
        )


class HostCompilerTooNew(MessageRule):
    """The C++ compiler is newer than this nvcc supports.

    **Why it matters.** Each nvcc supports C++ compilers up to a certain version; with a newer one, building an extension
    stops: "unsupported GNU version! gcc versions later than 12 are not supported".

    **What to do.** Let nvcc use an older compiler, or install a newer toolkit. `-allow-unsupported-compiler` also builds,
    at your own risk.

    **Sources.** NVIDIA CUDA installation guide for Linux, host compiler support.
    """

    code = "compiler-new"
    severity = "error"
    title = text("The C++ compiler is too new for this nvcc")
    patterns = (
        r"unsupported GNU version! gcc versions later than (?P<gcc>\d+)",
        r"unsupported clang version! clang version must be|version of (?:g\+\+|gcc|clang) \([\d.]+\) is greater than the maximum required version",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        newest = next((match["gcc"] for _, match in self.matches(case) if match["gcc"]), None)
        yield self.finding(
            evidence=quotes,
            meaning=text(
                "nvcc refuses a compiler that it was not tested with. The card and the driver are not at fault."
            ),
            fix=(
                text(
                    "export CC=gcc-{version} CXX=g++-{version} NVCC_PREPEND_FLAGS='-ccbin g++-{version}'"
                    "   # after installing them",
                    version=newest or "N",
                ),
                text("Or install a newer CUDA toolkit."),
            ),
        )


class PtxTooNew(MessageRule):
    """A program's PTX was made by a newer CUDA toolkit than this driver supports.

    **Why it matters.** Machine code of any CUDA 12.x (13.x) runs on every driver of its major version. PTX does not: the
    driver compiles it, and supports only PTX of its own CUDA version or older. A kernel that was just compiled (by Triton,
    Numba, an extension built with a newer nvcc, or from a wheel that has only PTX for this card) then fails: "the provided
    PTX was compiled with an unsupported toolchain" (222).

    **What to do.** Update the driver to that of the toolkit, or compile with a toolkit that is not newer than the `CUDA
    Version` in nvidia-smi; or install a build with machine code for the card.

    **Sources.** NVIDIA's CUDA compatibility guide, "minor version compatibility" and its limits.
    """

    code = "ptx-toolchain"
    severity = "error"
    title = text("The PTX was made by a newer CUDA than the driver supports")
    patterns = (
        r"PTX was compiled with an unsupported toolchain",
        r"CUDA_ERROR_(?:UNSUPPORTED_PTX_VERSION|INVALID_PTX)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        quotes = self.quotes(case)
        if not quotes:
            return
        newest = value_of(case.machine.nvidia.cuda)
        nvcc = value_of(case.machine.toolkits.nvcc)
        evidence: list[str] = list(quotes)
        if newest:
            evidence.append(text("the driver supports CUDA up to {version}", version=newest))
        if nvcc:
            evidence.append(text("nvcc is {version}", version=nvcc))
        yield self.finding(
            evidence=evidence,
            meaning=text(
                "The driver compiles PTX, and this PTX is for a newer CUDA version than the driver's. Machine code would run."
            ),
            fix=(
                text("Update the driver: it must support the CUDA version of the toolkit that made the PTX."),
                text("Or compile with CUDA {version} or older.", version=newest)
                if newest
                else text("Or compile with an older toolkit: nvidia-smi shows the newest that the driver supports."),
            ),
        )
