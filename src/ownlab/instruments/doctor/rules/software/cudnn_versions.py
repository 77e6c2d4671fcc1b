"""The rule about a framework whose build is older than the cuDNN that it loads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, MessageRule
from ownlab.text import text

__all__ = ["BuildOlderThanCudnn", "names_newer_cudnn"]

_VERSIONS = re.compile(
    r"Loaded runtime CuDNN library: ([\d.]+\d)\b[^\n]*source was compiled with:? ([\d.]+\d)", re.IGNORECASE
)


def names_newer_cudnn(line: str) -> bool:
    """Whether this line of a framework says that it loaded a cuDNN of a newer major version than its own."""
    found = _VERSIONS.search(line)
    return found is not None and _major(found[1]) > _major(found[2])


def _major(version: str) -> int:
    """Return the major version of 8.2.4, and of the numbers 5103 and 90100 (major times 1000, from 9 on times 10000)."""
    if "." in version:
        return int(version.partition(".")[0])
    number = int(version)
    return number // 10_000 if number >= 90_000 else number // 1_000


class BuildOlderThanCudnn(MessageRule):
    """A framework loads a cuDNN of a newer major version than the one that it was compiled with.

    **Why it matters.** cuDNN is compatible within a major version. A framework that was compiled with an older one refuses the
    newer one. If the right framework is installed, too, then another Python than intended runs: its virtual environment is
    not active.

    **What to do.** Look which Python and which installation run, and activate the environment; otherwise install a release of
    the framework that was built for this cuDNN. An older cuDNN for the whole system would break the other programs.

    **Sources.** tensorflow/tensorflow, stream_executor/cuda/cuda_dnn.cc (the check at load); NVIDIA cuDNN, cudnnGetVersion.
    """

    code = "cudnn-newer"
    severity = "error"
    title = text("The framework that runs was built for an older cuDNN: perhaps not the installation that is meant")
    blocks = True
    patterns = (_VERSIONS.pattern,)

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding if the loaded cuDNN is of a newer major version."""
        quotes = tuple(quote for quote in self.quotes(case) if names_newer_cudnn(quote))
        if quotes:
            yield self.finding(
                evidence=quotes[:QUOTES_SHOWN],
                meaning=text(
                    "The cuDNN that was found is of a newer major version than the one that this build needs. Often another"
                    " Python runs than intended, as its virtual environment is not active."
                ),
                fix=(
                    text(
                        "Look which installation runs: python -c 'import sys, tensorflow; print(sys.executable, tensorflow.__file__, tensorflow.__version__)'"
                    ),
                    text(
                        "If the right one is in a virtual environment: source ENVIRONMENT/bin/activate (conda activate NAME), then start the program again."
                    ),
                    text("Otherwise install a release of the framework that was built for this cuDNN."),
                ),
            )
