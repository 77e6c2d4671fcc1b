"""Facts that stand in what programs and people said, outside of every report."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.frameworks.torch_version import build_of, cuda_of, rocm_of
from ownlab.instruments.doctor.paste.variables import environment_of, find_variables
from ownlab.machine.facts import NOT_READ, Fact, Known
from ownlab.machine.records import Card, Framework, FrameworkDevice, Interpreter, Machine, Nvidia

__all__ = ["cards_named", "read_said"]

_SOURCE = "pasted text"
_REACH = 8  # lines in which an answer is looked for: a warning may stand between question and answer
_LONGEST = 2000

_OUT = r"(?:Out\[\d+\]: )?['\"]?"
# What is asked of torch -> the shape of its answer.
_ASKED = {
    "torch.__version__": re.compile(_OUT + r"(\d+\.\d+[\w.+-]*)['\"]?$"),
    "torch.version.cuda": re.compile(_OUT + r"(\d+\.\d+(?:\.\d+)?|None)['\"]?$"),
    "torch.cuda.is_available()": re.compile(_OUT + r"(True|False)$"),
    "torch.cuda.get_device_name": re.compile(
        _OUT + r"((?:NVIDIA|Tesla|GeForce|Quadro|TITAN|AMD|Radeon)\b[^'\"]*)['\"]?$"
    ),
    "torch.cuda.get_arch_list()": re.compile(_OUT + r"\[((?:['\"](?:sm|compute|gfx)\w+['\"],?\s*)+)\]$"),
}
_QUESTION = re.compile("|".join(re.escape(question) for question in _ASKED))
_BARE_VERSION = re.compile(r"['\"]?(\d+\.\d+\.\d+\S*\+(?:cu\d{2,3}|cpu|rocm[\d.]+|xpu))['\"]?(?:\s+(True|False))?$")
_ELSEWHERE = {
    "arches": re.compile(r"install supports CUDA capabilities ((?:(?:sm|compute)_\w+\s*)+)"),
    "module": re.compile(r"NVRM version: .{0,80}?Module(?: for \w+)?\s+(\d{3}\.\d+(?:\.\d+)?)"),
    "library": re.compile(r"NVML library version: (\d{3}\.\d+(?:\.\d+)?)"),
}
_FOUND = re.compile(r"Found GPU\d{1,3} (.{1,80}?) which is of cuda capability (\d{1,2}\.\d)")
_INCOMPATIBLE = re.compile(r"((?:NVIDIA |GeForce |Tesla |Quadro |TITAN ).{1,60}?) with CUDA capability sm_(\d{2,3})\b")


def read_said(lines: Sequence[str]) -> Machine | None:
    """The machine, as far as sentences, prompts and assignments tell of it."""
    told: dict[str, str] = {}
    for index, line in enumerate(lines):
        if len(line) < _LONGEST and ("torch" in line or "PyTorch" in line or "+" in line or "version: " in line):
            _listen(line, lines[index + 1 : index + 1 + _REACH], told)
    variables = environment_of(find_variables(lines))
    if not told and variables == NOT_READ:
        return None
    torch = _torch(told)
    return Machine(
        origin="pasted",
        nvidia=Nvidia(
            module_version=_known(told.get("module"), "pasted /proc/driver/nvidia/version"),
            library_version=_known(told.get("library"), "pasted nvidia-smi"),
        ),
        interpreter=Interpreter(frameworks=Known((torch,), _SOURCE)) if torch else Interpreter(),
        environment=variables,
    )


def _listen(line: str, after: Sequence[str], told: dict[str, str]) -> None:
    for question in _QUESTION.findall(line):
        answer = _beside(line, question) or _below(_ASKED[question], after)
        if answer is not None:
            told.setdefault(question, answer)
    bare = _BARE_VERSION.match(line.strip())
    if bare is not None:
        told.setdefault("torch.__version__", bare[1])
        available = bare[2] or _below(_ASKED["torch.cuda.is_available()"], after[:1])
        if available is not None:
            told.setdefault("torch.cuda.is_available()", available)
    for name, pattern in _ELSEWHERE.items():
        match = pattern.search(line)
        if match is not None:
            told.setdefault(name, match[1])


def _beside(line: str, question: str) -> str | None:
    """The answer on the question's own line: "torch.cuda.is_available(): False"."""
    rest = line.partition(question)[2].lstrip(" )\"'")
    if not rest.startswith((":", "=", "->", "→")):
        return None
    match = _ASKED[question].match(rest.lstrip(":=->→ "))
    return match[1] if match else None


def _below(shape: re.Pattern[str], after: Sequence[str]) -> str | None:
    """The answer on a line of its own, or as a word of one: print(a, b) answers both on one line."""
    for line in after:
        words = line.split()[:4] if len(line) < 60 else []
        for text in (line.strip()[:400], *words):
            match = shape.match(text)
            if match is not None:
                return match[1]
    return None


def _torch(told: dict[str, str]) -> Framework | None:
    version, cuda = told.get("torch.__version__"), told.get("torch.version.cuda")
    arches = re.findall(r"(?:sm|compute)_\w+|gfx\w+", told.get("torch.cuda.get_arch_list()") or told.get("arches", ""))
    devices = _devices(told)
    if not (version or cuda or arches or devices != NOT_READ):
        return None
    build: Fact[str] = build_of(version, _SOURCE) if version else NOT_READ
    built_with: Fact[str] = cuda_of(version, _SOURCE) if version else NOT_READ
    if cuda == "None" and not isinstance(build, Known):
        build = Known("cpu", "pasted torch.version.cuda")
    elif cuda and cuda != "None":
        build, built_with = Known("cuda", "pasted torch.version.cuda"), Known(cuda, "pasted torch.version.cuda")
    return Framework(
        name="torch",
        version=_known(version, _SOURCE),
        build=build,
        cuda=built_with,
        rocm=rocm_of(version, _SOURCE) if version else NOT_READ,
        arch_list=Known(tuple(dict.fromkeys(arches)), _SOURCE) if arches else NOT_READ,
        devices=devices,
    )


def _devices(told: dict[str, str]) -> Fact[tuple[FrameworkDevice, ...]]:
    available, name = told.get("torch.cuda.is_available()"), told.get("torch.cuda.get_device_name")
    if name or available == "True":
        kind = "rocm" if "rocm" in told.get("torch.__version__", "") else "cuda"
        return Known((FrameworkDevice(name or "a device that is not named", kind),), _SOURCE)
    return Known((), _SOURCE) if available == "False" else NOT_READ


def _known(value: str | None, source: str) -> Fact[str]:
    return Known(value, source) if value else NOT_READ


def cards_named(lines: Sequence[str]) -> tuple[Card, ...]:
    """Cards that torch names in its warnings, with their compute capability. Which number they have, it does not say."""
    named: dict[str, str] = {}
    for line in lines:
        if "capability" not in line:
            continue
        if found := _FOUND.search(line[:_LONGEST]):
            named.setdefault(found[1].strip(), found[2])
        elif refused := _INCOMPATIBLE.search(line[:_LONGEST]):
            named.setdefault(refused[1].strip(), f"{refused[2][:-1]}.{refused[2][-1]}")
    source = "pasted warning of torch"
    return tuple(
        Card("nvidia", index, name=Known(name, source), compute_capability=Known(capability, source))
        for index, (name, capability) in enumerate(named.items())
    )
