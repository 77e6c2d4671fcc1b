"""The messages of programs: the lines that belong to no report. The doctor's rules search them for known errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ownlab.instruments.doctor.records import Message
from ownlab.text import text

__all__ = ["Block", "ProgramOutput", "program_lines", "read_messages"]

_KEPT = 2000  # lines of messages; of longer texts, only the first and last lines that look like errors are kept
_KERNEL_KEPT = 1000
_MESSAGE_LENGTH = 4000
_RULER_LENGTH = 80  # of "-----…" or "#####…"; longer ones say nothing more
_RULER = re.compile(r"([-=*_.#~+|])\1{80,}")
_KERNEL_LINE_LENGTH = 500  # as in the live machine's kernel log

_ERROR = re.compile(
    r"(?:Error|Exception|Warning)\b|Traceback|\b(?:error|err|fatal|fails?|failed|failure|aborted|killed|core dumped|segmentation fault|"
    r"cannot|can't|could not|couldn't|unable|denied|rejected|unsupported|unavailable|insufficient|mismatch(?:es)?|too old|"
    r"out of memory|oom|not (?:found|available|supported|compiled|compatible|recognized|initialized|installed)|no such file|no kernel image|"
    r"no gpus?|no (?:\S+ )?devices?|no available|only supports|less than desired|timed out|timeout|will not)\b",
    re.IGNORECASE,
)
# The subjects of a text. A text with neither a subject nor an error is not a case for the doctor.
_TOPIC = re.compile(
    r"(?<![A-Za-z0-9_])(?:cuda\w*|cudnn\w*|cublas\w*|cuInit|lib(?:cu|nv)\w+|nvidia\S*|nvml|nvrm|xid|nvcc|nccl|gpus?|pytorch|torch\S*|tensorflow|jax\w*|"
    r"rocm\w*|hip|amdgpu|kfd|nouveau|npu\S*|ascend|mps|vllm|docker|dataloader|shm|numpy|ptx|gcc|gnu|flash\S{0,20}attention|cache blocks|"
    r"(?:RTX|GTX|Tesla|Quadro) ?[A-Z]?\d+\w*)(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
# A program's error, on any subject.
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
_STAMPED = re.compile(r"\[\s*\d{1,8}\.\d{6}\] ")  # dmesg's timestamp
# Searching for a word is many times faster than for a regular expression; most lines of a long log have none.
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
_RELEVANT_WORDS = (
    "error", "exception", "warning", "traceback", "fatal", "fail", "abort", "killed", "dumped", "fault", "cannot", "could not",
    "couldn't", "unable", "denied", "rejected", "unsupported", "unavailable", "insufficient", "mismatch", "too old", "memory",
    " not ", "no such", "cuda", "cudnn", "nvidia", "nvml", "nccl", "torch", "tensorflow", "jax", "rocm", "hip", "driver", "shm",
)  # fmt: skip
_SMI_FAILED = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle|^\s*No devices were found|"
    r"NVIDIA-SMI couldn't find|nvidia-smi\S*: (?:command )?not found|command not found: nvidia-smi|'nvidia-smi' is not recognized|"
    r"\bnvidia-smi: No such file|GPU access blocked by the operating system"
)
# Command lines that print a report: what the user typed to get it.
_COMMAND = re.compile(
    r"\s*(?:\S{0,80}[$#%>]\s*|[A-Z]:\\.{0,200}>)?(?:sudo )?(?:\S*/)?(?:nvidia-smi|nvcc|npu-smi|rocm-smi|amd-smi|rocminfo|xpu-smi|lspci|dmesg|"
    r"python\S* -m torch\.utils\.collect_env|python\S* collect_env\.py|pip list|pip freeze|conda list|env)"
    r"(?: (?:-\S+|\d+|info|list|static|discovery|version|\| ?.*))*\s*$"
)
_COMMAND_WORDS = ("smi", "nvcc", "rocminfo", "lspci", "dmesg", "collect_env", "pip", "conda", "env")
# Between a failure of nvidia-smi and a report of it: nvidia-smi worked elsewhere, not at a later time.
_ELSEWHERE = re.compile(r"\b(?:host|container|docker|pod|outside|inside)\b|宿主机|容器", re.IGNORECASE)
_NEAR = 20
_BORDER = re.compile(r"[\s|+=*_-]*(?:System Info|PyTorch Info)?$")  # borders, and the first headings of vLLM's report
_DATE = re.compile(
    r"\s*\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: [AP]M)?(?: \w+)? \d{4}\s*$"
)  # above every table of nvidia-smi


class Block(NamedTuple):
    """Lines that belong to no report, and the number of the first one in the text."""

    start: int
    lines: Sequence[str]


class ProgramOutput(NamedTuple):
    messages: tuple[Message, ...]
    kernel_log: tuple[str, ...]
    smi_failure: str | None  # nvidia-smi's message if it failed
    kernel_omission: str  # how much of the kernel log was left out, as text; empty: nothing
    omission: str  # the same for all other lines
    errors: bool  # whether it contains an error
    relevant: bool  # whether it contains a program's error or mentions accelerators


def read_messages(blocks: Iterable[Block], *, smi_worked: int = -1) -> ProgramOutput:
    """Sort the lines of the blocks. A failure of nvidia-smi before the line where it worked no longer counts."""
    kernel: list[str] = []
    failures: list[str] = []
    rest: list[list[str]] = []
    on_topic = False  # a subject that only source code mentions is not an error, but the text is about it
    for block in blocks:
        past_failures: list[str] = []
        lines = program_lines(block.lines)
        on_topic = on_topic or (
            len(block.lines) <= _KEPT and lines != block.lines and bool(_TOPIC.search(_as_text(block.lines)))
        )
        is_past = block.start < smi_worked and not any(_ELSEWHERE.search(line) for line in lines[-_NEAR:])
        rest += _sort(lines, kernel, past_failures if is_past else failures)
    total = sum(map(len, rest))
    kept = rest if total <= _KEPT else _most_relevant(rest)
    messages = [message for message in dict.fromkeys(map(_as_text, kept)) if message.strip()]
    log = _ends([line[:_KERNEL_LINE_LENGTH] for line in kernel], _KERNEL_KEPT)
    failures = _ends(list(dict.fromkeys(failures)), _KERNEL_KEPT)
    has_error = any(_CODE.search(message) for message in messages)
    relevant = has_error or on_topic or any(_TOPIC.search(message) for message in messages)
    return ProgramOutput(
        messages=(
            *(Message(failure, "nvidia-smi") for failure in failures),
            *(Message(message, text("pasted text")) for message in messages),
            *(Message(line, text("kernel log")) for line in log),
        ),
        kernel_log=tuple(log),
        smi_failure=failures[0] if failures else None,
        kernel_omission=text(
            "the first and the last {kept:,} of {total:,} lines", kept=_KERNEL_KEPT // 2, total=len(kernel)
        )
        if len(log) < len(kernel)
        else "",
        omission=text("{kept:,} of {total:,} lines are kept", kept=sum(map(len, kept)), total=total)
        if total > _KEPT
        else "",
        errors=has_error or (relevant and any(_ERROR.search(message) for message in messages)),
        relevant=relevant,
    )


def _as_text(lines: Sequence[str]) -> str:
    """Join the lines; long ones are cut, and long rulers in them, which every rule would search, are shortened."""
    return "\n".join(
        line if len(line) <= _RULER_LENGTH else _RULER.sub(_shorten, line[:_MESSAGE_LENGTH]) for line in lines
    )


def _shorten(ruler: re.Match[str]) -> str:
    return ruler[0][:_RULER_LENGTH]


def _is_kernel_line(line: str) -> bool:
    """Recognize a line of the kernel log by its words, or an error by its timestamp."""
    if "NVRM: " in line or (any(word in line for word in _KERNEL_WORDS) and _KERNEL.search(line)):
        return True
    return (
        line[:1] == "[" and _STAMPED.match(line) is not None and _ERROR.search(line[:_KERNEL_LINE_LENGTH]) is not None
    )


def _sort(block: Sequence[str], kernel: list[str], failures: list[str]) -> Iterator[list[str]]:
    """Collect the kernel's lines and nvidia-smi's failures; yield the rest, split at blank lines."""
    piece: list[str] = []
    failing = False  # the previous line is a failure of nvidia-smi, which may continue
    for line in block:
        if _is_kernel_line(line):
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
    """Recognize a line without information: a border, a date, or the command that printed a report."""
    last = line[-1]
    if last in "|+=*_- " or line.endswith("Info"):
        return _BORDER.match(line[:_MESSAGE_LENGTH]) is not None
    if last.isdigit() and _DATE.match(line[:80]):
        return True
    return len(line) < 300 and any(word in line for word in _COMMAND_WORDS) and _COMMAND.match(line) is not None


def _most_relevant(pieces: list[list[str]]) -> list[list[str]]:
    """Select the first and last lines that look like errors: the first error often causes the others."""
    lines = [line for piece in pieces for line in piece if _is_relevant(line)]
    return [[line] for line in _ends(list(dict.fromkeys(lines)), _KEPT)]


def _is_relevant(line: str) -> bool:
    low = line[:_MESSAGE_LENGTH].lower()
    return any(word in low for word in _RELEVANT_WORDS)


def _ends(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most // 2], *lines[-(most - most // 2) :]]


_LINE_LENGTH = 2000

_FRAME = re.compile(r'File ".{1,400}?", line \d+')
_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning|Interrupt)\b:\s")

# --- program output and source code -----------------------------------------------------------------------------------

# Before the code: a prompt, a line number, IPython's arrow, the sign of a diff.
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
    r"\b(?:hip|cuda)Error[A-Z]\w+|Error\b|Exception\b|Warning\b|\berror\s*[:(\]=]|\b(?:ERROR|FATAL|WARN|WARNING|CRITICAL|INFO|DEBUG)\b|\bfatal\b|\bdaemon\b"
    r"|\bcaused\b|^\s*\[|^\s*[\d{]|^\s*[EWN]: |\bAssertion `|\bfailed\.?\s*$"
)
_QUOTED = re.compile(r"""(?<=[A-Za-z])(?P<open>[ (])(?P<mark>["'`])(?P<words>[^"'`]{5,300})(?P=mark)(?!\w)""")
# Words before a quotation that show that the error happened here.
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


def program_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that a program printed: without source code, caught errors and quotations in passing.

    The source lines of a traceback are left out, too. A quotation inside a sentence is replaced by an ellipsis.
    """
    printed: list[str] = []
    frame = -1  # the column of the frame above this line; its source line is indented deeper
    for line in lines:
        column = line.find('File "')
        if column >= 0 and _FRAME.match(line, column):
            frame = column
            printed.append(line)
            continue
        if frame >= 0:
            if line[frame : frame + 2] == "  " and not _EXCEPTION.match(line[frame:].strip()):
                continue
            frame = -1
        if _is_printed(line):
            printed.append(_without_quotes(line) if "'" in line or '"' in line or "`" in line else line)
    return printed


def _is_printed(line: str) -> bool:
    if len(line) > _LINE_LENGTH:
        return True
    if any(word in line for word in _CAUGHT_WORDS) and _CAUGHT.search(line):
        return False
    return not _is_code(line)


def _is_code(line: str) -> bool:
    # Nearly every line of a log has none of these and needs no further check.
    quoted = '"' in line or "'" in line
    if not quoted and "(" not in line and "except" not in line and "raise" not in line:
        return False
    if "environ" in line:  # an assignment to a variable is a fact about the machine
        return False
    end = line.rstrip()[-1:]
    if end == ":" and _BLOCK.match(line):
        return True
    if quoted and (_COMPARED.search(line) or (end in "(),;" and _CALL.match(line))):
        return True
    return _STATEMENT.match(line) is not None


def _without_quotes(line: str) -> str:
    """Return the line without quotations in passing ("I read about 'CUDA out of memory'")."""
    if len(line) > _LINE_LENGTH or _PROGRAM.search(line):
        return line
    return _QUOTED.sub(_keep_or_blank, line)


def _keep_or_blank(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 60) : match.start()]
    if " " not in match["words"].strip() or (_HAPPENED.search(before) and not _NEVER.search(before)):
        return match[0]
    return f"{match['open']}{match['mark']}…{match['mark']}"
