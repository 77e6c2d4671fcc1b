"""Every rule, in the order of causes: what stands earlier explains what stands later.

The verdict names the first finding that blocks, so a driver that does not load comes before a framework that sees no
device because of it.
"""

from __future__ import annotations

import difflib

from ownlab.errors import UsageError
from ownlab.instruments.doctor.rule import Rule
from ownlab.instruments.doctor.rules.devices.access import DevicePermission, RestrictedCounters
from ownlab.instruments.doctor.rules.devices.card_memory import HeldMemory, OutOfMemory
from ownlab.instruments.doctor.rules.devices.cards import CardLost, EccErrors, NoBf16, Persistence, SlowLink, Throttling
from ownlab.instruments.doctor.rules.devices.device import (
    DeviceOrder,
    ExclusiveMode,
    HiddenDevices,
    InvalidOrdinal,
    MigMode,
)
from ownlab.instruments.doctor.rules.devices.vendors import AscendHealth, AscendStack, MpsAbsent, Rosetta, TpuNoLibtpu
from ownlab.instruments.doctor.rules.devices.xid import XidErrors
from ownlab.instruments.doctor.rules.drivers.driver import DriverEnd, DriverOld, NoDriver
from ownlab.instruments.doctor.rules.drivers.driver_library import (
    DriverCombination,
    DriverMismatch,
    ForwardCompatibility,
)
from ownlab.instruments.doctor.rules.drivers.initialisation import FabricNotReady, NoDevice, NoVisibleGpu, SmiHang
from ownlab.instruments.doctor.rules.drivers.kernel_module import (
    HmmRegion,
    ModuleFlavour,
    ModuleRejected,
    NoSmi,
    Nouveau,
    UvmMissing,
)
from ownlab.instruments.doctor.rules.environment.container import (
    ContainerWithoutGpu,
    NvmlUnknown,
    RuntimeMissing,
    SmallShm,
    Wsl,
)
from ownlab.instruments.doctor.rules.environment.host import (
    DiskFull,
    FewCores,
    NoAccelerator,
    OomKilled,
    RaidDegraded,
    SlowDisk,
)
from ownlab.instruments.doctor.rules.software.builds import CpuBuild, NoKernel, RocmBuild, XpuBuild
from ownlab.instruments.doctor.rules.software.faults import (
    CheckpointCuda,
    CublasError,
    DeviceAssert,
    DeviceMixed,
    IllegalAccess,
    NcclError,
)
from ownlab.instruments.doctor.rules.software.interpreter import (
    AllocConf,
    FrameworkAbsent,
    FrameworkBroken,
    InterpreterBroken,
    Musl,
)
from ownlab.instruments.doctor.rules.software.libraries import CudnnMissing, CudnnShadow, LibraryMissing
from ownlab.instruments.doctor.rules.software.programs import (
    CompilerTooNew,
    FlashAttentionCard,
    ForkedCuda,
    HostMemory,
    ImageNeedsDriver,
    ModuleMissing,
    PtxTooNew,
    QuantisationBuild,
    ServingMemory,
)
from ownlab.instruments.doctor.rules.software.toolkit import CudaMismatch, ToolkitArch, ToolkitDiff

__all__ = ["RULES", "rule_named"]

RULES: tuple[type[Rule], ...] = (
    # the hardware
    CardLost,
    XidErrors,
    EccErrors,
    # the way from the program to the driver
    RuntimeMissing,
    ImageNeedsDriver,
    NvmlUnknown,
    ContainerWithoutGpu,
    Wsl,
    # the kernel's module
    ModuleRejected,
    Nouveau,
    ModuleFlavour,
    NoSmi,
    HmmRegion,
    UvmMissing,
    # the driver's library
    DriverMismatch,
    DriverCombination,
    ForwardCompatibility,
    # the driver at work
    SmiHang,
    NoDevice,
    FabricNotReady,
    DevicePermission,
    NoDriver,
    DriverOld,
    DriverEnd,
    # which devices a program is shown
    HiddenDevices,
    ExclusiveMode,
    MigMode,
    DeviceOrder,
    InvalidOrdinal,
    NoVisibleGpu,
    # the interpreter and its frameworks
    InterpreterBroken,
    Musl,
    FrameworkBroken,
    LibraryMissing,
    CudnnMissing,
    CudnnShadow,
    CpuBuild,
    RocmBuild,
    XpuBuild,
    NoKernel,
    CudaMismatch,
    ModuleMissing,
    FrameworkAbsent,
    AllocConf,
    ToolkitArch,
    CompilerTooNew,
    PtxTooNew,
    ToolkitDiff,
    # other vendors
    AscendHealth,
    AscendStack,
    Rosetta,
    MpsAbsent,
    TpuNoLibtpu,
    # the cards' state
    HeldMemory,
    OutOfMemory,
    Throttling,
    SlowLink,
    Persistence,
    NoBf16,
    RestrictedCounters,
    # a program's own errors
    DeviceAssert,
    IllegalAccess,
    CublasError,
    NcclError,
    DeviceMixed,
    CheckpointCuda,
    ForkedCuda,
    ServingMemory,
    FlashAttentionCard,
    QuantisationBuild,
    HostMemory,
    # the machine around the cards
    SmallShm,
    OomKilled,
    FewCores,
    DiskFull,
    SlowDisk,
    RaidDegraded,
    NoAccelerator,
)


def rule_named(code: str) -> type[Rule]:
    """The rule with this code, or with this as one of its other names."""
    for rule in RULES:
        if code == rule.code or code in rule.also_known_as:
            return rule
    close = difflib.get_close_matches(code, [rule.code for rule in RULES], n=3)
    raise UsageError(
        f"there is no rule {code!r}",
        hint=f"Did you mean {' or '.join(close)}?" if close else "All codes: ownlab doctor --explain all",
    )
