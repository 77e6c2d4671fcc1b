"""The records of a machine: returned by `read_machine()`, saved to files, checked by the doctor's rules.

Every fact defaults to `NOT_READ`, so that a machine may be known in part, for example from pasted text. Sizes are in
bytes, frequencies in MHz, power in watts, temperatures in °C; each known fact carries its unit and its source.
Fields are only added, never removed or renamed: saved machines stay readable.
"""

from __future__ import annotations

from msgspec import Struct

from ownlab.machine.facts import NOT_READ, Fact

__all__ = [
    "Amd",
    "Ascend",
    "Card",
    "CardProcess",
    "Clocks",
    "Cpu",
    "CudaInstall",
    "DeviceFile",
    "Disk",
    "Ecc",
    "Framework",
    "FrameworkDevice",
    "Host",
    "Interpreter",
    "Library",
    "LibraryInstall",
    "Machine",
    "Memory",
    "MigInstance",
    "Network",
    "Nvidia",
    "Package",
    "PciDevice",
    "Pcie",
    "RaidArray",
    "Toolkits",
    "Tpu",
    "Variable",
]


# --- the host ---------------------------------------------------------------------------------------------------------


class Cpu(Struct, frozen=True):
    model: Fact[str] = NOT_READ
    architecture: Fact[str] = NOT_READ  # x86_64, aarch64, arm64
    physical_cores: Fact[int] = NOT_READ
    logical_cores: Fact[int] = NOT_READ
    usable_cores: Fact[float] = (
        NOT_READ  # after affinity and cgroup quota, which may be 1.5 cores; the source names the limit
    )
    instruction_sets: Fact[tuple[str, ...]] = (
        NOT_READ  # those that matter for machine learning: AVX2, AVX-512, VNNI, AMX, BF16, SVE, NEON
    )


class Memory(Struct, frozen=True):
    total: Fact[int] = NOT_READ
    available: Fact[int] = NOT_READ
    cgroup_limit: Fact[int] = NOT_READ  # Unknown("no limit") where there is none
    swap_total: Fact[int] = NOT_READ
    shm_total: Fact[int] = NOT_READ  # /dev/shm, through which data-loader workers pass their batches
    shm_free: Fact[int] = NOT_READ


class Disk(Struct, frozen=True):
    mount: str
    device: str
    filesystem: str
    total: Fact[int] = NOT_READ
    free: Fact[int] = NOT_READ
    rotational: Fact[bool] = NOT_READ
    remote: bool = False  # NFS, CIFS, FUSE and similar


class RaidArray(Struct, frozen=True):
    """A software RAID array, from /proc/mdstat."""

    name: str
    level: str
    state: str  # active, inactive
    members: tuple[str, ...]
    degraded: bool


class Network(Struct, frozen=True):
    """Features that let GPUs transfer data to storage and to other machines without the CPU."""

    rdma_devices: Fact[tuple[str, ...]] = NOT_READ  # /sys/class/infiniband
    gpudirect_rdma: Fact[bool] = (
        NOT_READ  # by nvidia_peermem or nv_peer_mem; the kernel does not show whether dma-buf is used instead
    )
    gpudirect_storage: Fact[bool] = NOT_READ  # nvidia_fs
    nvme_devices: Fact[tuple[str, ...]] = NOT_READ


class PciDevice(Struct, frozen=True):
    """A display controller or accelerator on the PCI bus, with or without a driver."""

    bus_id: str  # 0000:00:06.0
    vendor: str  # "10de"
    device: str  # "2335"
    kind: str  # "display", "3d", "accelerator"
    driver: str | None  # the kernel driver bound to it: nvidia, nouveau, vfio-pci, amdgpu; None if there is none


class Host(Struct, frozen=True):
    system: Fact[str] = NOT_READ  # "Ubuntu 24.04.3 LTS", "macOS 15.1", "Windows 11"
    family: Fact[str] = NOT_READ  # linux, darwin, windows
    kernel: Fact[str] = NOT_READ
    libc: Fact[str] = NOT_READ
    container: Fact[str] = NOT_READ  # docker, podman, kubernetes, lxc, apptainer, …; "none"
    virtualisation: Fact[str] = NOT_READ  # kvm, vmware, hyperv, wsl1, wsl2, firecracker, xen, …; "none"
    platform: Fact[str] = NOT_READ  # colab, kaggle, sagemaker, gradient, runpod, plain, …
    pid_namespace: Fact[bool] = NOT_READ  # True: this process has its own PID namespace and does not see others
    user_is_root: Fact[bool] = NOT_READ
    package_manager: Fact[str] = NOT_READ  # apt, dnf, zypper, pacman: fixes use it in their commands
    cpu: Cpu = Cpu()
    memory: Memory = Memory()
    disks: Fact[tuple[Disk, ...]] = NOT_READ
    raid: Fact[tuple[RaidArray, ...]] = NOT_READ
    network: Network = Network()
    pci: Fact[tuple[PciDevice, ...]] = NOT_READ
    modules: Fact[tuple[str, ...]] = (
        NOT_READ  # loaded kernel modules that matter: nvidia, nvidia_uvm, nouveau, amdgpu, …
    )
    secure_boot: Fact[bool] = NOT_READ
    kernel_log: Fact[tuple[str, ...]] = NOT_READ  # lines of NVRM, Xid, amdgpu; Unknown if the log is not readable


# --- accelerators -----------------------------------------------------------------------------------------------------


class CardProcess(Struct, frozen=True):
    pid: int
    kind: str  # compute, graphics
    memory: Fact[int] = NOT_READ
    command: Fact[str] = NOT_READ  # program and script, never the options, which may contain secrets
    user: Fact[str] = NOT_READ


class Clocks(Struct, frozen=True):
    sm: Fact[int] = NOT_READ
    sm_max: Fact[int] = NOT_READ
    memory: Fact[int] = NOT_READ
    memory_max: Fact[int] = NOT_READ


class Pcie(Struct, frozen=True):
    """The link's current and maximum speed. An idle card lowers its generation to save power, but not its width."""

    generation: Fact[int] = NOT_READ
    generation_max: Fact[int] = NOT_READ
    width: Fact[int] = NOT_READ
    width_max: Fact[int] = NOT_READ


class Ecc(Struct, frozen=True):
    enabled: Fact[bool] = NOT_READ
    corrected: Fact[int] = NOT_READ  # since the driver was loaded
    uncorrected: Fact[int] = NOT_READ
    remap_pending: Fact[bool] = NOT_READ  # a row remapping takes effect at the next reset
    remap_failed: Fact[bool] = NOT_READ


class MigInstance(Struct, frozen=True):
    uuid: str
    profile: Fact[str] = NOT_READ  # 1g.18gb
    memory_total: Fact[int] = NOT_READ
    memory_used: Fact[int] = NOT_READ


class Card(Struct, frozen=True):
    """One accelerator as its driver shows it: an NVIDIA, AMD, Intel or Apple GPU, a TPU chip, an Ascend NPU."""

    vendor: str  # nvidia, amd, intel, apple, google, huawei
    index: int  # in the order of its vendor's tool (nvidia-smi: PCI bus order)
    name: Fact[str] = NOT_READ
    uuid: Fact[str] = NOT_READ
    bus_id: Fact[str] = NOT_READ
    architecture: Fact[str] = NOT_READ  # Hopper, gfx942, Da Vinci
    compute_capability: Fact[str] = NOT_READ  # NVIDIA: "9.0"
    memory_total: Fact[int] = NOT_READ
    memory_used: Fact[int] = NOT_READ
    utilisation: Fact[int] = NOT_READ  # percent of time in which any kernel ran
    power_draw: Fact[float] = NOT_READ
    power_limit: Fact[float] = NOT_READ
    temperature: Fact[int] = NOT_READ
    clocks: Clocks = Clocks()
    throttle_reasons: Fact[tuple[str, ...]] = (
        NOT_READ  # sw-power-cap, hw-slowdown, sw-thermal, hw-thermal, hw-power-brake, …
    )
    pcie: Pcie = Pcie()
    ecc: Ecc = Ecc()
    mig: Fact[bool] = NOT_READ
    mig_instances: Fact[tuple[MigInstance, ...]] = NOT_READ
    persistence: Fact[bool] = NOT_READ
    compute_mode: Fact[str] = NOT_READ  # default, exclusive-process, prohibited
    driver_model: Fact[str] = NOT_READ  # Windows: WDDM, TCC, MCDM
    fabric: Fact[str] = NOT_READ  # NVSwitch machines: completed, in-progress, not-started, not-supported
    integrated: bool = False  # part of the CPU, uses the machine's memory: for displays, not for training
    health: Fact[str] = NOT_READ  # "OK", or the driver's message about a card that it cannot read
    processes: Fact[tuple[CardProcess, ...]] = NOT_READ


class DeviceFile(Struct, frozen=True):
    path: str
    readable: bool
    writable: bool


class Nvidia(Struct, frozen=True):
    """NVIDIA's driver, as far as it is installed."""

    driver: Fact[str] = NOT_READ  # "580.159.04"
    cuda: Fact[str] = NOT_READ  # the newest CUDA version that the driver supports: "13.0"
    nvml: Fact[str] = NOT_READ  # version of libnvidia-ml; the reason is NVML's own error message
    smi: Fact[str] = NOT_READ  # version of nvidia-smi where it was run; the reason is its output
    library_version: Fact[str] = NOT_READ  # version of the libcuda / libnvidia-ml files on disk
    module_version: Fact[str] = NOT_READ  # /sys/module/nvidia/version
    module_flavour: Fact[str] = NOT_READ  # open, proprietary
    device_files: Fact[tuple[DeviceFile, ...]] = NOT_READ  # /dev/nvidia*
    profiling_restricted: Fact[bool] = NOT_READ  # RmProfilingAdminOnly


class Amd(Struct, frozen=True):
    driver: Fact[str] = NOT_READ  # amdgpu module's version
    rocm: Fact[str] = NOT_READ
    kfd: Fact[DeviceFile] = NOT_READ  # /dev/kfd


class Tpu(Struct, frozen=True):
    accelerator_type: Fact[str] = NOT_READ  # v5litepod-8, from the environment or device ids
    device_files: Fact[tuple[str, ...]] = NOT_READ  # /dev/accel*, /dev/vfio/*
    libtpu: Fact[str] = NOT_READ


class Ascend(Struct, frozen=True):
    driver: Fact[str] = NOT_READ
    smi: Fact[str] = NOT_READ  # version of npu-smi
    cann: Fact[str] = NOT_READ


# --- software ---------------------------------------------------------------------------------------------------------


class CudaInstall(Struct, frozen=True):
    path: str
    version: Fact[str] = NOT_READ
    has_nvcc: bool = False


class LibraryInstall(Struct, frozen=True):
    """A copy of cuDNN or NCCL on disk."""

    path: str
    version: Fact[str] = NOT_READ
    origin: str = "system"  # system, wheel, conda, LD_LIBRARY_PATH


class Library(Struct, frozen=True):
    """One of CUDA's shared libraries, and whether the dynamic loader finds it in the interpreter."""

    name: str  # libcudart.so
    purpose: str  # "CUDA runtime"
    loaded: Fact[str] = NOT_READ  # path or soname that was loaded; the reason is the loader's message


class Toolkits(Struct, frozen=True):
    nvcc: Fact[str] = NOT_READ  # version of the nvcc first on PATH (or in CUDA_HOME)
    nvcc_path: Fact[str] = NOT_READ
    cuda_home: Fact[str] = NOT_READ
    installs: Fact[tuple[CudaInstall, ...]] = NOT_READ
    cudnn: Fact[tuple[LibraryInstall, ...]] = NOT_READ
    nccl: Fact[tuple[LibraryInstall, ...]] = NOT_READ
    libraries: Fact[tuple[Library, ...]] = NOT_READ


class Package(Struct, frozen=True):
    name: str
    version: str


class FrameworkDevice(Struct, frozen=True):
    name: str  # "NVIDIA H200"
    kind: str = "cuda"  # cuda, rocm, mps, xpu, npu, tpu
    compute_capability: str | None = None
    memory_total: int | None = None


class Framework(Struct, frozen=True):
    """torch, TensorFlow, JAX, CuPy or numba.cuda, as it reports itself in the interpreter."""

    name: str  # torch, tensorflow, jax, cupy, numba
    version: Fact[str] = NOT_READ
    build: Fact[str] = NOT_READ  # what it was built for: cuda, rocm, xpu, mps, cpu
    cuda: Fact[str] = NOT_READ  # the CUDA version it was built with
    rocm: Fact[str] = NOT_READ
    cudnn: Fact[str] = NOT_READ
    nccl: Fact[str] = NOT_READ
    arch_list: Fact[tuple[str, ...]] = NOT_READ  # sm_90, compute_90 (PTX), gfx942
    devices: Fact[tuple[FrameworkDevice, ...]] = NOT_READ  # the devices it sees
    error: str | None = None  # its own message where it sees no device or fails
    failure: str | None = None  # "import" (it raised), "crash" (a signal killed it), "hang" (it did not answer in time)
    import_seconds: Fact[float] = NOT_READ


class Interpreter(Struct, frozen=True):
    """The Python interpreter in question and what is installed in it."""

    path: Fact[str] = NOT_READ
    version: Fact[str] = NOT_READ
    origin: str = ""  # what selected it: --python, OWNLAB_PYTHON, VIRTUAL_ENV, CONDA_PREFIX, ownlab's own
    packages: Fact[tuple[Package, ...]] = NOT_READ  # only relevant ones: frameworks, nvidia-*, cupy-*, JAX plugins
    frameworks: Fact[tuple[Framework, ...]] = NOT_READ
    others: Fact[tuple[str, ...]] = NOT_READ  # further interpreters on PATH
    architecture: Fact[str] = (
        NOT_READ  # what it was built for: x86_64, arm64; under Rosetta this differs from the machine
    )


class Variable(Struct, frozen=True):
    """An environment variable that affects accelerators."""

    name: str
    value: str
    meaning: str  # what this value does on this machine, as sentences


class Machine(Struct, frozen=True):
    """A computer, as far as it is known."""

    format: int = 1
    origin: str = "live"  # live, pasted
    taken_at: str = ""  # ISO 8601, UTC
    ownlab: str = ""  # the version of ownlab that read it
    host: Host = Host()
    cards: Fact[tuple[Card, ...]] = NOT_READ
    nvidia: Nvidia = Nvidia()
    amd: Amd = Amd()
    tpu: Tpu = Tpu()
    ascend: Ascend = Ascend()
    toolkits: Toolkits = Toolkits()
    interpreter: Interpreter = Interpreter()
    environment: Fact[tuple[Variable, ...]] = NOT_READ
