"""What programs said: the lines that belong to no report, as messages in which rules look for known signs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ownlab.instruments.doctor.records import Message

__all__ = ["Block", "Heard", "hear", "spoken"]

_KEPT = 2000  # lines of messages; beyond, only lines that look like errors, the first and the last of them
_KERNEL_KEPT = 1000
_MESSAGE_LENGTH = 4000
_KERNEL_LINE_LENGTH = 500  # as in the live machine's kernel log

_ERROR = re.compile(
    r"(?:Error|Exception|Warning)\b|Traceback|\b(?:error|err|fatal|fails?|failed|failure|aborted|killed|core dumped|segmentation fault|"
    r"cannot|can't|could not|couldn't|unable|denied|rejected|unsupported|unavailable|insufficient|mismatch(?:es)?|too old|"
    r"out of memory|oom|not (?:found|available|supported|compiled|compatible|recognized|initialized|installed)|no such file|no kernel image|"
    r"no gpus?|no (?:\S+ )?devices?|no available|only supports|less than desired|timed out|timeout|will not)\b",
    re.IGNORECASE,
)
# What a text may be about. With an error's words it is a case; without either, it is prose of which we know nothing.
_TOPIC = re.compile(
    r"(?<![A-Za-z0-9_])(?:cuda\w*|cudnn\w*|cublas\w*|cuInit|lib(?:cu|nv)\w+|nvidia\S*|nvml|nvrm|xid|nvcc|nccl|gpus?|pytorch|torch\S*|tensorflow|jax\w*|"
    r"rocm|hip|amdgpu|nouveau|npu\S*|ascend|mps|vllm|docker|dataloader|shm|numpy|ptx|gcc|gnu|flash\S{0,20}attention|cache blocks|"
    r"(?:RTX|GTX|Tesla|Quadro) ?[A-Z]?\d+\w*)(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
# A program's error, whatever it is about.
_CODE = re.compile(
    r"\w(?:Error|Exception|Warning)\b\s*[:(]|Traceback \(most recent|\b(?:error|fatal)\b\s*:|core dumped|segmentation fault|bus error|"
    r"\bout of memory\b|killed process|command not found|\bno module named\b|cannot open shared object|no such file or directory|"
    r"permission denied|\blaunch failure\b|operation timeout|\becc error\b|undefined symbol|illegal (?:instruction|memory access)|"
    r"\b[A-Z]+_(?:ERROR|STATUS)_\w+|\bunknown error\b|#error\b|exit(?:ed with)? (?:code|status) [1-9]|(?-i:\b(?:ERROR|FATAL|CRITICAL)\b)",
    re.IGNORECASE,
)
_KERNEL = re.compile(
    r"\bXid \(PCI|\bkernel: |\bpcieport \S+: |\bnvidia \S+: |\bnvidia-(?:nvlink|modeset|uvm): |\bnouveau \S+: |"
    r"\bamdgpu \S+: |module verification failed|\bnvidia: (?:module|probe|loading)|"
    r"\bOut of memory: Kill(?:ed)? process|\bMemory cgroup out of memory|\boom-kill:|\binvoked oom-killer|\boom_reaper:"
)
_STAMPED = re.compile(r"\[\s*\d{1,8}\.\d{6}\] ")  # as dmesg does it
# Searching for a word is many times faster than for an expression; most lines of a long log have none.
_KERNEL_WORDS = (
    "Xid",
    "kernel:",
    "pcieport",
    "nvidia",
    "nouveau",
    "amdgpu",
    "module verification",
    "Out of memory: K",
    "cgroup out of",
    "oom",
)
_SMI_WORDS = ("NVIDIA-SMI", "NVML", "device handle", "No devices", "nvidia-smi", "GPU access")
_TELLING_WORDS = (
    "error", "exception", "warning", "traceback", "fatal", "fail", "abort", "killed", "dumped", "fault", "cannot", "could not",
    "couldn't", "unable", "denied", "rejected", "unsupported", "unavailable", "insufficient", "mismatch", "too old", "memory",
    " not ", "no such", "cuda", "cudnn", "nvidia", "nvml", "nccl", "torch", "tensorflow", "jax", "rocm", "hip", "driver", "shm",
)  # fmt: skip
_SMI_FAILED = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle|^\s*No devices were found|"
    r"NVIDIA-SMI couldn't find|nvidia-smi\S*: (?:command )?not found|command not found: nvidia-smi|'nvidia-smi' is not recognized|"
    r"\bnvidia-smi: No such file|GPU access blocked by the operating system"
)
# Only the lines that ask for a report: what a person typed to get it.
_COMMAND = re.compile(
    r"\s*(?:\S{0,80}[$#%>]\s*|[A-Z]:\\.{0,200}>)?(?:sudo )?(?:\S*/)?(?:nvidia-smi|nvcc|npu-smi|rocm-smi|amd-smi|rocminfo|xpu-smi|lspci|dmesg|"
    r"python\S* -m torch\.utils\.collect_env|python\S* collect_env\.py|pip list|pip freeze|conda list|env)"
    r"(?: (?:-\S+|\d+|info|list|static|discovery|version|\| ?.*))*\s*$"
)
_COMMAND_WORDS = ("smi", "nvcc", "rocminfo", "lspci", "dmesg", "collect_env", "pip", "conda", "env")
# Between a failure of nvidia-smi and a report of it: it worked in another place, not at a later time.
_ELSEWHERE = re.compile(r"\b(?:host|container|docker|pod|outside|inside)\b|宿主机|容器", re.IGNORECASE)
_NEAR = 20
_NOTHING = re.compile(r"[\s|+=*_-]*(?:System Info|PyTorch Info)?$")  # borders, and the first headings of vLLM's report
_DATE = re.compile(
    r"\s*\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: [AP]M)?(?: \w+)? \d{4}\s*$"
)  # above every table of nvidia-smi


class Block(NamedTuple):
    """Lines that belong to no report, and where they stand in the text."""

    start: int
    lines: Sequence[str]


class Heard(NamedTuple):
    messages: tuple[Message, ...]
    kernel_log: tuple[str, ...]
    smi_failure: str | None  # nvidia-smi's words, where it failed
    kernel_cut: str  # how much of the kernel log was left out, in words; empty: nothing
    cut: str  # the same of all other lines
    errors: bool  # whether anything in it is an error
    telling: bool  # whether anything in it is a program's error, or about accelerators at all


def hear(blocks: Iterable[Block], *, smi_worked: int = -1) -> Heard:
    """Sort the blocks. A failure of nvidia-smi above the line where it worked is over."""
    kernel: list[str] = []
    failures: list[str] = []
    rest: list[list[str]] = []
    about = False  # what only source code speaks of is no error; but the text is about it
    for block in blocks:
        over: list[str] = []
        said = spoken(block.lines)
        about = about or (
            len(block.lines) <= _KEPT and said != block.lines and bool(_TOPIC.search(_as_text(block.lines)))
        )
        is_over = block.start < smi_worked and not any(_ELSEWHERE.search(line) for line in said[-_NEAR:])
        rest += _sort(said, kernel, over if is_over else failures)
    total = sum(map(len, rest))
    kept = rest if total <= _KEPT else _most_telling(rest)
    texts = [text for text in dict.fromkeys(map(_as_text, kept)) if text.strip()]
    log = _ends([line[:_KERNEL_LINE_LENGTH] for line in kernel], _KERNEL_KEPT)
    failures = _ends(list(dict.fromkeys(failures)), _KERNEL_KEPT)
    code = any(_CODE.search(text) for text in texts)
    telling = code or about or any(_TOPIC.search(text) for text in texts)
    return Heard(
        messages=(
            *(Message(text, "nvidia-smi") for text in failures),
            *(Message(text, "pasted text") for text in texts),
            *(Message(line, "kernel log") for line in log),
        ),
        kernel_log=tuple(log),
        smi_failure=failures[0] if failures else None,
        kernel_cut=f"the first and the last {_KERNEL_KEPT // 2:,} of {len(kernel):,} lines"
        if len(log) < len(kernel)
        else "",
        cut=f"{sum(map(len, kept)):,} of {total:,} lines are kept" if total > _KEPT else "",
        errors=code or (telling and any(_ERROR.search(text) for text in texts)),
        telling=telling,
    )


def _as_text(lines: Sequence[str]) -> str:
    return "\n".join(line[:_MESSAGE_LENGTH] for line in lines)


def _is_kernels(line: str) -> bool:
    """Whether the kernel said it: by its words, or by its stamp where it is an error."""
    if "NVRM: " in line or (any(word in line for word in _KERNEL_WORDS) and _KERNEL.search(line)):
        return True
    return (
        line[:1] == "[" and _STAMPED.match(line) is not None and _ERROR.search(line[:_KERNEL_LINE_LENGTH]) is not None
    )


def _sort(block: Sequence[str], kernel: list[str], failures: list[str]) -> Iterator[list[str]]:
    """The kernel's lines and nvidia-smi's failures are put aside; the rest is given, in pieces between blank lines."""
    piece: list[str] = []
    failing = False  # the line before is a failure of nvidia-smi, and may go on
    for line in block:
        if _is_kernels(line):
            kernel.append(line.strip())
            failing = False
        elif any(word in line for word in _SMI_WORDS) and (failure := _SMI_FAILED.search(line)):
            failures.append(line[failure.start() :].strip()[:_MESSAGE_LENGTH])
            failing = True
        elif failing and line.strip() and (line[0].isspace() or line.startswith("NVML library version")):
            failures[-1] += ("\n" if line[0].isupper() else " ") + line.strip()[:_MESSAGE_LENGTH]
            failing = False
        elif not line.strip():
            if piece:
                yield piece
            piece, failing = [], False
        elif not _is_empty(line):
            piece.append(line)
            failing = False
    if piece:
        yield piece


def _is_empty(line: str) -> bool:
    """Whether a line says nothing: a border, a date, or what was typed to get a report."""
    last = line[-1]
    if last in "|+=*_- " or line.endswith("Info"):
        return _NOTHING.match(line[:_MESSAGE_LENGTH]) is not None
    if last.isdigit() and _DATE.match(line[:80]):
        return True
    return len(line) < 300 and any(word in line for word in _COMMAND_WORDS) and _COMMAND.match(line) is not None


def _most_telling(pieces: list[list[str]]) -> list[list[str]]:
    """The lines that look like errors: the first and the last, since the first error causes the others."""
    lines = [line for piece in pieces for line in piece if _is_telling(line)]
    return [[line] for line in _ends(list(dict.fromkeys(lines)), _KEPT)]


def _is_telling(line: str) -> bool:
    low = line[:_MESSAGE_LENGTH].lower()
    return any(word in low for word in _TELLING_WORDS)


def _ends(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most // 2], *lines[-(most - most // 2) :]]


_LINE_LENGTH = 2000

_FRAME = re.compile(r'File ".{1,400}?", line \d+')
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning|Interrupt)\b:\s")

# Before the code: a prompt, a line number, IPython's arrow, the sign of a difference.
_BEFORE_CODE = r"\s*(?:(?:>>>|\.\.\.|In[ ]\[\d+\]:)\s+|-{1,9}>[ ]?\d{0,5}[ ]{1,20}|\d{1,5}\s+|[+-]\s+)?"
_STATEMENT = re.compile(
    _BEFORE_CODE
    + r"""(?:raise\s+[\w.]+\s*(?:\(|$|from\b)
      | throw\s+(?:new\s+)?[\w:]+\s*[({]
      | (?:return|assert|yield)\s+(?:not\s+)?(?:[rbfu]?["']|[\w.]+\()
      | [A-Za-z_][\w.]*(?:\[[^\]]{0,80}\])?(?:[ ]?:[ ]?[\w\[\],.|]{1,60})?[ ][+]?=[ ](?:[rbfu]?["'(\[{]|[\w.]+\())""",
    re.VERBOSE,
)
_BLOCK = re.compile(_BEFORE_CODE + r"(?:(?:el)?if|while|for|with|except|case)\b")
_CALL = re.compile(
    _BEFORE_CODE + r"(?:print|warn|sys\.exit|warnings\.warn|console\.\w+|(?:self\.)?_?log(?:ger|ging)?\.\w+"
    r"|self\.assert\w+|pytest\.\w+|TORCH_\w+|AT_ERROR|CHECK\w*)\("
)
_COMPARED = re.compile(r"""["'][ ](?:not[ ])?in[ ](?:str|repr)\(""")

_PROGRAM = re.compile(
    r"Error\b|Exception\b|Warning\b|\berror\s*[:(\]=]|\b(?:ERROR|FATAL|WARN|WARNING|CRITICAL|INFO|DEBUG)\b|\bfatal\b|\bdaemon\b"
    r"|\bcaused\b|^\s*\[|^\s*[\d{]"
)
_QUOTED = re.compile(r"""(?<=[A-Za-z])(?P<open>[ (])(?P<mark>["'`])(?P<words>[^"'`]{5,300})(?P=mark)(?!\w)""")
# Before the quoted words: what says that it happened here.
_HAPPENED = re.compile(
    r"\b(?:gets?|got|getting|gives?|gave|giving|says?|said|saying|shows?|showed|showing|throws?|threw|raises?|raised|fail\w*|crash\w*"
    r"|errors?|messages?|warnings?|reports?|reported|prints?|printed|printing|outputs?|receiv\w+|encounter\w*|facing|hits?|hitting"
    r"|sees|saw|seeing|(?:I|we|still|always|now) see|complain\w*|returns?|returned|ends?|ended|die[sd]|because|due|problem|issue)\b",
    re.IGNORECASE,
)
_NEVER = re.compile(r"\b(?:never|no longer|without|not|no)\b|n't\b", re.IGNORECASE)
_CAUGHT = re.compile(
    r"\b(?:caught|catching|handled|recovered from)\b.{0,200}\b(?:retry|retri|continu|skip|ignor|recover|reduc|resum|falling back|fell back)",
    re.IGNORECASE,
)
_CAUGHT_WORDS = ("aught", "atching", "andled", "ecovered")


def spoken(lines: Sequence[str]) -> list[str]:
    """The lines that a program said. Source lines of a traceback and other code are left out; words that are only quoted
    inside a sentence are blanked out there."""
    said: list[str] = []
    frame = -1  # the column of the frame that the line before belongs to; its source stands deeper
    for line in lines:
        place = line.find('File "')
        if place >= 0 and _FRAME.match(line, place):
            frame = place
            said.append(line)
            continue
        if frame >= 0:
            if line[frame : frame + 2] == "  " and not _EXCEPTION.match(line[frame:].strip()):
                continue
            frame = -1
        if _is_said(line):
            said.append(_without_quotes(line) if "'" in line or '"' in line or "`" in line else line)
    return said


def _is_said(line: str) -> bool:
    if len(line) > _LINE_LENGTH:
        return True
    if any(word in line for word in _CAUGHT_WORDS) and _CAUGHT.search(line):
        return False
    return not _is_code(line)


def _is_code(line: str) -> bool:
    # Nearly every line of a log has none of these, and is asked no more.
    quoted = '"' in line or "'" in line
    if not quoted and "(" not in line and "except" not in line and "raise" not in line:
        return False
    if "environ" in line:  # setting a variable tells of the machine
        return False
    end = line.rstrip()[-1:]
    if end == ":" and _BLOCK.match(line):
        return True
    if quoted and (_COMPARED.search(line) or (end in "(),;" and _CALL.match(line))):
        return True
    return _STATEMENT.match(line) is not None


def _without_quotes(line: str) -> str:
    """The line without words that somebody quoted in passing ("I read about 'CUDA out of memory'")."""
    if len(line) > _LINE_LENGTH or _PROGRAM.search(line):
        return line
    return _QUOTED.sub(_keep_or_blank, line)


def _keep_or_blank(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 60) : match.start()]
    if " " not in match["words"].strip() or (_HAPPENED.search(before) and not _NEVER.search(before)):
        return match[0]
    return f"{match['open']}{match['mark']}…{match['mark']}"
