"""The report of a framework, and the transcript of its output.

The transcript is a file that the host names and reads, so that the output of a framework that crashes or hangs is kept.
"""

import faulthandler
import importlib
import os
import re
import sys
import time
import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional

from ownlab_guest.text import text

# An exception may quote a whole log; the doctor shows only its end.
MESSAGE_LENGTH = 4000

# What TensorFlow and XLA write to stderr when they find no GPU. They continue without one and raise nothing.
_DEVICE_ERROR = re.compile(
    r"Cannot dlopen|Could not load dynamic library|failed call to cuInit|Could not find cuda drivers|does not match DSO"
    r"|backend failed to initialize|Unable to initialize backend 'cuda'|falling back to cpu|CUDA_ERROR_|hipError",
    re.IGNORECASE,
)
_ABOUT_DEVICES = re.compile(r"CUDA|cuDNN|GPU|NVIDIA|NVML|ROCm|HIP\b|MIOpen|driver|NPU|XPU", re.IGNORECASE)
_ABOUT_CODE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)

Facts = Dict[str, Any]


def known(value: Any, source: str, unit: Optional[str] = None) -> Facts:
    """Make a known fact, as the host decodes it."""
    fact = {"state": "known", "value": value, "source": source}
    if unit is not None:
        fact["unit"] = unit
    return fact


def unknown(reason: str) -> Facts:
    """Make an unknown fact with its reason."""
    return {"state": "unknown", "reason": reason}


def exception_text(exc: BaseException) -> str:
    """Return the message of an exception, or its name if it has none."""
    return str(exc).strip()[-MESSAGE_LENGTH:] or type(exc).__name__


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
    """Import a framework and let `read(module, facts)` fill in its facts; it returns the framework's error messages.

    `arguments` are the transcript's path and the seconds until the host gives up; without them, no transcript is kept.
    """
    transcript = _begin(arguments)
    facts: Facts = {"name": name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as exc:
            reason = f"{type(exc).__name__}: {exception_text(exc)}"
            facts.update(
                failure="import",
                error=reason,
                devices=unknown(text("{name} cannot be imported: {reason}", name=name, reason=reason)),
            )
            return facts
        facts["import_seconds"] = known(round(time.perf_counter() - started, 3), f"import {name}", "s")
        facts["version"] = known(str(getattr(module, "__version__", "")), f"{name}.__version__")
        errors: List[str] = []
        try:
            errors.extend(read(module, facts))
        except Exception as exc:
            errors.append(exception_text(exc))
            facts.setdefault("devices", unknown(exception_text(exc)))
    messages = [str(warning.message).strip() for warning in caught if not issubclass(warning.category, _ABOUT_CODE)]
    messages = [message for message in messages if _ABOUT_DEVICES.search(message)] + errors
    if not facts["devices"].get("value"):
        messages.extend(_device_errors(transcript))
    facts["error"] = _joined(messages)
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
    except OSError:  # no room for a transcript: the output is not redirected
        path = None
    faulthandler.enable(2)
    faulthandler.dump_traceback_later(seconds * 0.9, file=2)  # shortly before the deadline, to show where it hangs
    return path


def _device_errors(transcript: Optional[str]) -> List[str]:
    if transcript is None:
        return []
    sys.stderr.flush()
    with open(transcript, encoding="utf-8", errors="replace") as kept:
        return [line.strip() for line in kept if _DEVICE_ERROR.search(line)]


def _joined(messages: Iterable[str]) -> Optional[str]:
    """Join messages, each once, without those that another one quotes in full."""
    distinct = list(dict.fromkeys(message for message in messages if message))
    needed = [message for message in distinct if not any(message != other and message in other for other in distinct)]
    return "\n".join(needed)[:MESSAGE_LENGTH] or None
