"""Facts that a text mentions outside of every report: versions, answers at a prompt, cards, environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ownlab.catalog.architectures import capability_of
from ownlab.instruments.doctor.paste.packages import build_of, cuda_of, rocm_of
from ownlab.machine.environment_variables import read_environment
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, FrameworkDevice, Host, Interpreter, Machine, Nvidia, Variable
from ownlab.text import text

__all__ = ["cards_in_prose", "cards_in_warnings", "environment_of", "find_variables", "read_prose"]

_SOURCE = text("pasted text")
_REACH = 8  # lines in which an answer is searched for: a warning may come between expression and answer
_LINE_LENGTH = 2000

_OUT = r"(?:Out\[\d+\]: )?['\"]?"
# An expression that users evaluate -> the form of torch's answer.
_EXPRESSIONS = {
    "torch.__version__": re.compile(_OUT + r"(\d+\.\d+[\w.+-]*)['\"]?$"),
    "torch.version.cuda": re.compile(_OUT + r"(\d+\.\d+(?:\.\d+)?|None)['\"]?$"),
    "torch.cuda.is_available()": re.compile(_OUT + r"(True|False)$"),
    "torch.cuda.get_device_name": re.compile(
        _OUT + r"((?:NVIDIA|Tesla|GeForce|Quadro|TITAN|AMD|Radeon)\b[^'\"]*)['\"]?$"
    ),
    "torch.cuda.get_arch_list()": re.compile(_OUT + r"\[((?:['\"](?:sm|compute|gfx)\w+['\"],?\s*)+)\]$"),
}
_EXPRESSION = re.compile("|".join(re.escape(expression) for expression in _EXPRESSIONS))
_BARE_VERSION = re.compile(r"['\"]?(\d+\.\d+\.\d+\S*\+(?:cu\d{2,3}|cpu|rocm[\d.]+|xpu))['\"]?(?:\s+(True|False))?$")
_OTHER_FACTS = {
    "arches": re.compile(r"install supports CUDA capabilities ((?:(?:sm|compute)_\w+\s*)+)"),
    "module": re.compile(r"NVRM version: .{0,80}?Module(?: for \w+)?\s+(\d{3}\.\d+(?:\.\d+)?)"),
    "library": re.compile(r"NVML library version: (\d{3}\.\d+(?:\.\d+)?)"),
}
_FOUND = re.compile(r"Found GPU\d{1,3} (.{1,80}?) which is of cuda capability (\d{1,2}\.\d)")
_INCOMPATIBLE = re.compile(r"((?:NVIDIA |GeForce |Tesla |Quadro |TITAN ).{1,60}?) with CUDA capability sm_(\d{2,3})\b")


def read_prose(lines: Sequence[str]) -> Machine | None:
    """Read the facts in sentences, prompts and assignments."""
    facts: dict[str, str] = {}
    for index, line in enumerate(lines):
        if len(line) < _LINE_LENGTH and ("torch" in line or "PyTorch" in line or "+" in line or "version: " in line):
            _collect_facts(line, lines[index + 1 : index + 1 + _REACH], facts)
    variables = environment_of(find_variables(lines))
    secure_boot = any(line.strip() == "SecureBoot enabled" for line in lines)  # mokutil --sb-state
    if not facts and variables == NOT_READ and not secure_boot:
        return None
    torch = _torch(facts)
    return Machine(
        origin="pasted",
        host=Host(secure_boot=Known(True, text("pasted {program}", program="mokutil --sb-state")))
        if secure_boot
        else Host(),
        nvidia=Nvidia(
            module_version=_known(facts.get("module"), text("pasted {program}", program="/proc/driver/nvidia/version")),
            library_version=_known(facts.get("library"), text("pasted {program}", program="nvidia-smi")),
        ),
        interpreter=Interpreter(frameworks=Known((torch,), _SOURCE)) if torch else Interpreter(),
        environment=variables,
    )


def _collect_facts(line: str, after: Sequence[str], facts: dict[str, str]) -> None:
    for expression in _EXPRESSION.findall(line):
        answer = _answer_in_line(line, expression) or _answer_below(_EXPRESSIONS[expression], after)
        if answer is not None:
            facts.setdefault(expression, answer)
    bare = _BARE_VERSION.match(line.strip())
    if bare is not None:
        facts.setdefault("torch.__version__", bare[1])
        available = bare[2] or _answer_below(_EXPRESSIONS["torch.cuda.is_available()"], after[:1])
        if available is not None:
            facts.setdefault("torch.cuda.is_available()", available)
    for name, pattern in _OTHER_FACTS.items():
        match = pattern.search(line)
        if match is not None:
            facts.setdefault(name, match[1])


def _answer_in_line(line: str, expression: str) -> str | None:
    """Find the answer on the line of the expression: "torch.cuda.is_available(): False"."""
    rest = line.partition(expression)[2].lstrip(" )\"'")
    if not rest.startswith((":", "=", "->", "→")):
        return None
    match = _EXPRESSIONS[expression].match(rest.lstrip(":=->→ "))
    return match[1] if match else None


def _answer_below(shape: re.Pattern[str], after: Sequence[str]) -> str | None:
    """Find the answer on a later line, or as one of its words: print(a, b) prints two answers on one line."""
    for line in after:
        words = line.split()[:4] if len(line) < 60 else []
        for content in (line.strip()[:400], *words):
            match = shape.match(content)
            if match is not None:
                return match[1]
    return None


def _torch(facts: dict[str, str]) -> Framework | None:
    version, cuda = facts.get("torch.__version__"), facts.get("torch.version.cuda")
    arches = re.findall(
        r"(?:sm|compute)_\w+|gfx\w+", facts.get("torch.cuda.get_arch_list()") or facts.get("arches", "")
    )
    devices = _devices(facts)
    if not (version or cuda or arches or devices != NOT_READ):
        return None
    build: Fact[str] = build_of(version, _SOURCE) if version else NOT_READ
    built_with: Fact[str] = cuda_of(version, _SOURCE) if version else NOT_READ
    if cuda == "None" and not isinstance(build, Known):
        build = Known("cpu", text("pasted {program}", program="torch.version.cuda"))
    elif cuda and cuda != "None":
        build, built_with = (
            Known("cuda", text("pasted {program}", program="torch.version.cuda")),
            Known(cuda, text("pasted {program}", program="torch.version.cuda")),
        )
    return Framework(
        name="torch",
        version=_known(version, _SOURCE),
        build=build,
        cuda=built_with,
        rocm=rocm_of(version, _SOURCE) if version else NOT_READ,
        arch_list=Known(tuple(dict.fromkeys(arches)), _SOURCE) if arches else NOT_READ,
        devices=devices,
    )


def _devices(facts: dict[str, str]) -> Fact[tuple[FrameworkDevice, ...]]:
    available, name = facts.get("torch.cuda.is_available()"), facts.get("torch.cuda.get_device_name")
    if name or available == "True":
        kind = "rocm" if "rocm" in facts.get("torch.__version__", "") else "cuda"
        return Known((FrameworkDevice(name or "a device that is not named", kind),), _SOURCE)
    return Known((), _SOURCE) if available == "False" else NOT_READ


def _known(value: str | None, source: str) -> Fact[str]:
    return Known(value, source) if value else NOT_READ


def cards_in_warnings(lines: Sequence[str]) -> tuple[Card, ...]:
    """Read the cards in torch's warnings, with their compute capability. The warnings do not give their numbers."""
    named: dict[str, str] = {}
    for line in lines:
        if "capability" not in line:
            continue
        if found := _FOUND.search(line[:_LINE_LENGTH]):
            named.setdefault(found[1].strip(), found[2])
        elif refused := _INCOMPATIBLE.search(line[:_LINE_LENGTH]):
            named.setdefault(refused[1].strip(), f"{refused[2][:-1]}.{refused[2][-1]}")
    source = text("pasted warning of torch")
    return tuple(
        Card("nvidia", index, name=Known(name, source), compute_capability=Known(capability, source))
        for index, (name, capability) in enumerate(named.items())
    )


_TEXT_SOURCE = text("pasted text")
_PROSE_LENGTH = 2000
_CARDS_AT_MOST = 3  # a text that mentions more compares them

# --- cards that users mention -----------------------------------------------------------------------------------------

# The name includes the series, so that other numbers are not mistaken for a card; AMD's A10-8700P is a processor.
_CARD_NAME = re.compile(
    r"""(?<![A-Za-z0-9_/.-])(?P<maker>(?:NVIDIA[ ])?(?:GeForce[ ])?)(?P<name>
        (?:RTX|GTX)\s?(?:PRO\s?)?A?\d{3,4}(?:\s?(?:Ti|SUPER))*(?:\s?D)?(?:\sAda)?
      | Quadro\s(?:RTX\s)?[A-Z]{0,2}\d{3,4}M?
      | Tesla\s[A-Z]\d{1,4}[a-z]?
      | TITAN\s(?:RTX|Xp|X|V)
      | GT\s?\d{3,4}
      | (?:GB200|GB300|GH200|B100|B200|B300|H100|H200|H800|H20|A100|A800|A30|A40|A10G?|L40S?|L20|L4|V100|P100|P40|T4|K80)
      )(?![A-Za-z0-9_.])(?!-\d{4}[A-Z]?\b)(?=\D|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_LETTERS = re.compile(r"^(RTX|GTX|GT)\s?(?=\w)", re.IGNORECASE)
# A letter and two digits have many meanings (a cloud instance, a paper size): such a name needs a vendor or "card" nearby.
_SHORT = re.compile(r"^[A-Z]\d{1,2}[A-Z]?$", re.IGNORECASE)
_CARD_WORD = re.compile(r"nvidia|tesla|\bgpus?\b|graphics|\bcards?\b|显卡|顯示卡|グラボ|グラフィック", re.IGNORECASE)
_LINES_READ = 2000  # lines at the beginning and at the end: between them is a log, not prose


def cards_in_prose(lines: Sequence[str]) -> tuple[Card, ...]:
    """Read the cards that a user mentions, each once. No cards if there are too many for one machine."""
    named: dict[str, str] = {}
    for line in lines if len(lines) <= _LINES_READ else [*lines[: _LINES_READ // 2], *lines[-_LINES_READ // 2 :]]:
        if len(line) > _PROSE_LENGTH:
            continue
        for match in _CARD_NAME.finditer(line):
            name = match["maker"] + _spaced(match["name"])
            if capability_of(name) is None or (_SHORT.match(name) and not _CARD_WORD.search(line)):
                continue
            named.setdefault(name.upper(), name)
    if len(named) > _CARDS_AT_MOST:
        return ()
    return tuple(Card("nvidia", index, name=Known(name, _TEXT_SOURCE)) for index, name in enumerate(named.values()))


def _spaced(name: str) -> str:
    """Write a name as nvidia-smi does, with a space after the letters: RTX4090 becomes RTX 4090."""
    return " ".join(_LETTERS.sub(lambda match: f"{match[1].upper()} ", name).split())


_VARIABLES_SOURCE = text("pasted environment variables")
_VARIABLE_NAMES = (
    r"CUDA_[A-Z_]{3,40}|NVIDIA_[A-Z_]{3,40}|NCCL_[A-Z0-9_]{2,40}|HIP_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|"
    r"HSA_OVERRIDE_GFX_VERSION|ASCEND_[A-Z_]{3,40}|LD_LIBRARY_PATH|LD_PRELOAD|PYTORCH_[A-Z_]{3,40}|TORCH_CUDA_ARCH_LIST|TF_[A-Z_]{3,40}|"
    r"XLA_[A-Z_]{3,40}|JAX_[A-Z_]{3,40}|TPU_[A-Z_]{3,40}|OMP_NUM_THREADS|MKL_NUM_THREADS"
)
_ASSIGNED = re.compile(
    rf"(?:.*?[$#>]\s+)?(?:export |set |declare -x |ENV |-e )?({_VARIABLE_NAMES})=(\S*|\"[^\"]*\"|'[^']*')(?:\s|$)"
)
_IN_PYTHON = re.compile(rf".*?os\.environ\[\s*['\"]({_VARIABLE_NAMES})['\"]\s*\]\s*=\s*(?:str\()?['\"]?([^'\")]*)")
_ECHOED = re.compile(rf".*?\becho \"?\$\{{?({_VARIABLE_NAMES})\}}?\"?\s*$")
_HINT = re.compile(r"_[A-Z]+=|os\.environ\[|\becho ")
_MIG_UUID = re.compile(r"MIG-[0-9a-f]{8}-")
_VALUE_LENGTH = 4000
# --- environment variables --------------------------------------------------------------------------------------------

# Only the machine itself can show what these paths contain.
_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH")


def environment_of(variables: Mapping[str, str], cards: tuple[Card, ...] = ()) -> Fact[tuple[Variable, ...]]:
    """Make the record of the variables that affect accelerators, with their meaning on that machine."""
    cards = tuple(map(_without_numbered_instances, cards))
    given = {name: value[:_VALUE_LENGTH] for name, value in variables.items()}
    others = {name: value for name, value in given.items() if name not in _PATHS}
    known = read_environment(others, cards)
    found = known.value if isinstance(known, Known) else ()
    found += tuple(
        Variable(name, given[name], text("A path on that machine, whose content is not known here."))
        for name in _PATHS
        if name in given
    )
    return Known(found, _VARIABLES_SOURCE) if found else NOT_READ


def _without_numbered_instances(card: Card) -> Card:
    """Make MIG instances without UUIDs unknown: CUDA_VISIBLE_DEVICES=MIG-… cannot be matched with them."""
    instances = value_of(card.mig_instances) or ()
    if all(_MIG_UUID.match(instance.uuid) for instance in instances):
        return card
    return msgspec.structs.replace(card, mig_instances=Unknown(text("the MIG instances were pasted without UUIDs")))


def find_variables(lines: Sequence[str]) -> dict[str, str]:
    """Find the assignments to variables in lines outside of every report."""
    found: dict[str, str] = {}
    for index, line in enumerate(lines):
        if ("=" not in line and "echo" not in line) or not _HINT.search(line):
            continue
        match = _ASSIGNED.match(line[:_VALUE_LENGTH]) or _IN_PYTHON.match(line[:_VALUE_LENGTH])
        if match is not None:
            found.setdefault(match[1], match[2].strip("\"'"))
        elif (echoed := _ECHOED.match(line[:200])) and index + 1 < len(lines):
            found.setdefault(echoed[1], lines[index + 1].strip())
    return found
