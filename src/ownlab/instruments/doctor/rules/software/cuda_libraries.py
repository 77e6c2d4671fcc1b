"""Rules on CUDA's and cuDNN's shared libraries: not found, or found in the wrong version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.cuda import cuda_majors, library_names, library_wheel
from ownlab.catalog.frameworks import cudnn_of_torch, cudnn_wheel, tensorflow_build, tensorflow_windows_last
from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.queries import (
    any_framework_works,
    container_kind,
    describe_fact,
    framework,
    framework_name,
    has_accelerator,
    is_wsl,
    join,
    package,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import driver_remedy, torch_command
from ownlab.instruments.doctor.rule import MessageRule, quote
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import LibraryInstall, Machine

__all__ = ["CudaLibraryMissing", "CudnnMissing", "ShadowedCudnn"]

_DRIVERS = ("libcuda.so", "nvcuda.dll")
_NAMES = "|".join(library_names())
_LIBRARY = rf"(?:lib(?:cuda|{_NAMES})\.so[.\d]*|(?:nvcuda|(?:{_NAMES})64_\d+)\.dll)"
_CUDNN = r"(?:libcudnn\w*\.so[.\d]*|cudnn\w*\.dll)"
# A program that says so went on without the GPU, or ended.
_GAVE_UP = re.compile(r"ImportError|OSError|Cannot dlopen some GPU libraries|Skipping registering GPU|Aborted")
# NVIDIA's wheels lie where Python finds them and the loader does not.
_ADD_WHEELS_TO_PATH = (
    "export LD_LIBRARY_PATH=$(python -c 'import glob, nvidia; "
    'print(*glob.glob(list(nvidia.__path__)[0] + "/*/lib"), sep=":")\'):$LD_LIBRARY_PATH'
)


def _without(library: str) -> tuple[str, ...]:
    """How loaders and frameworks say that they do not find a library."""
    return (
        rf"{library}: cannot open shared object file",
        rf"Could not load dynamic library '{library}'",
        rf"Couldn't open CUDA library {library}",
        rf"Could not (?:locate|find) (?:library )?{library}",
    )


class _MissingLibraryRule(MessageRule):
    """A rule that knows a library is missing by the loader's words."""

    library: str  # its regular expression

    def missing(self, case: Case) -> dict[str, str]:
        """Each library that is missing, with the line that says so."""
        # The library that the loader itself names comes first: 'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot …
        named = re.compile(rf"({self.library}): cannot open shared|({self.library})", re.IGNORECASE)
        found: dict[str, str] = {}
        for message in case.messages:
            for match in re.finditer("|".join(self.patterns), message.text, re.IGNORECASE):
                line = quote(message, match)
                names = named.findall(line)
                first = next((loader for loader, _ in names if loader), None) or next((any_ for _, any_ in names), None)
                if first:
                    found.setdefault(first, line)
        return found

    @staticmethod
    def blocks_here(case: Case) -> bool:
        """Whether the program gave the GPU up, and no other framework reaches it."""
        gave_up = any(_GAVE_UP.search(message.text) for message in case.messages)
        return gave_up and not any_framework_works(case.machine)


def _harmless(machine: Machine) -> bool:
    """TensorFlow's CUDA build lists what it misses on machines without a card too, and computes on the CPU."""
    return machine.origin == "live" and isinstance(machine.cards, Known) and not has_accelerator(machine)


class CudaLibraryMissing(_MissingLibraryRule):
    """A program cannot find one of CUDA's shared libraries.

    **Why it matters.** A program built for CUDA 11 asks for `libcudart.so.11.0` by that name; a CUDA 12 beside it does
    not help. torch's wheels bring their own copies, which other programs do not see. `libcuda.so.1` is different: it is
    the driver's, comes with no toolkit and no wheel, and is absent where there is no driver (as in `docker build`).

    **What to do.** Best: install the program in its build for the CUDA that is here. Else bring the library it asks for,
    from NVIDIA's wheels, and put their folder on LD_LIBRARY_PATH. For `libcuda.so.1`: the driver, or `--gpus all`.

    **Sources.** ld.so(8); tensorflow, tsl/platform/default/dso_loader.cc; PyPI, nvidia-cuda-runtime-cu11 and its kin.
    """

    code = "library-missing"
    severity = "error"
    title = "One of CUDA's libraries is not found"
    library = _LIBRARY
    patterns = _without(_LIBRARY)

    def check(self, case: Case) -> Iterable[Finding]:
        if _harmless(case.machine):
            return
        found = self.missing(case)
        drivers = {name: line for name, line in found.items() if name.startswith(_DRIVERS)}
        others = {name: line for name, line in found.items() if name not in drivers}
        if drivers:
            yield self.finding(
                title=f"The driver's library {next(iter(drivers))} is not found",
                evidence=drivers.values(),
                meaning="This library comes with NVIDIA's driver, not with a toolkit or a wheel. Either there is no driver"
                " here, or a container was started without the card.",
                fix=self._reach_the_driver(case.machine),
                blocks=self.blocks_here(case),
            )
        if others:
            torch = framework(case.machine, "torch")
            cuda = parse_version((value_of(torch.cuda) if torch else None) or "")
            built = _built_for(others, cuda[0] if cuda else None)
            yield self.finding(
                title=f"{join(others)} {'is' if len(others) == 1 else 'are'} not found",
                evidence=others.values(),
                meaning=f"The loader finds no library of this very name{self._whose(built)}. Another version does not"
                " stand in for it.",
                fix=self._bring(case.machine, built, cuda[0] if cuda else None),
                blocks=self.blocks_here(case),
            )

    @staticmethod
    def _reach_the_driver(machine: Machine) -> Iterable[str]:
        if is_wsl(machine):
            return ("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH", *driver_remedy(machine))
        if container_kind(machine):
            return ("Start the container with the card: docker run --gpus all …",)
        return (
            "In a container: start it with the card, docker run --gpus all …; docker build never has one.",
            *driver_remedy(machine),
        )

    @staticmethod
    def _whose(built: dict[str, tuple[int, ...]]) -> str:
        """Which CUDA the program was built for, as far as the names tell."""
        sure = sorted({majors[0] for majors in built.values() if len(majors) == 1})
        if sure:
            return f", so this program was built for CUDA {join(map(str, sure))}"
        several = sorted({major for majors in built.values() for major in majors})
        return f", which is the same in CUDA {join(map(str, several))}" if several else ""

    @staticmethod
    def _bring(machine: Machine, built: dict[str, tuple[int, ...]], ours: int | None) -> Iterator[str]:
        torch = framework(machine, "torch")
        if torch is not None and torch.failure and (command := torch_command(machine)):
            yield command
        if ours and any(built.values()) and not any(ours in majors for majors in built.values()):
            yield f"Install the program in its build for CUDA {ours}, which torch brings here."
        # Where the name leaves several open: the newest, which is the likeliest.
        chosen = {name: majors[-1] if majors else ours for name, majors in built.items()}
        wheels = dict.fromkeys(
            wheel for name, major in chosen.items() if major and (wheel := library_wheel(name, major))
        )
        majors = sorted({major for major in chosen.values() if major})
        if wheels:
            unsure = any(len(majors) > 1 for majors in built.values())
            another = f"   # for CUDA {majors[-1]}; take the program's own, if that is another" if unsure else ""
            yield f"pip install {' '.join(wheels)}{another}"
            yield _ADD_WHEELS_TO_PATH
        elif majors and majors[-1] < 11:
            yield f"CUDA {majors[-1]} has no wheels of NVIDIA's: install that toolkit, or a newer build of the program."
        else:
            yield "Find it: ldconfig -p | grep -E 'libcu|libnv'; then put its folder on LD_LIBRARY_PATH."


def _built_for(names: Iterable[str], torch: int | None) -> dict[str, tuple[int, ...]]:
    """Each library with the CUDA majors that have one of this name, fewer where the others or torch's CUDA tell."""
    found = {name: cuda_majors(name) for name in names}
    sure = {majors[0] for majors in found.values() if len(majors) == 1}
    for hint in (sure, {torch}):
        found = {name: tuple(one for one in majors if one in hint) or majors for name, majors in found.items()}
    return found


class CudnnMissing(_MissingLibraryRule):
    """A program cannot find cuDNN, the library of neural-network kernels.

    **Why it matters.** cuDNN is no part of the CUDA toolkit. torch's wheels bring theirs; TensorFlow before 2.14,
    CTranslate2 and ONNX Runtime look for one in the system. They want its major version exactly: 8 does not stand in for
    9. TensorFlow then computes on the CPU; others abort.

    **What to do.** TensorFlow 2.14 and newer: `tensorflow[and-cuda]`. Else install the cuDNN that the program asks for,
    from NVIDIA's wheel, and put its folder on LD_LIBRARY_PATH.

    **Sources.** tensorflow.org/install/source (tested builds); OpenNMT/CTranslate2#1826; NVIDIA's cuDNN support matrix.
    """

    code = "cudnn-missing"
    severity = "error"
    title = "cuDNN is not found"
    library = _CUDNN
    patterns = (
        *_without(_CUDNN),
        r"Unable to load any of \{libcudnn",
        r"DNN library is not found",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        if _harmless(case.machine):
            return
        quotes = dict.fromkeys((*self.missing(case).values(), *self.quotes(case)))
        unnamed = (
            []
            if quotes or CudaLibraryMissing().missing(case)
            else _quote_lines("Cannot dlopen some GPU libraries", case)
        )
        if not quotes and not unnamed:
            return
        asked = next((match[1] for line in quotes if (match := re.search(r"libcudnn\w*\.so\.(\d+)", line))), None)
        yield self.finding(
            title="TensorFlow cannot load all of CUDA's libraries" if unnamed else None,
            evidence=(*quotes, *unnamed, *self._versions(case.machine)),
            meaning="TensorFlow does not say which library it misses; mostly it is cuDNN."
            if unnamed
            else f"The loader finds no cuDNN {asked or ''}".rstrip()
            + "; another major version does not stand in for it.",
            fix=self._fix(case.machine, asked, bool(unnamed)),
            blocks=not any_framework_works(case.machine),
        )

    @staticmethod
    def _versions(machine: Machine) -> Iterator[str]:
        version = _tensorflow_version(machine)
        build = tensorflow_build(version) if version else None
        if build:
            yield f"TensorFlow {version} was built with CUDA {build.cuda} and cuDNN {build.cudnn}"

    @staticmethod
    def _fix(machine: Machine, asked: str | None, tensorflow: bool) -> Iterator[str]:
        version = _tensorflow_version(machine)
        build = tensorflow_build(version) if version else None
        windows = value_of(machine.host.family) == "windows"
        if windows and version and parse_version(version) > (*parse_version(tensorflow_windows_last()), 99):
            yield "On Windows itself TensorFlow uses no GPU since 2.11: run it in WSL2."
        elif build and parse_version(build.version) >= (2, 14):
            yield f"pip install 'tensorflow[and-cuda]=={build.version}.*'"
        elif build and (wheel := cudnn_wheel(build.cudnn, parse_version(build.cuda)[0])):
            # A newer cuDNN of the same major stands in for the one that TensorFlow was built with.
            yield f"pip install '{wheel}'"
            yield _ADD_WHEELS_TO_PATH
        elif build:
            yield f"conda install -c conda-forge cudatoolkit={build.cuda} cudnn={build.cudnn}"
        elif tensorflow:
            yield "pip install 'tensorflow[and-cuda]'   # TensorFlow 2.14 or newer"
        else:
            yield from _cudnn_for_words(machine, asked)
            if package(machine, "ctranslate2"):
                yield "Or a CTranslate2 for the cuDNN that is here: 4.5 and newer want cuDNN 9, 4.4 wants 8."


def _cudnn_for_words(machine: Machine, asked: str | None) -> Iterator[str]:
    """The wheel of the cuDNN that the loader asked for: for torch's CUDA, or for one that has a wheel of it."""
    torch = framework(machine, "torch")
    ours = parse_version((value_of(torch.cuda) if torch else None) or "")[:1]
    for major in (*ours, 12, 11):
        wheel = cudnn_wheel(asked, major) if asked else f"nvidia-cudnn-cu{major}"
        if wheel:
            yield f"pip install '{wheel}'   # for CUDA {major}"
            yield _ADD_WHEELS_TO_PATH
            return
    yield f"cuDNN {asked} has no wheel of NVIDIA's: take a newer release of the program, or the image that it was made for."


def _tensorflow_version(machine: Machine) -> str | None:
    one = framework(machine, "tensorflow")
    return (value_of(one.version) if one else None) or package(machine, "tensorflow")


def _quote_lines(sign: str, case: Case) -> list[str]:
    return [quote(message, match) for message in case.messages if (match := re.search(sign, message.text))]


class ShadowedCudnn(MessageRule):
    """A cuDNN of another version stands in front of the one that the framework was built with.

    **Why it matters.** LD_LIBRARY_PATH (or an old copy among the system's libraries) is searched before the framework's
    own folder. cuDNN is a family of libraries that must all be of one version: a mixture ends in undefined symbols,
    `CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH`, or in a framework that refuses the older one. torch's wheels from 2.4 on
    look into their own folder first, yet other libraries in the same process may still load the wrong one.

    **What to do.** Start Python without LD_LIBRARY_PATH, or take the folder of that cuDNN out of it. Where two packages
    want different cuDNN versions, bring them to releases that want the same.

    **Sources.** pytorch/pytorch#119989; OpenNMT/CTranslate2#1826; tensorflow/tensorflow#60913;
    torch/backends/cudnn/__init__.py.
    """

    code = "cudnn-shadow"
    severity = "error"
    title = "A cuDNN of another version is in front of the framework's own"
    blocks = True
    patterns = (
        r"libcudnn\S*:\s+undefined symbol",
        r"libcudnn\S*: symbol \S+, version \S+ not defined",
        r"cuDNN version incompatibility",
        r"Loaded runtime CuDNN library: [\d.]+ .*but source was compiled with",
        r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = self.quotes(case)
        strays = list(self._strays(machine))
        if not quotes and not strays:
            return
        path = variable(machine, "LD_LIBRARY_PATH")
        torch = framework(machine, "torch")
        blocks = bool(quotes) and not any_framework_works(machine)
        folders = dict.fromkeys(one.path.rpartition("/")[0] for one in strays)
        yield self.finding(
            title=None if quotes else "LD_LIBRARY_PATH has a cuDNN of another version than torch's",
            evidence=(
                *quotes,
                *(f"{describe_fact(one.path + ': cuDNN', one.version)}, on LD_LIBRARY_PATH" for one in strays),
                *([f"{framework_name(torch)} wants cuDNN {_wanted(machine)}"] if torch and strays else []),
                *([f"LD_LIBRARY_PATH={path}"] if path and quotes and not strays else []),
            ),
            meaning="Libraries of two cuDNN versions meet in one process."
            if quotes
            else "A library that asks for cuDNN by name gets this copy before the framework's own. No program was seen to"
            " fail yet.",
            fix=(
                "env -u LD_LIBRARY_PATH python …   # to try it",
                f"Take {join(folders) or 'the folder with that cuDNN'} out of LD_LIBRARY_PATH.",
                *self._other_fixes(case, quotes),
            ),
            severity="error" if quotes else "warning",
            blocks=blocks,
        )

    @staticmethod
    def _other_fixes(case: Case, quotes: tuple[str, ...]) -> Iterator[str]:
        for line in quotes:
            versions = re.search(r"Loaded runtime CuDNN library: [\d.]+ .*compiled with: ([\d.]+\d)", line)
            if versions:
                yield f"Or bring a cuDNN as new as the program's: pip install -U 'nvidia-cudnn-cu12>={versions[1]}'"
                return
        if package(case.machine, "ctranslate2"):
            yield "CTranslate2 4.5 and newer want cuDNN 9, 4.4 wants 8: choose the one that fits torch's."

    @staticmethod
    def _strays(machine: Machine) -> Iterator[LibraryInstall]:
        """Copies on LD_LIBRARY_PATH that cannot do torch's work: of another major version, or older."""
        wanted = parse_version(_wanted(machine) or "")
        for one in value_of(machine.toolkits.cudnn) or ():
            found = parse_version(value_of(one.version) or "")
            if (
                one.origin == "LD_LIBRARY_PATH"
                and wanted
                and found
                and not (wanted[:2] <= found[:2] < (wanted[0] + 1,))
            ):
                yield one


def _wanted(machine: Machine) -> str | None:
    """The cuDNN that torch was built with: what it says itself may be the one that shadows it."""
    torch = framework(machine, "torch")
    version, cuda = (value_of(torch.version), value_of(torch.cuda)) if torch else (None, None)
    official = version is not None and ("+" not in version or "+cu" in version)
    built = cudnn_of_torch(version, cuda) if version and official and cuda else None
    loaded = value_of(torch.cudnn) if torch else None
    return major_minor(built or loaded or "") or None
