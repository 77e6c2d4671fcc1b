"""The list of all rules, causes before effects.

The verdict names the first blocking finding, so a driver that does not load comes before a framework that sees no device
because of it.

- `drivers/`: driver_version (too old, end of life), driver_missing, driver_library_mismatch, kernel_module,
  card_initialisation (the driver cannot start or reach a card).
- `devices/`: permissions, device_visibility (hidden cards, numbering, exclusive mode, MIG), card_health (lost cards, ECC,
  throttling, PCIe), card_memory, xid_errors, other_vendors (Ascend, Apple, TPU).
- `software/`: framework_builds (CPU-only build, no kernel image), framework_import, python_environment, cuda_libraries,
  cuda_toolkit, program_errors (CUDA, cuBLAS and NCCL errors of a program).
- `environment/`: containers, wsl, host_resources (CPU, memory, disks).
"""

from __future__ import annotations

import difflib

from ownlab.errors import UsageError
from ownlab.instruments.doctor.rule import Rule
from ownlab.instruments.doctor.rules.devices.card_health import (
    CardLost,
    EccErrors,
    NoBfloat16,
    PersistenceOff,
    SlowPcieLink,
    Throttling,
)
from ownlab.instruments.doctor.rules.devices.card_memory import CardMemoryInUse, OutOfMemory
from ownlab.instruments.doctor.rules.devices.device_visibility import (
    DeviceOrder,
    ExclusiveComputeMode,
    HiddenDevices,
    InvalidDeviceOrdinal,
    MigMode,
)
from ownlab.instruments.doctor.rules.devices.other_vendors import (
    AscendHealth,
    AscendSoftwareMissing,
    LibtpuMissing,
    MpsUnavailable,
    RosettaPython,
)
from ownlab.instruments.doctor.rules.devices.permissions import DeviceFilePermission, RestrictedPerformanceCounters
from ownlab.instruments.doctor.rules.devices.xid_errors import XidErrors
from ownlab.instruments.doctor.rules.drivers.card_initialisation import (
    CardInitialisationFailed,
    DriverHang,
    FabricManagerNotReady,
    NoVisibleGpu,
)
from ownlab.instruments.doctor.rules.drivers.driver_library_mismatch import (
    DriverLibraryMismatch,
    MixedDriverVersions,
    UnsupportedForwardCompatibility,
)
from ownlab.instruments.doctor.rules.drivers.driver_missing import NoDriver
from ownlab.instruments.doctor.rules.drivers.driver_version import DriverEndOfLife, DriverTooOld
from ownlab.instruments.doctor.rules.drivers.kernel_module import (
    HmmRegionMissing,
    KernelModuleNotLoaded,
    KernelModuleRejected,
    NouveauInUse,
    UvmModuleMissing,
    WrongKernelModuleFlavour,
)
from ownlab.instruments.doctor.rules.environment.containers import (
    ContainerToolkitMissing,
    ContainerWithoutGpu,
    ImageNeedsNewerDriver,
    NvmlUnknownError,
    SmallSharedMemory,
)
from ownlab.instruments.doctor.rules.environment.host_resources import (
    DiskFull,
    FewCpuCores,
    HostOutOfMemory,
    NoAccelerator,
    OomKilled,
    RaidDegraded,
    SlowDisk,
)
from ownlab.instruments.doctor.rules.environment.wsl import WslLimits
from ownlab.instruments.doctor.rules.software.cuda_libraries import CudaLibraryMissing, CudnnMissing, ShadowedCudnn
from ownlab.instruments.doctor.rules.software.cuda_toolkit import (
    CudaVersionMismatch,
    HostCompilerTooNew,
    PtxTooNew,
    ToolkitLacksArchitecture,
    ToolkitVersionDiffers,
)
from ownlab.instruments.doctor.rules.software.framework_builds import (
    CpuOnlyBuild,
    NoKernelImage,
    RocmBuildMissing,
    XpuBuildMissing,
)
from ownlab.instruments.doctor.rules.software.framework_import import FrameworkImportFailed
from ownlab.instruments.doctor.rules.software.program_errors import (
    BitsandbytesWithoutCuda,
    CheckpointDeviceMissing,
    CublasError,
    CudaAfterFork,
    DeviceAssert,
    FlashAttentionUnsupported,
    IllegalMemoryAccess,
    KvCacheTooSmall,
    MixedDevices,
    NcclError,
)
from ownlab.instruments.doctor.rules.software.python_environment import (
    AllocatorConfig,
    FrameworkNotInstalled,
    InterpreterBroken,
    MuslLibc,
    PythonModuleMissing,
)
from ownlab.text import listing, text

__all__ = ["RULES", "find_rule"]

RULES: tuple[type[Rule], ...] = (
    # the hardware
    CardLost,
    XidErrors,
    EccErrors,
    # containers and WSL, between the program and the driver
    ContainerToolkitMissing,
    ImageNeedsNewerDriver,
    NvmlUnknownError,
    ContainerWithoutGpu,
    WslLimits,
    # the kernel module
    KernelModuleRejected,
    NouveauInUse,
    WrongKernelModuleFlavour,
    KernelModuleNotLoaded,
    HmmRegionMissing,
    UvmModuleMissing,
    # the driver's library
    DriverLibraryMismatch,
    MixedDriverVersions,
    UnsupportedForwardCompatibility,
    # the driver and the cards it starts
    DriverHang,
    CardInitialisationFailed,
    FabricManagerNotReady,
    DeviceFilePermission,
    NoDriver,
    DriverTooOld,
    DriverEndOfLife,
    # the devices that a program sees
    HiddenDevices,
    ExclusiveComputeMode,
    MigMode,
    DeviceOrder,
    InvalidDeviceOrdinal,
    NoVisibleGpu,
    # the interpreter and its frameworks
    InterpreterBroken,
    MuslLibc,
    FrameworkImportFailed,
    CudaLibraryMissing,
    CudnnMissing,
    ShadowedCudnn,
    CpuOnlyBuild,
    RocmBuildMissing,
    XpuBuildMissing,
    NoKernelImage,
    CudaVersionMismatch,
    PythonModuleMissing,
    FrameworkNotInstalled,
    AllocatorConfig,
    ToolkitLacksArchitecture,
    HostCompilerTooNew,
    PtxTooNew,
    ToolkitVersionDiffers,
    # other vendors
    AscendHealth,
    AscendSoftwareMissing,
    RosettaPython,
    MpsUnavailable,
    LibtpuMissing,
    # the state of the cards
    CardMemoryInUse,
    OutOfMemory,
    Throttling,
    SlowPcieLink,
    PersistenceOff,
    NoBfloat16,
    RestrictedPerformanceCounters,
    # a program's own errors
    DeviceAssert,
    IllegalMemoryAccess,
    CublasError,
    NcclError,
    MixedDevices,
    CheckpointDeviceMissing,
    CudaAfterFork,
    KvCacheTooSmall,
    FlashAttentionUnsupported,
    BitsandbytesWithoutCuda,
    HostOutOfMemory,
    # the host
    SmallSharedMemory,
    OomKilled,
    FewCpuCores,
    DiskFull,
    SlowDisk,
    RaidDegraded,
    NoAccelerator,
)


def find_rule(code: str) -> type[Rule]:
    """Return the rule with this code or alias."""
    for rule in RULES:
        if code == rule.code or code in rule.aliases:
            return rule
    close = difflib.get_close_matches(code, [rule.code for rule in RULES], n=3)
    raise UsageError(
        text("Unknown rule {code!r}.", code=code),
        hint=text("Did you mean {codes}?", codes=listing(close, "{items} or {last}"))
        if close
        else text("List all codes: ownlab doctor --explain all"),
    )
