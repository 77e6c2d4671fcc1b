"""What frameworks print on healthy machines and people take for errors: choices of kernels, formats, threads and networks."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause
from ownlab.text import text

__all__ = ["FRAMEWORK_NOTICES"]

_NOTHING = (text("Nothing needs to be done."),)

FRAMEWORK_NOTICES = (
    Cause(
        r"TensorFloat-32 will be used for the matrix multiplication|All log messages before absl::InitializeLog|XLA service \S+ initialized for platform|Local rendezvous is aborting with status: OUT_OF_RANGE|End of sequence|disabling MLIR crash reproducer|Allocation of \d+ exceeds \d+% of (?:free )?system memory|Skipping the delay kernel|Compiled cluster using XLA!|will not use cuDNN kernels since|Loaded cuDNN version \d+|Created device /job:|Plugin optimizer for device_type GPU is enabled|Delay kernel timed out|gpu_timer\.cc|Trying algorithm eng|Tensorflow Addons \(TFA\) has ended",
        text("Harmless: TensorFlow or JAX says how it works"),
        text(
            "These lines describe the set-up, the end of the data, or a measurement that was left out; none of them is an error."
        ),
        (text("Nothing needs to be done. To hide them: export TF_CPP_MIN_LOG_LEVEL=2   # before Python starts"),),
    ),
    Cause(
        r"driver's CUDA version is \S+ which is older than the ptxas CUDA version|XLA is disabling parallel compilation",
        text("Harmless: compilation is a little slower, because the driver is older than the compiler"),
        text("XLA compiles with the driver's own compiler; results are the same."),
        (text("Nothing needs to be done. A newer driver makes compilation faster."),),
    ),
    Cause(
        r"Could not initialize NNPACK! Reason: Unsupported hardware",
        text("Harmless: this CPU lacks instructions for NNPACK"),
        text("torch uses other code for convolutions on the CPU."),
        _NOTHING,
    ),
    Cause(
        r"Plan failed with a (?:cudnnException|OutOfMemoryError)|Applied workaround for CuDNN issue|RNN module weights are not part of single contiguous chunk|TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled|Grad strides do not match bucket view strides|process group has NOT been destroyed before|Not enough SMs to use max_autotune_gemm|'pin_memory' argument is set as true but|Using 'pin_memory=False' as WSL is detected|find_unused_parameters=True was specified in DDP constructor|No device id is provided via `?init_process_group|Guessing device ID based on global rank|using devices? used by this process are currently unknown|Overriding a previously registered (?:kernel|operator)|torch\.meshgrid: in an upcoming release|The given NumPy array is not (?:writ|contig)|None of the inputs have requires_grad=True|Using a target size|Detected call of `?lr_scheduler|parameters are on the meta device because they were offloaded|Some weights of[^\n]*were not (?:used|initialized)|Setting accelerator to CPU\. If you have GPU|__torch_function__|To copy construct from a tensor|size_average and reduce args will be deprecated|nn\.DataParallel|Was asked to gather along dimension 0|There is an imbalance between your GPUs|current process just got forked, after parallelism|symbolizing C\+\+ stack trace for exception|objc\[\d+\]: Class \w+ is implemented in both|`?use_cache=True`? is incompatible with gradient checkpointing",
        text("Harmless: torch remarks on speed or on a habit of the program"),
        text("torch works, and chooses another way than the fastest, or warns of a change."),
        (text("Nothing needs to be done for the machine. What it says about speed may be worth trying."),),
    ),
    Cause(
        r"No module 'xformers'\. Proceeding without it|Cannot use FlashAttention\S* backend for[^\n]*Using|FlashAttention\S* (?:is )?not (?:available|installed|supported)[^\n]*(?:[Uu]sing|fall)|Using (?:XFormers|Torch SDPA|xformers|Triton) backend|does not have native support for FP8 computation but|Casting torch\.(?:bfloat16|float32) to torch\.float16|Flash Attention (?:2 )?is not installed|flash_attn is not installed[^\n]*|`?flash-attention`? package not found, consider installing|Current `?flash-attention`? does not support|Your compute capability[^\n]*but vLLM|xFormers not available|Failed to import (?:from )?(?:flash_attn|apex|deepspeed)[^\n]*(?:using|falling back)",
        text("Harmless: the program takes another kernel or number format that this card supports"),
        text("Fast kernels exist for some cards and packages only; results are the same, speed may differ."),
        _NOTHING,
    ),
    Cause(
        r"gpu VRAM usage didn't recover within timeout|NUMA auto balancing enabled which can lead to variability|Missing \"iommu=pt\" from kernel command line|NET/IB : No device found|Failed to open libibverbs|libibverbs: Warning|No preset parameters were found for the device that Open MPI detected|There was an error initializing an OpenFabrics device|infiniband ports on a device are not used by default|unable to initialize the openib BTL|Read -1, expected \d+, errno = 1\b|component was not found, or was unable to be opened[\s\S]{0,300}(?:btl|smcuda|openib)|PMIX ERROR: [^\n]*gds|NCCL_TOPO_FILE[^\n]*could not|MOFED driver for multi-node communication was not detected|(?:NCCL|fabricmanager|NVSwitch)[^\n]*Nothing to do|request to query NVSwitch device information|No OpenFabrics connection schemes",
        text("Harmless: a notice about the network, the memory or the kernel's settings"),
        text(
            "The program looks for faster hardware or better settings, and works without them. NUMA balancing and iommu=pt matter for speed on large AMD servers."
        ),
        _NOTHING,
    ),
    Cause(
        r"(?:not currently supported on the NPU backend and will fall back to run on the CPU)|Device do not support double dtype now|TASK_QUEUE_ENABLE is set to 0|On the interactive interface, the value of TASK_QUEUE|Cannot create tensor with NZ format|owner does not match the current (?:user|owner)|AutoNonVariableTypeMode is deprecated",
        text("Harmless: torch_npu says how it replaces an operation or a number format"),
        text("The operation runs on the CPU, or in float32; results are right, speed may be lower."),
        _NOTHING,
    ),
    Cause(
        r"architectures? are deprecated, and may be removed|no g\+\+ version bounds defined for CUDA|Cannot determine number of cores|\(deprecated-declarations\)|\[-Wdeprecated|warning #\d+-D: |#pragma [^\n]*deprecated|ptxas info\s+:",
        text("Harmless: the compiler warns, and goes on"),
        text("Deprecated architectures and functions still work in this release of the toolkit."),
        _NOTHING,
    ),
    Cause(
        r"unknown parameter 'fbdev' ignored|Unable to read EDID for display device|Failed to grab modeset ownership|spans more than PCI Bus[\s\S]{0,200}\[nvidia\] mapping multiple BARs|mapping multiple BARs|Invalid PCI ROM header signature: expecting|libEGL warning: (?:DRI\d|MESA|FIXME)|amdgpu\.ids: No such file|\?\? % \|[^\n]*\(Not Supported\)|GPU MEM: N/A|\[drm\] \[nvidia-drm\][^\n]*(?:Loading driver|Cannot find any crtc)|nvidia: module license|WARNING! Diff between built and installed module|could not open aplay -l|Kernel exec timeout is not disabled|VT-d active for gfx access|Key is stored in legacy trusted\.gpg keyring",
        text("Harmless: the kernel or a tool remarks on the driver, which works nevertheless"),
        text(
            "Such lines appear on working systems: a display without data, a parameter that does not exist yet, a table that differs."
        ),
        _NOTHING,
    ),
    Cause(
        r"Using an engine plan file across different models of devices is not recommended|TensorRT was linked against (?:cuDNN|cuBLAS)[^\n]*but loaded|CUDA lazy loading is not enabled|The getMaxBatchSize\(\) function should not be used",
        text("Harmless: TensorRT warns that the engine may be slower here"),
        text("The engine was built on another card or with other libraries, and works."),
        (text("Nothing needs to be done. To gain speed, build the engine again on this machine."),),
    ),
)
