"""The rule about messages that look like errors and are none."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.instruments.doctor.rules.software.framework_notices import FRAMEWORK_NOTICES
from ownlab.text import text

__all__ = ["HarmlessNotice"]

_NOTHING = (text("Nothing needs to be done."),)


class HarmlessNotice(CauseRule):
    """The messages are notices without consequence.

    **Why it matters.** Frameworks and kernels print warnings about optional parts, other hardware or future changes. People
    reinstall working systems because of them.

    **What to do.** Nothing. If something does not work, the reason is another one: look for the last error instead.

    **Sources.** tensorflow, xla and jax sources of the messages; pytorch, sdp_utils.cpp; initramfs-tools, hook-functions;
    bumblebee#646; nvidia-docker#179.
    """

    code = "harmless"
    severity = "note"
    title = text("These messages are harmless")
    causes = (
        *FRAMEWORK_NOTICES,
        Cause(
            r"OpenCL: Failed to get number of platforms with clGetPlatformIDs\(\): -1001",
            text("Harmless: hwloc says that no OpenCL runtime is installed"),
            text(
                "hwloc (of MPI and others) asks each interface for devices. The OpenCL loader is there, without a runtime."
            ),
            (
                text(
                    "Nothing needs to be done. To hide it: export HWLOC_COMPONENTS=-opencl. A program that computes with OpenCL needs a runtime."
                ),
            ),
        ),
        Cause(
            r"Torch was not compiled with flash attention|Flash attention kernel not used|Memory efficient kernel not used|flash attention[^\n]*not (?:available|compiled)[^\n]*(?:slow|fall)",
            text("Harmless: torch says that one of several attention kernels is not in this build"),
            text("Windows builds of torch lack flash attention; torch uses another kernel that computes the same."),
            _NOTHING,
        ),
        Cause(
            r"Unable to register cu(?:DNN|FFT|BLAS) factory|computation_placer already registered|Attempting to register factory for plugin",
            text("Harmless: TensorFlow's libraries are registered twice"),
            text(
                "Two parts of TensorFlow (or TensorFlow beside another framework) register the same libraries; the second registration is ignored."
            ),
            _NOTHING,
        ),
        Cause(
            r"TF-TRT Warning: (?:Could not|Cannot)|Could not load dynamic library 'libnvinfer\S*'|Could not find TensorRT|cannot dlopen some TensorRT libraries",
            text("Harmless: TensorRT is not installed, and is optional"),
            text("TensorFlow looks for TensorRT, which only speeds up some kinds of inference."),
            _NOTHING,
        ),
        Cause(
            r"CPU supports instructions that this TensorFlow binary was not compiled|This TensorFlow binary is optimized (?:to use|with)|oneDNN custom operations are on|To enable the following instructions: |MLIR[^\n]*optimization passes|rebuild TensorFlow with the appropriate compiler flags",
            text("Harmless: TensorFlow says which CPU instructions it uses"),
            text("The prebuilt program does not use every instruction of this CPU. Results are right."),
            (text("Nothing needs to be done. To hide it: export TF_CPP_MIN_LOG_LEVEL=2"),),
        ),
        Cause(
            r"successful NUMA node read from SysFS had negative value|could not open file to read NUMA node|could not identify NUMA node|kernel may not have been built with NUMA support|Failed to get CPU frequency|Your kernel may (?:not )?have been built without NUMA|TFRT|Overriding (?:orig_value|allow_growth) setting",
            text("Harmless: the machine has one memory node, or does not name it"),
            text("TensorFlow reads to which memory node the card belongs; with one node, the kernel reports none."),
            _NOTHING,
        ),
        Cause(
            r"ran out of memory trying to allocate[^\n]*(?:caller indicates that this is not a failure|performance gains)|The caller indicates that this is not a failure",
            text("Harmless: TensorFlow tried a faster method that needs more memory, and took another"),
            text("It says so itself: this is not a failure."),
            (text("Nothing needs to be done; a smaller batch may be faster."),),
        ),
        Cause(
            r"Couldn't (?:get ptxas version|invoke ptxas)|Relying on driver to perform ptx compilation|ptxas[^\n]*returned an error code: 1, output:[^\n]*",
            text("Harmless: the driver compiles instead of ptxas"),
            text("The toolkit's ptxas is not on the path; the driver does the same work."),
            _NOTHING,
        ),
        Cause(
            r"(?<!RuntimeError: )Unable to initialize backend '(?:tpu|tpu_driver|rocm|interpreter|METAL|plugin)'|Starting the local TPU driver|(?<!INVALID_ARGUMENT: )TpuPlatform is not available|libtpu\.so: cannot open shared object file",
            text("Harmless: JAX looks for other kinds of accelerators, and finds none"),
            text("JAX tries TPU, ROCm and others in turn, and says which ones this machine does not have."),
            (text("Nothing needs to be done. To see what JAX uses: python -c 'import jax; print(jax.devices())'"),),
        ),
        Cause(
            r"matching Triton is not available|triton is not available[,.]? some optimi[sz]ations|No module named 'triton'|triton not found; flop counting|Triton is not (?:available|supported) on (?:this platform|Windows)",
            text("Harmless: Triton is not installed, and some optimisations are off"),
            text("There is no official Triton for Windows. The program works without it, a little slower."),
            (text("Nothing needs to be done. Only torch.compile and packages that require Triton need it."),),
        ),
        Cause(
            r"Possible missing firmware /lib/firmware/|Direct firmware load for (?:amdgpu|i915|radeon|xe|rtl_nic|iwlwifi)/\S+ failed with error -2|Failed to load firmware \"?(?:amdgpu|i915)/",
            text("Harmless: an optional firmware file for this or other hardware is missing"),
            text(
                "The tool lists every file that the module could use on any chip, and the driver works without optional ones. If the card does not work, update linux-firmware."
            ),
            (
                text(
                    "Nothing needs to be done as long as the card works. To silence it: install the newest linux-firmware."
                ),
            ),
        ),
        Cause(
            r"is not a symbolic link",
            text("Harmless: a library of WSL is a copy instead of a link"),
            text("The Windows driver puts copies into /usr/lib/wsl/lib; ldconfig only remarks on it."),
            (
                text(
                    "Nothing needs to be done. To silence it, replace the copies by links in C:\\Windows\\System32\\lxss\\lib."
                ),
            ),
        ),
        Cause(
            r"failed to set DRM interface version 1\.4|nvidia-gpu \S+ i2c timeout|ucsi_ccg[^\n]*(?:fail|error)|_DSM: Argument #4 type mismatch|vgaarb: (?:changed VGA decodes|setting as boot)|(?:Loaded|Unloaded) the UVM driver|possible UCSI driver bug|nvidia-powerd|Dynamic Boost|module uses symbols from proprietary module|EFI variables are not supported on this system|nvidia-modprobe: unrecognized option|Cannot find any crtc or sizes|nvidia: loading out-of-tree module taints kernel|module verification failed: signature and/or required key missing|module license '?NVIDIA'? taints kernel|Disabling lock debugging due to kernel taint|Skipping BTF generation|amdgpu version file missing|ACPI (?:BIOS )?(?:Warning|Error)[^\n]*(?:PEGP|GFX0|_DSM)",
            text("Harmless: the kernel remarks on the driver, which works nevertheless"),
            text(
                "Such lines appear on working systems: a module from outside the kernel, a display that is not connected, a firmware table that differs."
            ),
            _NOTHING,
        ),
        Cause(
            r"Failed to load image Python extension",
            text("Harmless: torchvision cannot read image files with its own reader"),
            text("Only torchvision.io needs it. Everything else in torchvision works."),
            (
                text(
                    "Nothing needs to be done unless the program uses torchvision.io; then install torch and torchvision from one index."
                ),
            ),
        ),
        Cause(
            r"pynvml package is deprecated|weights_only=False|TypedStorage is deprecated|lr_scheduler\.step\(\)|use_reentrant parameter should be passed|torch\.cuda\.amp\.\w+\([^\n]*deprecated|expandable_segments not supported on this platform|The hostname of the client socket cannot be retrieved|using GPU \d+ (?:to perform barrier|as device used by this process)|is deprecated[^\n]*(?:will be removed|please use|in favor of)|FutureWarning:|DeprecationWarning:|TF_ENABLE_ONEDNN_OPTS",
            text("Harmless: a notice about a change in a later release"),
            text("The program works as before; the notice is for its authors."),
            _NOTHING,
        ),
        Cause(
            r"NET/Plugin ?: ?(?:No plugin found|Could not find|Failed to find)|libnccl-net\.so[^\n]*|couldn't load driver 'lib\w+-rdmav\d+\.so'|NCCL INFO[^\n]*(?:No plugin|Using internal)|Can't open /sys/class/infiniband|TCPStore[^\n]*IPv6[^\n]*|client socket has failed to connect to [^\n]*(?:errno: 9[79]|\[::)|IPv6 network addresses of[^\n]*cannot be retrieved|Could not find SliceBuilder port|Could not set metric server port|OMP_NUM_THREADS environment variable for each process to be 1",
            text("Harmless: NCCL or torchrun looks for optional network parts"),
            text("Plug-ins and drivers for other network hardware are not there; NCCL uses what it has."),
            _NOTHING,
        ),
        Cause(
            r"hipBLASLt on an unsupported architecture|/opt/amdgpu/share/libdrm/amdgpu\.ids: No such file|MIOpen\(HIP\): Warning|kernel is not using hipblaslt|rocm[-_ ]smi[^\n]*WARNING",
            text("Harmless: ROCm says that it takes another library or table"),
            text("Names of cards or tuned kernels are missing; computing works."),
            _NOTHING,
        ),
        Cause(
            r"Processes:[^\n]*\n[^\n]*PID[^\n]*Process name[^\n]*(?:\n\|\s+ID\s+ID[^\n]*)?(?:\n\|[\s=]*\|)*(?:\n\|\s*No running processes found\s*\|)?\s*$",
            text("Harmless: nvidia-smi shows no processes here"),
            text(
                "No program uses the card; or this is a container or WSL, where nvidia-smi cannot see the processes of the host."
            ),
            (text("Look on the host, or start the container with --pid=host."),),
        ),
        Cause(
            r"no module 'xformers'\. Processing without|async_io requires the dev libaio|sparse_attn requires a torch version|using untested triton version|llvm-config: not found|TORCH_CUDA_ARCH_LIST is not set",
            text("Harmless: an optional part is not there, and the program goes on without it"),
            text("DeepSpeed, Stable Diffusion programs and build tools list parts that they could use."),
            _NOTHING,
        ),
        Cause(
            r"NV_WARN_NOTHING_TO_DO",
            text("Harmless: this machine has no NVSwitch, so Fabric Manager has nothing to do"),
            text("Fabric Manager is for HGX and DGX machines with NVSwitch; elsewhere it ends at once."),
            (text("sudo systemctl disable nvidia-fabricmanager   # it is not needed here"),),
        ),
        Cause(
            r"CUDA Minor Version Compatibility mode ENABLED|Failed to compile generated PTX with ptxas\. Falling back|NumbaPerformanceWarning|CUPTI could not be loaded|Failed to enable MSI; falling back|control display is undefined|Some nodes were not assigned to the preferred execution providers|Rerunning with verbose output on a non-minimal build|GPU device discovery failed|retrying with tiled VAE|lavapipe is not a conformant|MESA-INTEL: warning|Using \w+ with nvenc is deprecated|Memcpy nodes are added to the graph",
            text("Harmless: the program says that it works in another way than usual"),
            text("It runs; the notice is about compatibility, compilation by the driver, or speed."),
            _NOTHING,
        ),
        Cause(
            r"UserWarning: Can't initialize NVML|NVMLError_NotSupported|Persistence mode is deprecated|nvidia-smi[^\n]*Processes[^\n]*empty|nvmlDeviceGetProcessUtilization[^\n]*Not Found|NVIDIA monitoring (?:is )?disabled|nvidia-smi not found\"|NVIDIA-SMI[^\n]*N/A[^\n]*Not Supported",
            text("Harmless: nvidia-smi does not show everything on this system"),
            text("Some values do not exist on this card or in this environment."),
            _NOTHING,
        ),
    )

    def check(self, case: Case) -> Iterable[Finding]:
        """Stay silent about live machines: their kernel logs always contain such lines."""
        if case.machine.origin == "pasted":
            yield from super().check(case)
