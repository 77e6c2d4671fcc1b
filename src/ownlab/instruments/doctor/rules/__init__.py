"""Every rule, in the order of causes: what stands earlier explains what stands later.

The verdict names the first finding that blocks, so a driver that does not load comes before a framework that sees no
device because of it.
"""

from __future__ import annotations

import difflib

from ownlab.errors import UsageError
from ownlab.instruments.doctor.rule import Rule
from ownlab.instruments.doctor.rules.devices.card_health import (
    CardLost,
    EccErrors,
    NoBf16,
    Persistence,
    SlowLink,
    Throttling,
)
from ownlab.instruments.doctor.rules.devices.card_memory import HeldMemory, OutOfMemory
from ownlab.instruments.doctor.rules.devices.device_visibility import (
    DeviceOrder,
    ExclusiveMode,
    HiddenDevices,
    InvalidOrdinal,
    MigMode,
)
from ownlab.instruments.doctor.rules.devices.other_vendors import (
    AscendHealth,
    AscendStack,
    MpsAbsent,
    Rosetta,
    TpuNoLibtpu,
)
from ownlab.instruments.doctor.rules.devices.permissions import DevicePermission, RestrictedCounters
from ownlab.instruments.doctor.rules.devices.xid_errors import XidErrors
from ownlab.instruments.doctor.rules.drivers.card_initialisation import FabricNotReady, NoDevice, NoVisibleGpu, SmiHang
from ownlab.instruments.doctor.rules.drivers.driver_library_mismatch import (
    DriverCombination,
    DriverMismatch,
    ForwardCompatibility,
)
from ownlab.instruments.doctor.rules.drivers.driver_missing import NoDriver
from ownlab.instruments.doctor.rules.drivers.driver_version import DriverEnd, DriverOld
from ownlab.instruments.doctor.rules.drivers.kernel_module import (
    HmmRegion,
    ModuleFlavour,
    ModuleRejected,
    NoSmi,
    Nouveau,
    UvmMissing,
)
from ownlab.instruments.doctor.rules.environment.containers import (
    ContainerWithoutGpu,
    ImageNeedsDriver,
    NvmlUnknown,
    RuntimeMissing,
    SmallShm,
)
from ownlab.instruments.doctor.rules.environment.host_resources import (
    DiskFull,
    FewCores,
    HostMemory,
    NoAccelerator,
    OomKilled,
    RaidDegraded,
    SlowDisk,
)
from ownlab.instruments.doctor.rules.environment.wsl import Wsl
from ownlab.instruments.doctor.rules.software.cuda_libraries import CudnnMissing, CudnnShadow, LibraryMissing
from ownlab.instruments.doctor.rules.software.cuda_toolkit import (
    CompilerTooNew,
    CudaMismatch,
    PtxTooNew,
    ToolkitArch,
    ToolkitDiff,
)
from ownlab.instruments.doctor.rules.software.framework_builds import CpuBuild, NoKernel, RocmBuild, XpuBuild
from ownlab.instruments.doctor.rules.software.framework_import import FrameworkBroken
from ownlab.instruments.doctor.rules.software.program_errors import (
    CheckpointCuda,
    CublasError,
    DeviceAssert,
    DeviceMixed,
    FlashAttentionCard,
    ForkedCuda,
    IllegalAccess,
    NcclError,
    QuantisationBuild,
    ServingMemory,
)
from ownlab.instruments.doctor.rules.software.python_environment import (
    AllocConf,
    FrameworkAbsent,
    InterpreterBroken,
    ModuleMissing,
    Musl,
)

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
