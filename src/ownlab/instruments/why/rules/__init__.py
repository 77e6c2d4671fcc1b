"""All rules of `ownlab why`, by what they are about. Findings are sorted by what they cost; at equal cost this order decides."""

from __future__ import annotations

from ownlab.errors import UsageError
from ownlab.instruments.why.rule import Rule
from ownlab.instruments.why.rules.data_loading import FewWorkers, ManyWorkers, NoWorkers, WorkersRestarted
from ownlab.instruments.why.rules.device_waits import BlockingCopies, Synchronisation
from ownlab.instruments.why.rules.interruptions import (
    CacheEmptied,
    FrequentCheckpoints,
    GarbageCollection,
    MuchValidation,
    SlowLogging,
)
from ownlab.instruments.why.rules.machine_load import BusyMachine, CpuLimit, OversubscribedThreads, Swapping
from ownlab.instruments.why.rules.parallel import (
    AccumulationWithoutNoSync,
    FindUnusedParameters,
    ReplicatedModel,
    Straggler,
)
from ownlab.instruments.why.rules.python_work import PythonMetrics, WorkBetweenSteps
from ownlab.instruments.why.rules.slow_samples import CollateInMainProcess, SlowPreparing, SlowReading, SlowTransfer
from ownlab.text import text

__all__ = ["RULES", "find_rule"]

RULES: tuple[type[Rule], ...] = (
    NoWorkers,
    FewWorkers,
    ManyWorkers,
    WorkersRestarted,
    SlowReading,
    SlowPreparing,
    SlowTransfer,
    CollateInMainProcess,
    FrequentCheckpoints,
    SlowLogging,
    MuchValidation,
    PythonMetrics,
    WorkBetweenSteps,
    GarbageCollection,
    CacheEmptied,
    Synchronisation,
    BlockingCopies,
    Straggler,
    AccumulationWithoutNoSync,
    ReplicatedModel,
    FindUnusedParameters,
    OversubscribedThreads,
    CpuLimit,
    Swapping,
    BusyMachine,
)


def find_rule(code: str) -> type[Rule]:
    """Return the rule with a code. UsageError if there is none."""
    for rule in RULES:
        if rule.code == code:
            return rule
    import difflib  # only for the message

    close = difflib.get_close_matches(code, [rule.code for rule in RULES], n=1)
    hint = text("Did you mean {code}?", code=close[0]) if close else text("See: ownlab why --explain all")
    raise UsageError(text("There is no finding with the code {code!r}.", code=code), hint=hint)
