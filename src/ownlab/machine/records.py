"""The machine as records: what `read_machine()` returns, what is saved, what the doctor's rules look at.

Every field has a default of `NOT_READ`, so that a machine can be known in part (from a pasted text, say). Sizes are in
bytes, frequencies in MHz, power in watts, temperatures in °C; each known fact carries that unit and its source.
Fields are only ever added: saved machines stay readable.
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
        NOT_READ  # under affinity and cgroup quota; a quota may be 1.5 cores; the source says which
    )
    instruction_sets: Fact[tuple[str, ...]] = (
        NOT_READ  # of those that matter: AVX2, AVX-512, VNNI, AMX, BF16, SVE, NEON
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
    remote: bool = False  # NFS, CIFS, FUSE and their like


class RaidArray(Struct, frozen=True):
    """A software RAID array, from /proc/mdstat."""

    name: str
    level: str
    state: str  # active, inactive
    members: tuple[str, ...]
    degraded: bool


class Network(Struct, frozen=True):
    """What lets GPUs speak to storage and to other machines without the CPU."""

    rdma_devices: Fact[tuple[str, ...]] = NOT_READ  # /sys/class/infiniband
    gpudirect_rdma: Fact[bool] = NOT_READ  # nvidia_peermem or nv_peer_mem; whether dma-buf serves it is not told
    gpudirect_storage: Fact[bool] = NOT_READ  # nvidia_fs
    nvme_devices: Fact[tuple[str, ...]] = NOT_READ


class PciDevice(Struct, frozen=True):
    """A display controller or accelerator on the PCI bus, whether or not a driver serves it."""

    bus_id: str  # 0000:00:06.0
    vendor: str  # "10de"
    device: str  # "2335"
    kind: str  # "display", "3d", "accelerator"
    driver: str | None  # the kernel driver bound to it: nvidia, nouveau, vfio-pci, amdgpu; None: none is


class Host(Struct, frozen=True):
    system: Fact[str] = NOT_READ  # "Ubuntu 24.04.3 LTS", "macOS 15.1", "Windows 11"
    family: Fact[str] = NOT_READ  # linux, darwin, windows
    kernel: Fact[str] = NOT_READ
    libc: Fact[str] = NOT_READ
    container: Fact[str] = NOT_READ  # docker, podman, kubernetes, lxc, apptainer, …; "none"
    virtualisation: Fact[str] = NOT_READ  # kvm, vmware, hyperv, wsl1, wsl2, firecracker, xen, …; "none"
    platform: Fact[str] = NOT_READ  # colab, kaggle, sagemaker, gradient, runpod, plain, …
    pid_namespace: Fact[bool] = NOT_READ  # True: a PID namespace of our own hides other processes from us
    user_is_root: Fact[bool] = NOT_READ
    package_manager: Fact[str] = NOT_READ  # apt, dnf, zypper, pacman: so that a fix is a command that works here
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
    kernel_log: Fact[tuple[str, ...]] = NOT_READ  # lines of NVRM, Xid, amdgpu; Unknown where the log may not be read


# --- accelerators -----------------------------------------------------------------------------------------------------


class CardProcess(Struct, frozen=True):
    pid: int
    kind: str  # compute, graphics
    memory: Fact[int] = NOT_READ
    command: Fact[str] = NOT_READ  # program and script, never the options: they may hold secrets
    user: Fact[str] = NOT_READ


class Clocks(Struct, frozen=True):
    sm: Fact[int] = NOT_READ
    sm_max: Fact[int] = NOT_READ
    memory: Fact[int] = NOT_READ
    memory_max: Fact[int] = NOT_READ


class Pcie(Struct, frozen=True):
    """The link as it is now and at most. An idle card lowers its generation to save power; its width stays."""

    generation: Fact[int] = NOT_READ
    generation_max: Fact[int] = NOT_READ
    width: Fact[int] = NOT_READ
    width_max: Fact[int] = NOT_READ


class Ecc(Struct, frozen=True):
    enabled: Fact[bool] = NOT_READ
    corrected: Fact[int] = NOT_READ  # since the driver was loaded
    uncorrected: Fact[int] = NOT_READ
    remap_pending: Fact[bool] = NOT_READ  # a row remap waits for a reset
    remap_failed: Fact[bool] = NOT_READ


class MigInstance(Struct, frozen=True):
    uuid: str
    profile: Fact[str] = NOT_READ  # 1g.18gb
    memory_total: Fact[int] = NOT_READ
    memory_used: Fact[int] = NOT_READ


class Card(Struct, frozen=True):
    """One accelerator as its driver presents it: an NVIDIA, AMD, Intel or Apple GPU, a TPU chip, an Ascend NPU."""

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
    integrated: bool = False  # part of the CPU, with the machine's memory: draws screens, and is no place to train
    health: Fact[str] = NOT_READ  # "OK", or what the driver says of a card that it cannot read
    processes: Fact[tuple[CardProcess, ...]] = NOT_READ


class DeviceFile(Struct, frozen=True):
    path: str
    readable: bool
    writable: bool


class Nvidia(Struct, frozen=True):
    """NVIDIA's driver, as far as it is here."""

    driver: Fact[str] = NOT_READ  # "580.159.04"
    cuda: Fact[str] = NOT_READ  # newest CUDA that the driver serves: "13.0"
    nvml: Fact[str] = NOT_READ  # version of libnvidia-ml; Unknown has NVML's own error text
    smi: Fact[str] = NOT_READ  # version of nvidia-smi where it was asked; Unknown has its words
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
    """A copy of cuDNN or NCCL that was found."""

    path: str
    version: Fact[str] = NOT_READ
    origin: str = "system"  # system, wheel, conda, LD_LIBRARY_PATH


class Library(Struct, frozen=True):
    """One of CUDA's shared libraries, and whether the dynamic loader finds it from the interpreter asked about."""

    name: str  # libcudart.so
    purpose: str  # "CUDA runtime"
    loaded: Fact[str] = NOT_READ  # path or soname that loaded; Unknown has the loader's words


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
    """torch, TensorFlow, JAX, CuPy or numba.cuda, as it answered in the interpreter asked about."""

    name: str  # torch, tensorflow, jax, cupy, numba
    version: Fact[str] = NOT_READ
    build: Fact[str] = NOT_READ  # cuda, rocm, xpu, mps, cpu: what it was built for
    cuda: Fact[str] = NOT_READ  # CUDA that it was built with
    rocm: Fact[str] = NOT_READ
    cudnn: Fact[str] = NOT_READ
    nccl: Fact[str] = NOT_READ
    arch_list: Fact[tuple[str, ...]] = NOT_READ  # sm_90, compute_90 (PTX), gfx942
    devices: Fact[tuple[FrameworkDevice, ...]] = NOT_READ  # what it sees; Unknown has why that could not be asked
    error: str | None = None  # its own words where it sees no device, or fails
    failure: str | None = None  # "import" (raised), "crash" (died of a signal), "hang" (did not answer in time)
    import_seconds: Fact[float] = NOT_READ


class Interpreter(Struct, frozen=True):
    """The Python that is asked about, and what is installed in it."""

    path: Fact[str] = NOT_READ
    version: Fact[str] = NOT_READ
    origin: str = ""  # why this one: --python, OWNLAB_PYTHON, VIRTUAL_ENV, CONDA_PREFIX, ownlab's own
    packages: Fact[tuple[Package, ...]] = (
        NOT_READ  # of those that matter here: frameworks, nvidia-*, cupy-*, jax plugins
    )
    frameworks: Fact[tuple[Framework, ...]] = NOT_READ
    others: Fact[tuple[str, ...]] = NOT_READ  # further interpreters on PATH
    architecture: Fact[str] = NOT_READ  # what it was built for: x86_64, arm64; under Rosetta not the machine's own


class Variable(Struct, frozen=True):
    """An environment variable that decides something about accelerators."""

    name: str
    value: str
    meaning: str  # what this value does here, in words


class Machine(Struct, frozen=True):
    """A whole computer, as far as it is known."""

    format: int = 1
    origin: str = "live"  # live, pasted
    taken_at: str = ""  # ISO 8601, UTC
    ownlab: str = ""  # version that wrote it
    host: Host = Host()
    cards: Fact[tuple[Card, ...]] = NOT_READ
    nvidia: Nvidia = Nvidia()
    amd: Amd = Amd()
    tpu: Tpu = Tpu()
    ascend: Ascend = Ascend()
    toolkits: Toolkits = Toolkits()
    interpreter: Interpreter = Interpreter()
    environment: Fact[tuple[Variable, ...]] = NOT_READ
