"""What the framework probes share: the shape of an answer, and a transcript of what was said on the way to it.

The transcript is a file that the host names and reads, so that the words of a framework that crashes or hangs are kept.
"""

import faulthandler
import importlib
import os
import re
import sys
import time
import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional

# A framework may quote a whole log in an exception; the doctor needs the part that people read.
WORDS_KEPT = 4000

# What TensorFlow and XLA write on stderr when they find no GPU. They go on without one, and raise nothing.
_TELLING = re.compile(
    r"Cannot dlopen|Could not load dynamic library|failed call to cuInit|Could not find cuda drivers|does not match DSO"
    r"|backend failed to initialize|Unable to initialize backend 'cuda'|falling back to cpu|CUDA_ERROR_|hipError",
    re.IGNORECASE,
)
_ABOUT_DEVICES = re.compile(r"CUDA|cuDNN|GPU|NVIDIA|NVML|ROCm|HIP\b|MIOpen|driver|NPU|XPU", re.IGNORECASE)
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)

Facts = Dict[str, Any]


def known(value: Any, source: str, unit: Optional[str] = None) -> Facts:
    """A fact as the host decodes it."""
    fact = {"state": "known", "value": value, "source": source}
    if unit is not None:
        fact["unit"] = unit
    return fact


def unknown(reason: str) -> Facts:
    """The reason why a fact is not known."""
    return {"state": "unknown", "reason": reason}


def words(exc: BaseException) -> str:
    """What an exception says; its name where it says nothing."""
    return str(exc).strip()[-WORDS_KEPT:] or type(exc).__name__


def cuda_version(code: int) -> str:
    """13020 -> "13.2", as CUDA numbers its runtime and driver."""
    return f"{code // 1000}.{code % 1000 // 10}"


def cudnn_version(code: int) -> str:
    """91900 -> "9.19.0"; 8902 -> "8.9.2": the digits shifted with cuDNN 9."""
    if code >= 90000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


def nccl_version(code: int) -> str:
    """22809 -> "2.28.9"; 2708 -> "2.7.8": the digits shifted with NCCL 2.9."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}"


def examine(name: str, arguments: List[str], read: Callable[[Any, Facts], Iterable[str]]) -> Facts:
    """Import a framework and let `read(module, facts)` ask it; it returns what the framework complained of.

    `arguments` are the transcript's path and the seconds until the host gives up; without them nothing is kept.
    """
    transcript = _begin(arguments)
    facts: Facts = {"name": name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as exc:
            reason = f"{type(exc).__name__}: {words(exc)}"
            facts.update(failure="import", error=reason, devices=unknown(f"{name} cannot be imported: {reason}"))
            return facts
        facts["import_seconds"] = known(round(time.perf_counter() - begun, 3), f"import {name}", "s")
        facts["version"] = known(str(getattr(module, "__version__", "")), f"{name}.__version__")
        complaints: List[str] = []
        try:
            complaints.extend(read(module, facts))
        except Exception as exc:
            complaints.append(words(exc))
            facts.setdefault("devices", unknown(words(exc)))
    said = [str(each.message).strip() for each in caught if not issubclass(each.category, _ABOUT_CODE)]
    said = [text for text in said if _ABOUT_DEVICES.search(text)] + complaints
    if not facts["devices"].get("value"):
        said.extend(_telling_lines(transcript))
    facts["error"] = _joined(said)
    return facts


def _begin(arguments: List[str]) -> Optional[str]:
    if not arguments:
        return None
    path: Optional[str] = arguments[0]
    seconds = float(arguments[1])
    try:
        kept = os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(kept, 1)
        os.dup2(kept, 2)
    except OSError:  # no room for a transcript: what is said goes where it would have gone
        path = None
    faulthandler.enable(2)
    faulthandler.dump_traceback_later(seconds * 0.9, file=2)  # where it hangs, while we may still say so
    return path


def _telling_lines(transcript: Optional[str]) -> List[str]:
    if transcript is None:
        return []
    sys.stderr.flush()
    with open(transcript, encoding="utf-8", errors="replace") as kept:
        return [line.strip() for line in kept if _TELLING.search(line)]


def _joined(said: Iterable[str]) -> Optional[str]:
    """Each thing once; what another quotes in full is left out."""
    distinct = list(dict.fromkeys(text for text in said if text))
    needed = [text for text in distinct if not any(text != other and text in other for other in distinct)]
    return "\n".join(needed)[:WORDS_KEPT] or None
