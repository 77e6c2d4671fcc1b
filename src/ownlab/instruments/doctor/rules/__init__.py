"""The list of all rules, causes before effects.

The verdict names the first blocking finding, so a driver that does not load comes before a framework that sees no device
because of it.

- `drivers/`: driver_version (too old, end of life), driver_missing, driver_library_mismatch, kernel_module,
  module_build, module_upkeep and driver_packages (as distributions print it), card_support, card_initialisation (the driver cannot start
  or reach a card).
- `devices/`: permissions, device_visibility (hidden cards, numbering, exclusive mode, MIG), card_health (lost cards, ECC,
  throttling, PCIe), card_faults, card_memory, device_limits, xid_errors, amd, npu_tpu_intel and accelerator_errors, other_vendors.
- `software/`: framework_builds (CPU-only build, no kernel image), framework_import, python_environment, cuda_libraries,
  cuda_toolkit, package_builds and package_sets (what does not belong together), extension_builds, card_features,
  launch_failures, library_errors, distributed, program_backends (programs without their GPU part), program_errors (errors of a program),
  package_tools (pip, conda, apt, installers), harmless_notices, last_resort (what no other rule knows).
- `cluster/`: access, nodes, agreement: a Slurm cluster (`ownlab doctor --cluster`).
- `environment/`: containers, container_engines, graphics_libraries, wsl, wsl_libraries, host_resources (CPU, memory, disks).
"""

from __future__ import annotations

import difflib

from ownlab.errors import UsageError
from ownlab.instruments.doctor.rule import Rule
from ownlab.instruments.doctor.rules.cluster import CLUSTER_RULES
from ownlab.instruments.doctor.rules.devices.amd import AmdCardFault, RocmAtomics, RocmLibraries, RocmWsl
from ownlab.instruments.doctor.rules.devices.card_faults import CardFault
from ownlab.instruments.doctor.rules.devices.card_health import (
    CardLost,
    EccErrors,
    NoBfloat16,
    PersistenceOff,
    SlowPcieLink,
    Throttling,
)
from ownlab.instruments.doctor.rules.devices.card_memory import CardMemoryInUse, OutOfMemory
from ownlab.instruments.doctor.rules.devices.device_limits import (
    AllocatorFragmentation,
    ClusterAllocation,
    CudaMpsServer,
    LeftoverProcess,
    MigSeveralInstances,
    PagingFile,
    ProcessLimits,
)
from ownlab.instruments.doctor.rules.devices.device_visibility import (
    DeviceOrder,
    ExclusiveComputeMode,
    HiddenDevices,
    InvalidDeviceOrdinal,
    MigMode,
)
from ownlab.instruments.doctor.rules.devices.driver_queries import ManagementRefused, NvmlQuery, VirtualGpuLicense
from ownlab.instruments.doctor.rules.devices.npu_tpu_intel import AscendEnvironment, IntelGpu, TpuUnavailable
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
from ownlab.instruments.doctor.rules.drivers.card_support import (
    CardUnsupportedByDriver,
    DriverFirmware,
    Passthrough,
    PciResources,
    PowerTransitions,
    WindowsDeviceError,
)
from ownlab.instruments.doctor.rules.drivers.driver_library_mismatch import (
    DriverLibraryMismatch,
    MixedDriverVersions,
    UnsupportedForwardCompatibility,
)
from ownlab.instruments.doctor.rules.drivers.driver_missing import NoDriver
from ownlab.instruments.doctor.rules.drivers.driver_packages import (
    DriverPackagesBroken,
    DriverPackagesMixed,
    RepositoryKey,
)
from ownlab.instruments.doctor.rules.drivers.driver_version import DriverEndOfLife, DriverTooOld
from ownlab.instruments.doctor.rules.drivers.hybrid_graphics import HybridGraphics
from ownlab.instruments.doctor.rules.drivers.kernel_module import (
    KernelModuleNotLoaded,
    KernelModuleRejected,
    NouveauInUse,
    WrongKernelModuleFlavour,
)
from ownlab.instruments.doctor.rules.drivers.module_build import (
    DriverInstallerFailed,
    ModuleBuildFailed,
    ModuleLoadFailed,
)
from ownlab.instruments.doctor.rules.drivers.module_upkeep import KernelCrash, ModuleUpkeep
from ownlab.instruments.doctor.rules.drivers.unified_memory import HmmRegionMissing, UvmModuleMissing
from ownlab.instruments.doctor.rules.environment.container_daemon import ContainerDaemon
from ownlab.instruments.doctor.rules.environment.container_engines import (
    ContainerCliError,
    ContainerEngineTooOld,
    DockerDesktopOutdated,
    RocmContainer,
)
from ownlab.instruments.doctor.rules.environment.containers import (
    ContainerToolkitMissing,
    ContainerWithoutGpu,
    ImageNeedsNewerDriver,
    NvmlUnknownError,
    SmallSharedMemory,
)
from ownlab.instruments.doctor.rules.environment.graphics_libraries import (
    GraphicsLibraries,
    OpenClRuntime,
    VideoEncoder,
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
from ownlab.instruments.doctor.rules.environment.kubernetes import KubernetesGpu, MonitoringExporter
from ownlab.instruments.doctor.rules.environment.wsl import WslLimits
from ownlab.instruments.doctor.rules.environment.wsl_libraries import WslLibraries, WslNoModule
from ownlab.instruments.doctor.rules.software.card_features import (
    CardTooOldForLibrary,
    GpuNotFound,
    ManagedMemory,
    TensorFlowMemory,
    TensorRtLibrary,
)
from ownlab.instruments.doctor.rules.software.cuda_libraries import CudaLibraryMissing, CudnnMissing, ShadowedCudnn
from ownlab.instruments.doctor.rules.software.cuda_toolkit import (
    CudaVersionMismatch,
    HostCompilerTooNew,
    PtxTooNew,
    ToolkitLacksArchitecture,
    ToolkitVersionDiffers,
)
from ownlab.instruments.doctor.rules.software.cudnn_versions import BuildOlderThanCudnn
from ownlab.instruments.doctor.rules.software.distributed import (
    CollectiveSetup,
    LockedMemory,
    PcieTopology,
    RendezvousFailed,
)
from ownlab.instruments.doctor.rules.software.extension_builds import ExtensionBuildFailed, TritonCompiler, XlaTools
from ownlab.instruments.doctor.rules.software.framework_builds import (
    CpuOnlyBuild,
    NoKernelImage,
    RocmBuildMissing,
    XpuBuildMissing,
)
from ownlab.instruments.doctor.rules.software.framework_import import FrameworkImportFailed
from ownlab.instruments.doctor.rules.software.framework_versions import FrameworkVersion
from ownlab.instruments.doctor.rules.software.harmless_notices import HarmlessNotice
from ownlab.instruments.doctor.rules.software.last_resort import CudaErrorName, KnownComponent, SeveralCauses
from ownlab.instruments.doctor.rules.software.launch_failures import DriverReset, IllegalMemoryAccess
from ownlab.instruments.doctor.rules.software.launchers import LauncherSetup
from ownlab.instruments.doctor.rules.software.library_errors import (
    AppleGpuLimits,
    CudaLibraryError,
    DeviceRequest,
    LaunchTimeout,
    ShadowedCudaLibrary,
)
from ownlab.instruments.doctor.rules.software.package_builds import (
    CpuOnlyPackage,
    ExtensionMismatch,
    JaxBuild,
    WheelNotFound,
)
from ownlab.instruments.doctor.rules.software.package_conflicts import PackageConflict, SystemLibraryMissing
from ownlab.instruments.doctor.rules.software.package_sets import MixedPackages, TorchSeesNoGpu
from ownlab.instruments.doctor.rules.software.package_tools import PackageTool
from ownlab.instruments.doctor.rules.software.program_backends import ProgramBackend
from ownlab.instruments.doctor.rules.software.program_errors import (
    BitsandbytesWithoutCuda,
    CheckpointDeviceMissing,
    CublasError,
    CudaAfterFork,
    DeviceAssert,
    FlashAttentionUnsupported,
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
from ownlab.instruments.doctor.rules.software.runtime_errors import RuntimeFailure, UnfitLibrary
from ownlab.text import listing, text

__all__ = ["RULES", "find_rule"]

RULES: tuple[type[Rule], ...] = (
    # the hardware
    CardLost,
    XidErrors,
    EccErrors,
    CardFault,
    # containers and WSL, between the program and the driver
    ContainerToolkitMissing,
    KubernetesGpu,
    RocmContainer,
    ContainerEngineTooOld,
    DockerDesktopOutdated,
    ContainerCliError,
    ContainerDaemon,
    ImageNeedsNewerDriver,
    NvmlUnknownError,
    ContainerWithoutGpu,
    WslLimits,
    RocmWsl,
    WslNoModule,
    WslLibraries,
    # the kernel module
    WrongKernelModuleFlavour,
    CardUnsupportedByDriver,
    PciResources,
    PowerTransitions,
    KernelModuleRejected,
    NouveauInUse,
    ModuleBuildFailed,
    ModuleLoadFailed,
    ModuleUpkeep,
    KernelCrash,
    DriverPackagesBroken,
    DriverPackagesMixed,
    HybridGraphics,
    DriverInstallerFailed,
    DriverFirmware,
    WindowsDeviceError,
    Passthrough,
    RepositoryKey,
    KernelModuleNotLoaded,
    HmmRegionMissing,
    UvmModuleMissing,
    # the driver's library
    DriverLibraryMismatch,
    MixedDriverVersions,
    UnsupportedForwardCompatibility,
    NvmlQuery,
    VirtualGpuLicense,
    # the driver and the cards it starts
    DriverHang,
    CardInitialisationFailed,
    FabricManagerNotReady,
    DeviceFilePermission,
    NoDriver,
    DriverTooOld,
    DriverEndOfLife,
    # the devices that a program sees
    ClusterAllocation,
    HiddenDevices,
    ExclusiveComputeMode,
    CudaMpsServer,
    MigMode,
    DeviceOrder,
    MigSeveralInstances,
    InvalidDeviceOrdinal,
    NoVisibleGpu,
    JaxBuild,
    ProgramBackend,
    # the interpreter and its frameworks
    InterpreterBroken,
    MuslLibc,
    FrameworkImportFailed,
    TensorRtLibrary,
    CpuOnlyPackage,
    ExtensionMismatch,
    CudaLibraryMissing,
    CudnnMissing,
    ShadowedCudnn,
    BuildOlderThanCudnn,
    ShadowedCudaLibrary,
    CpuOnlyBuild,
    RocmBuildMissing,
    XpuBuildMissing,
    ManagedMemory,
    NoKernelImage,
    CudaVersionMismatch,
    MixedPackages,
    PythonModuleMissing,
    FrameworkNotInstalled,
    AllocatorConfig,
    ToolkitLacksArchitecture,
    HostCompilerTooNew,
    ExtensionBuildFailed,
    TritonCompiler,
    XlaTools,
    WheelNotFound,
    PackageConflict,
    FrameworkVersion,
    SystemLibraryMissing,
    PackageTool,
    PtxTooNew,
    ToolkitVersionDiffers,
    GpuNotFound,
    # other vendors
    AscendHealth,
    AscendSoftwareMissing,
    AscendEnvironment,
    RosettaPython,
    MpsUnavailable,
    LibtpuMissing,
    TpuUnavailable,
    IntelGpu,
    RocmAtomics,
    RocmLibraries,
    AmdCardFault,
    GraphicsLibraries,
    VideoEncoder,
    OpenClRuntime,
    # the state of the cards
    CardMemoryInUse,
    LeftoverProcess,
    OutOfMemory,
    TensorFlowMemory,
    AllocatorFragmentation,
    PagingFile,
    HarmlessNotice,
    Throttling,
    SlowPcieLink,
    PersistenceOff,
    NoBfloat16,
    CardTooOldForLibrary,
    RestrictedPerformanceCounters,
    ManagementRefused,
    # a program's own errors
    DeviceAssert,
    IllegalMemoryAccess,
    DriverReset,
    CublasError,
    CudaLibraryError,
    DeviceRequest,
    LaunchTimeout,
    AppleGpuLimits,
    LockedMemory,
    CollectiveSetup,
    PcieTopology,
    RendezvousFailed,
    NcclError,
    LauncherSetup,
    MixedDevices,
    CheckpointDeviceMissing,
    CudaAfterFork,
    KvCacheTooSmall,
    FlashAttentionUnsupported,
    BitsandbytesWithoutCuda,
    HostOutOfMemory,
    ProcessLimits,
    MonitoringExporter,
    # the host
    SmallSharedMemory,
    OomKilled,
    FewCpuCores,
    DiskFull,
    SlowDisk,
    RaidDegraded,
    RuntimeFailure,
    UnfitLibrary,
    CudaErrorName,
    TorchSeesNoGpu,
    NoAccelerator,
    SeveralCauses,
    KnownComponent,
    *CLUSTER_RULES,
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
