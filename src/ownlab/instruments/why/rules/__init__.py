"""All rules of `ownlab why`, by what they are about. Findings are sorted by what they cost; at equal cost this order decides."""

from __future__ import annotations

from ownlab.instruments.why.rule import Rule
from ownlab.instruments.why.rules.card_state import SharedCard, Throttled
from ownlab.instruments.why.rules.compilation import GraphBreaks, Recompilation
from ownlab.instruments.why.rules.data_loading import FewWorkers, ManyWorkers, NoWorkers, WorkersRestarted
from ownlab.instruments.why.rules.debug_modes import AnomalyDetection, ProfilerLeftOn
from ownlab.instruments.why.rules.device_waits import BlockingCopies, Synchronisation
from ownlab.instruments.why.rules.gpu_kernels import (
    ConvolutionChoice,
    DoublePrecision,
    FullPrecision,
    Layout,
    UnfusedAttention,
)
from ownlab.instruments.why.rules.gpu_launches import (
    LaunchBound,
    SmallBatch,
    SmallMicroBatches,
    UnfusedOptimizer,
)
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
from ownlab.instruments.why.rules.periodic_work import PeriodicWork
from ownlab.instruments.why.rules.python_work import PythonMetrics, WorkBetweenSteps
from ownlab.instruments.why.rules.slow_samples import CollateInMainProcess, SlowPreparing, SlowReading, SlowTransfer

__all__ = ["RULES"]

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
    PeriodicWork,
    PythonMetrics,
    WorkBetweenSteps,
    GarbageCollection,
    CacheEmptied,
    AnomalyDetection,
    ProfilerLeftOn,
    Synchronisation,
    BlockingCopies,
    Recompilation,
    UnfusedOptimizer,
    SmallMicroBatches,
    SmallBatch,
    LaunchBound,
    GraphBreaks,
    DoublePrecision,
    FullPrecision,
    Layout,
    UnfusedAttention,
    ConvolutionChoice,
    Throttled,
    SharedCard,
    Straggler,
    AccumulationWithoutNoSync,
    ReplicatedModel,
    FindUnusedParameters,
    OversubscribedThreads,
    CpuLimit,
    Swapping,
    BusyMachine,
)
