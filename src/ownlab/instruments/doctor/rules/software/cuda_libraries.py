"""Rules about the shared libraries of CUDA and cuDNN: not found, or found in the wrong version."""

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
    package_version,
    variable,
)
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import driver_remedy, torch_command
from ownlab.instruments.doctor.rule import MessageRule, quote
from ownlab.instruments.doctor.rules.software.cudnn_versions import names_newer_cudnn
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import LibraryInstall, Machine
from ownlab.text import listing, plural, sentences, text

__all__ = ["CudaLibraryMissing", "CudnnMissing", "ShadowedCudnn"]

_DRIVERS = ("libcuda.so", "nvcuda.dll")
_NAMES = "|".join(library_names())
_LIBRARY = rf"(?:lib(?:cuda|{_NAMES})\.so[.\d]*|(?:nvcuda|(?:{_NAMES})64_\d+)\.dll)"
_CUDNN = r"(?:libcudnn\w*\.so[.\d]*|cudnn\w*\.dll)"
# A program that prints this continues without the GPU, or ends.
_GAVE_UP = re.compile(r"ImportError|OSError|Cannot dlopen some GPU libraries|Skipping registering GPU|Aborted")
# Python finds the libraries of NVIDIA's wheels, the dynamic loader does not.
_ADD_WHEELS_TO_PATH = (
    "export LD_LIBRARY_PATH=$(python -c 'import glob, nvidia; "
    'print(*glob.glob(list(nvidia.__path__)[0] + "/*/lib"), sep=":")\'):$LD_LIBRARY_PATH'
)


def _not_found_messages(library: str) -> tuple[str, ...]:
    """Return patterns of the messages with which loaders and frameworks report a missing library."""
    return (
        rf"{library}: cannot open shared object file|error while loading shared libraries: {library}\s*(?:\n|$)",
        rf"Could not load dynamic library '{library}'",
        rf"(?:Couldn't open CUDA library|Could not (?:locate|find)(?: library)?) {library}",
        rf"Library {library} is not found or cannot be loaded",
        rf"(?:Unable to|Could not|Cannot|Failed to) (?:load|open|dlopen|find)(?: library)? ['\"(]*{library}(?![^\n]*(?:Error: lib(?!cudnn)|symbol))",
        rf"{library}['\"]?:? (?:was )?not found",
        rf"(?:Import|OS)Error: {library}\s*(?:\n|$)",
    )


class _MissingLibraryRule(MessageRule):
    """A rule that recognises a missing library by the loader's message."""

    library: str  # its regular expression

    def missing(self, case: Case) -> dict[str, str]:
        """Return each missing library with the line that reports it."""
        # The library that the loader itself names comes first: 'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot …
        named = re.compile(rf"({self.library}): cannot open shared|({self.library})", re.IGNORECASE)
        missing: dict[str, str] = {}
        # bitsandbytes lists where it looked; the rule bitsandbytes knows what is wrong.
        for message in case.messages:
            for match in re.finditer("|".join(self.patterns), message.text, re.IGNORECASE):
                line = quote(message, match)
                if "CUDA_SETUP" in line or "CUDA SETUP" in line:
                    continue
                names = named.findall(line)
                first = next((loader for loader, _ in names if loader), None) or next((any_ for _, any_ in names), None)
                if first:
                    missing.setdefault(first, line)
        return missing

    @staticmethod
    def blocks_here(case: Case) -> bool:
        """Whether the program stopped using the GPU, and no other framework works."""
        gave_up = any(_GAVE_UP.search(message.text) for message in case.messages)
        return gave_up and not any_framework_works(case.machine)


def _harmless(machine: Machine) -> bool:
    """TensorFlow's CUDA build also lists missing libraries on machines without a card, and computes on the CPU."""
    return machine.origin == "live" and isinstance(machine.cards, Known) and not has_accelerator(machine)


class CudaLibraryMissing(_MissingLibraryRule):
    """A program cannot find one of CUDA's shared libraries.

    **Why it matters.** A program built for CUDA 11 looks for `libcudart.so.11.0` by that name; an installed CUDA 12 does
    not help. torch's wheels include their own copies, which other programs do not see. `libcuda.so.1` is different: it
    belongs to the driver, no toolkit or wheel includes it, and it is missing where there is no driver (as in
    `docker build`).

    **What to do.** Best: install the program in its build for the installed CUDA. Otherwise install the library from
    NVIDIA's wheels, and add its folder to LD_LIBRARY_PATH. For `libcuda.so.1`: install the driver, or use `--gpus all`.

    **Sources.** ld.so(8); tensorflow, tsl/platform/default/dso_loader.cc; PyPI, nvidia-cuda-runtime-cu11 and its kin.
    """

    code = "library-missing"
    severity = "error"
    title = text("One of CUDA's libraries was not found")
    library = _LIBRARY
    patterns = _not_found_messages(_LIBRARY)

    def check(self, case: Case) -> Iterable[Finding]:
        if _harmless(case.machine):
            return
        missing = self.missing(case)
        drivers = {name: line for name, line in missing.items() if name.startswith(_DRIVERS)}
        others = {name: line for name, line in missing.items() if name not in drivers}
        if drivers:
            yield self.finding(
                title=text("The driver's library {library} was not found", library=next(iter(drivers))),
                evidence=drivers.values(),
                meaning=text(
                    "This library belongs to the NVIDIA driver; no toolkit or wheel includes it. Either there is no driver,"
                    " or a container was started without the card."
                ),
                fix=self._reach_driver(case.machine),
                blocks=self.blocks_here(case),
            )
        if others:
            torch = framework(case.machine, "torch")
            cuda = parse_version((value_of(torch.cuda) if torch else None) or "")
            built = _built_for(others, cuda[0] if cuda else None)
            # TensorFlow prints this on every machine without CUDA, and goes on with the CPU.
            notice = all("cudart" in name and "Could not load dynamic" in line for name, line in others.items())
            yield self.finding(
                severity="warning" if notice and not self.blocks_here(case) else None,
                title=text("TensorFlow found no {libraries}; without a GPU this is harmless", libraries=listing(others))
                if notice
                else plural(
                    len(others),
                    "{libraries} was not found",
                    "{libraries} were not found",
                    libraries=listing(others),
                ),
                evidence=others.values(),
                meaning=sentences(
                    text("The loader finds no library with exactly this name."),
                    self._cuda_of_program(built),
                    text("Another version cannot replace it."),
                ),
                fix=self._install_library(case.machine, built, cuda[0] if cuda else None),
                blocks=self.blocks_here(case),
            )

    @staticmethod
    def _reach_driver(machine: Machine) -> Iterable[str]:
        if is_wsl(machine):
            return ("export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH", *driver_remedy(machine))
        if container_kind(machine):
            return (text("Start the container with the card: docker run --gpus all …"),)
        return (
            text("In a container: start it with the card, docker run --gpus all …; docker build never has a card."),
            *driver_remedy(machine),
        )

    @staticmethod
    def _cuda_of_program(built: dict[str, tuple[int, ...]]) -> str | None:
        """Say which CUDA the program was built for, as far as the names show it."""
        certain = sorted({majors[0] for majors in built.values() if len(majors) == 1})
        if certain:
            return text("The name shows that this program was built for CUDA {versions}.", versions=listing(certain))
        possible = sorted({major for majors in built.values() for major in majors})
        return text("The name is the same in CUDA {versions}.", versions=listing(possible)) if possible else None

    @staticmethod
    def _install_library(machine: Machine, built: dict[str, tuple[int, ...]], torch_cuda: int | None) -> Iterator[str]:
        torch = framework(machine, "torch")
        if any(name.endswith(".dll") for name in built):
            yield text("Without an NVIDIA GPU, or if the program works: nothing needs to be done.")
            yield text(
                "TensorFlow on Windows (2.10 is the last with GPU support there): conda install -c conda-forge cudatoolkit=11.2"
                " cudnn=8.1.0; newer releases: use WSL2. Do not download single DLL files."
            )
            yield text("Other programs: install the CUDA toolkit of the version in the name, and open a new terminal.")
            yield text(
                "faster-whisper, CTranslate2 and others without torch: pip install nvidia-cublas-cu12 nvidia-cudnn-cu12; then the bin folders of site-packages\\nvidia on PATH."
            )
            return
        if torch is not None and torch.failure and (command := torch_command(machine)):
            yield command
        if torch_cuda and any(built.values()) and not any(torch_cuda in majors for majors in built.values()):
            yield text(
                "Install the program in its build for CUDA {version}, which torch includes here.", version=torch_cuda
            )
        # If the name fits several versions: the newest is the most likely.
        chosen = {name: majors[-1] if majors else torch_cuda for name, majors in built.items()}
        wheels = dict.fromkeys(
            wheel for name, major in chosen.items() if major and (wheel := library_wheel(name, major))
        )
        majors = sorted({major for major in chosen.values() if major})
        if wheels:
            command = f"pip install {' '.join(wheels)}"
            if any(len(majors) > 1 for majors in built.values()):
                yield text(
                    "{command}   # for CUDA {version}; change it if the program needs another",
                    command=command,
                    version=majors[-1],
                )
            else:
                yield command
            yield _ADD_WHEELS_TO_PATH
        elif majors and majors[-1] < 11:
            yield text(
                "NVIDIA has no wheels for CUDA {version}: install that toolkit, or a newer build of the program.",
                version=majors[-1],
            )
        else:
            yield text("Find it: ldconfig -p | grep -E 'libcu|libnv'; then add its folder to LD_LIBRARY_PATH.")


def _built_for(names: Iterable[str], torch_cuda: int | None) -> dict[str, tuple[int, ...]]:
    """Return the CUDA major versions that have each library; fewer if other libraries or torch's CUDA narrow them."""
    majors_of = {name: cuda_majors(name) for name in names}
    certain = {majors[0] for majors in majors_of.values() if len(majors) == 1}
    for hint in (certain, {torch_cuda}):
        majors_of = {
            name: tuple(major for major in majors if major in hint) or majors for name, majors in majors_of.items()
        }
    return majors_of


class CudnnMissing(_MissingLibraryRule):
    """A program cannot find cuDNN, the library of neural-network kernels.

    **Why it matters.** cuDNN is not part of the CUDA toolkit. torch's wheels include it; TensorFlow before 2.14,
    CTranslate2 and ONNX Runtime look for it in the system. They need exactly its major version: 8 cannot replace 9.
    TensorFlow then computes on the CPU; others abort.

    **What to do.** TensorFlow 2.14 and newer: `tensorflow[and-cuda]`. Otherwise install the cuDNN that the program needs
    from NVIDIA's wheel, and add its folder to LD_LIBRARY_PATH.

    **Sources.** tensorflow.org/install/source (tested builds); OpenNMT/CTranslate2#1826; NVIDIA's cuDNN support matrix.
    """

    code = "cudnn-missing"
    severity = "error"
    title = text("cuDNN was not found")
    library = _CUDNN
    patterns = (
        *_not_found_messages(_CUDNN),
        r"Unable to load any of \{libcudnn",
        r"DNN library is not found|cudnn\w*\.(?:dll|so\S*) (?:is )?missing|Cannot load cudnn shared library",
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
        wanted = next((match[1] for line in quotes if (match := re.search(r"libcudnn\w*\.so\.(\d+)", line))), None)
        if unnamed:
            meaning = text("TensorFlow does not name the missing library; usually it is cuDNN.")
        elif wanted:
            meaning = text(
                "The loader does not find cuDNN {version}; another major version cannot replace it.", version=wanted
            )
        else:
            meaning = text("The loader does not find cuDNN; another major version cannot replace it.")
        yield self.finding(
            title=text("TensorFlow cannot load all CUDA libraries") if unnamed else None,
            evidence=(*quotes, *unnamed, *self._versions(case.machine)),
            meaning=meaning,
            fix=self._fix(case.machine, wanted, bool(unnamed)),
            blocks=not any_framework_works(case.machine),
        )

    @staticmethod
    def _versions(machine: Machine) -> Iterator[str]:
        version = _tensorflow_version(machine)
        build = tensorflow_build(version) if version else None
        if build:
            yield text(
                "TensorFlow {version} was built with CUDA {cuda} and cuDNN {cudnn}",
                version=version,
                cuda=build.cuda,
                cudnn=build.cudnn,
            )

    @staticmethod
    def _fix(machine: Machine, wanted: str | None, tensorflow: bool) -> Iterator[str]:
        version = _tensorflow_version(machine)
        build = tensorflow_build(version) if version else None
        windows = value_of(machine.host.family) == "windows"
        if windows and version and parse_version(version) > (*parse_version(tensorflow_windows_last()), 99):
            yield text("TensorFlow uses no GPU on Windows itself since 2.11: run it in WSL2.")
        elif build and parse_version(build.version) >= (2, 14):
            yield f"pip install 'tensorflow[and-cuda]=={build.version}.*'"
        elif build and (wheel := cudnn_wheel(build.cudnn, parse_version(build.cuda)[0])):
            # A newer cuDNN of the same major version also works.
            yield f"pip install '{wheel}'"
            yield _ADD_WHEELS_TO_PATH
        elif build:
            yield f"conda install -c conda-forge cudatoolkit={build.cuda} cudnn={build.cudnn}"
        elif tensorflow:
            yield text("pip install 'tensorflow[and-cuda]'   # TensorFlow 2.14 or newer")
        else:
            yield from _install_cudnn(machine, wanted)
            if package_version(machine, "ctranslate2"):
                yield text(
                    "Or install a CTranslate2 for the installed cuDNN: 4.5 and newer need cuDNN 9, 4.4 needs cuDNN 8."
                )


def _install_cudnn(machine: Machine, wanted: str | None) -> Iterator[str]:
    """Yield the commands for the cuDNN wheel that the loader needs: for torch's CUDA, or for one that has a wheel."""
    torch = framework(machine, "torch")
    torch_cuda = parse_version((value_of(torch.cuda) if torch else None) or "")[:1]
    for major in (*torch_cuda, 12, 11):
        wheel = cudnn_wheel(wanted, major) if wanted else f"nvidia-cudnn-cu{major}"
        if wheel:
            yield text("pip install '{wheel}'   # for CUDA {version}", wheel=wheel, version=major)
            other = cudnn_wheel(wanted, 11) if wanted and not torch_cuda and major == 12 else None
            if other:
                yield text(
                    "If the program was built with CUDA 11: pip install '{wheel}'; CUDA 10: from NVIDIA's archive of cuDNN.",
                    wheel=other,
                )
            yield _ADD_WHEELS_TO_PATH
            return
    yield text(
        "NVIDIA has no wheel of cuDNN {version}: use a newer release of the program, or the image that it was made for.",
        version=wanted,
    )


def _tensorflow_version(machine: Machine) -> str | None:
    tensorflow = framework(machine, "tensorflow")
    return (value_of(tensorflow.version) if tensorflow else None) or package_version(machine, "tensorflow")


def _quote_lines(pattern: str, case: Case) -> list[str]:
    return [quote(message, match) for message in case.messages if (match := re.search(pattern, message.text))]


class ShadowedCudnn(MessageRule):
    """Another version of cuDNN is found before the one that the framework was built with.

    **Why it matters.** The loader searches LD_LIBRARY_PATH (or finds an old copy among the system's libraries) before the
    framework's own folder. cuDNN consists of several libraries that must all have one version: a mixture causes undefined
    symbols, `CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH`, or a framework that refuses the older version. torch's wheels from
    2.4 on search their own folder first, but other libraries in the same process may still load the wrong one.

    **What to do.** Start Python without LD_LIBRARY_PATH, or remove the folder of that cuDNN from it. If two packages need
    different cuDNN versions, install releases that need the same.

    **Sources.** pytorch/pytorch#119989; OpenNMT/CTranslate2#1826; tensorflow/tensorflow#60913;
    `torch/backends/cudnn/__init__.py`.
    """

    code = "cudnn-shadow"
    severity = "error"
    title = text("Another version of cuDNN is found before the framework's own")
    blocks = True
    patterns = (
        r"libcudnn\S*:\s+undefined symbol",
        r"libcudnn\S*: symbol \S+, version \S+ not defined",
        r"cuDNN version incompatibility",
        r"Loaded runtime CuDNN library: [\d.]+ .*but source was compiled with",
        r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH|CUDNN_STATUS_(?:SUBLIBRARY_LOADING_FAILED|SERIALIZATION_VERSION_MISMATCH)",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        quotes = tuple(line for line in self.quotes(case) if not names_newer_cudnn(line))
        shadowing = list(self._shadowing_copies(machine))
        if not quotes and not shadowing:
            return
        folders = list(dict.fromkeys(copy.path.rpartition("/")[0] for copy in shadowing))
        yield self.finding(
            title=None if quotes else text("LD_LIBRARY_PATH contains another version of cuDNN than torch's"),
            evidence=(*quotes, *self._facts(machine, shadowing, bool(quotes))),
            meaning=text("Libraries of two cuDNN versions are loaded in one process.")
            if quotes
            else text(
                "A library that loads cuDNN by name gets this copy before the framework's own. No program has failed yet."
            ),
            fix=(
                text("env -u LD_LIBRARY_PATH python …   # to try it"),
                text("Remove {folders} from LD_LIBRARY_PATH.", folders=listing(folders))
                if folders
                else text("Remove the folder with that cuDNN from LD_LIBRARY_PATH."),
                *self._other_fixes(case, quotes),
            ),
            severity="error" if quotes else "warning",
            blocks=bool(quotes) and not any_framework_works(machine),
        )

    @staticmethod
    def _facts(machine: Machine, shadowing: list[LibraryInstall], failed: bool) -> Iterator[str]:
        for copy in shadowing:
            yield text(
                "{path}: {cudnn}, on LD_LIBRARY_PATH", path=copy.path, cudnn=describe_fact(text("cuDNN"), copy.version)
            )
        torch = framework(machine, "torch")
        if torch and shadowing:
            yield text(
                "{framework} needs cuDNN {version}", framework=framework_name(torch), version=_wanted_cudnn(machine)
            )
        path = variable(machine, "LD_LIBRARY_PATH")
        if path and failed and not shadowing:
            yield f"LD_LIBRARY_PATH={path}"

    @staticmethod
    def _other_fixes(case: Case, quotes: tuple[str, ...]) -> Iterator[str]:
        for line in quotes:
            versions = re.search(r"Loaded runtime CuDNN library: [\d.]+ .*compiled with: ([\d.]+\d)", line)
            if versions:
                yield text(
                    "Or install a cuDNN as new as the program's: pip install -U 'nvidia-cudnn-cu12>={version}'",
                    version=versions[1],
                )
                return
        if any("was compiled with" in line for line in quotes):
            yield text("Or install the cuDNN that the program was compiled with, or a program for the cuDNN here.")
        if package_version(case.machine, "ctranslate2"):
            yield text(
                "CTranslate2 4.5 and newer need cuDNN 9, 4.4 needs cuDNN 8: choose the one that matches torch's."
            )

    @staticmethod
    def _shadowing_copies(machine: Machine) -> Iterator[LibraryInstall]:
        """Yield the copies on LD_LIBRARY_PATH that torch cannot use: of another major version, or older."""
        wanted = parse_version(_wanted_cudnn(machine) or "")
        for copy in value_of(machine.toolkits.cudnn) or ():
            version = parse_version(value_of(copy.version) or "")
            usable = wanted and version and wanted[:2] <= version[:2] < (wanted[0] + 1,)
            if copy.origin == "LD_LIBRARY_PATH" and wanted and version and not usable:
                yield copy


def _wanted_cudnn(machine: Machine) -> str | None:
    """Return the cuDNN that torch was built with: the version that torch reports may be the shadowing one."""
    torch = framework(machine, "torch")
    version, cuda = (value_of(torch.version), value_of(torch.cuda)) if torch else (None, None)
    official = version is not None and ("+" not in version or "+cu" in version)
    built = cudnn_of_torch(version, cuda) if version and official and cuda else None
    loaded = value_of(torch.cudnn) if torch else None
    return major_minor(built or loaded or "") or None
