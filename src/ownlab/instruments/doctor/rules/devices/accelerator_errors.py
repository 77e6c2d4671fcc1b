"""Further causes of failures of Ascend NPUs, TPUs and Intel cards, by the words of their own software."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause
from ownlab.text import text

__all__ = ["ASCEND_CODES", "ASCEND_ERRORS", "INTEL_BUILDS", "INTEL_FIRMWARE", "INTEL_RUNTIME", "TPU_ERRORS"]

_ACL = r"(?:code|ret\w*|errors?|errno|result|status|aclError)\W{0,4}(?:is |was |of |No\.? ?)?\W{0,3}"
# Sources: CANN, aclError and aclnn return codes; rt_error_codes.h (ACL_ERROR_RT_*).
ASCEND_CODES = (
    Cause(
        rf"{_ACL}(?:107002|107003)\b",
        text("This thread or process has not chosen an NPU: its context or stream is not there (107002, 107003)"),
        text("CANN keeps a device and a context for each thread. A thread that was started later, a process after a fork, or one after the end of CANN has none."),
        (
            text("torch.npu.set_device(NUMBER) at the beginning of each thread and process (AscendCL: aclrtSetDevice, aclrtSetCurrentContext)"),
            text("Start workers with spawn, not with fork: torch.multiprocessing.set_start_method('spawn')"),
        ),
    ),
    Cause(
        rf"{_ACL}107001\b|[Ii]nvalid device ?[Ii][Dd][^\n]*(?:npu|ascend|acl)|ASCEND_RT_VISIBLE_DEVICES[^\n]*(?:invalid|error|exceed)",
        text("The program asks for an NPU number that this process does not have"),
        text("With ASCEND_RT_VISIBLE_DEVICES the visible NPUs are numbered from 0 again. In a container only the devices that were passed in count."),
        (
            text("npu-smi info -l; echo $ASCEND_RT_VISIBLE_DEVICES; python -c 'import torch, torch_npu; print(torch.npu.device_count())'   # one process for each visible NPU, numbers from 0"),
        ),
    ),
    Cause(
        rf"{_ACL}(?:507014|507017|507034|507046|507047|507048)\b|(?:aicore|aicpu|vector core|stream sync\w*|event sync\w*)[^\n]{{0,20}}time ?out",
        text("A task on the NPU did not end in time (507046 and others)"),
        text("Either a rank waits for another one that stopped, is late or computes something else; or an operator takes very long or hangs."),
        (
            text("Several NPUs: read the first error of the first rank that failed; export HCCL_CONNECT_TIMEOUT=1200 HCCL_EXEC_TIMEOUT=1800"),
            text("One NPU: export ASCEND_LAUNCH_BLOCKING=1   # names the operator; a smaller input; torch_npu, CANN and driver of one table of versions"),
            text("npu-smi info -t health -i 0   # an NPU that is not OK needs a reset by its administrator"),
        ),
    ),
    Cause(
        rf"{_ACL}(?:507013|507053|507054|507055|507056)\b|[Mm]ulti-?bit ECC|\bHBM[^\n]*(?:ECC|multi bit)|uncorrectable[^\n]*(?:HBM|NPU)",
        text("The NPU reports an error of its memory or of a transfer: the card may be at fault"),
        text("Uncorrectable errors of the HBM, or of DMA, come from the card. A program that passed a wrong address can also bring about an error of DMA."),
        (
            text("npu-smi info -t ecc -i 0; npu-smi info -t health -i 0   # errors are counted: have the card checked; does the program run on another NPU?"),
        ),
    ),
    Cause(
        rf"{_ACL}(?:507010|507901)\b|(?:device|TS)[^\n]{{0,20}}lost heart ?beat|heartbeat[^\n]*(?:npu|davinci|device)[^\n]*lost",
        text("The NPU no longer answers (lost heartbeat, connection to the device closed)"),
        text("The device's own system stopped or was restarted, for example by heat, a fault, a reset, or another process that was killed."),
        (
            text("npu-smi info; npu-smi info -t health -i 0; the kernel log of the host: sudo dmesg | grep -iE 'davinci|npu|drv' | tail -40"),
            text("End all processes on the NPU; its administrator resets it, or restarts the machine."),
        ),
    ),
    Cause(
        rf"{_ACL}(?:507008|207000)\b|\bE[EL]\d{{4}}[^\n]*(?:not support|unsupported)[^\n]*(?:driver|feature)",
        text("The NPU's driver does not have what this CANN asks for: the driver is older, or the chip does not support it"),
        text("207000 and 507008 say that driver or chip do not know the feature or the chip's version."),
        (
            text("cat /usr/local/Ascend/driver/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg   # compare with CANN's table of versions; in a container the host's driver counts"),
        ),
    ),
    Cause(
        rf"{_ACL}(?:561003|561107|561108|561112)\b|EZ3003\b|(?:op|kernel)s? (?:binary|package)[^\n]*not (?:found|installed)",
        text("CANN finds no compiled kernel of this operator: the package of kernels for this chip is missing, or of another version"),
        text("The kernels are a package of their own (Ascend-cann-kernels-CHIP) of exactly CANN's version; ASCEND_OPP_PATH names their folder."),
        (
            text("npu-smi info   # the chip; ls $ASCEND_OPP_PATH/built-in/op_impl/ai_core/tbe/kernel; install Ascend-cann-kernels for this chip, of CANN's version"),
            text("source /usr/local/Ascend/ascend-toolkit/set_env.sh   # sets ASCEND_OPP_PATH"),
        ),
    ),
    Cause(
        rf"{_ACL}(?:161001|161002|561001|561002|100000|107000)\b|\bEZ(?:1001|3002|9999)\b|\bE(?:10001|Z1001)\b",
        text("An operator refused its input, or failed with it: type, shape or format is not supported on this NPU or in this CANN"),
        text("The line names the operator. Often the release of CANN or torch_npu is older than the model's code expects; sometimes an index or a shape is wrong."),
        (
            text("export ASCEND_LAUNCH_BLOCKING=1   # the traceback then names the operation; print dtype and shape of its inputs: float64, int64 and bfloat16 are not supported everywhere (bf16 not on 910A and 310P)"),
            text("CANN, kernels, torch and torch_npu of one row of the table of https://github.com/Ascend/pytorch; newer ones support more operators"),
        ),
    ),
)  # fmt: skip
# Sources: CANN, "Troubleshooting" (aclError, error codes E*); Ascend/pytorch, README.
ASCEND_ERRORS = (
    Cause(
        r"\b(?:207018|207001|EL0004|EL0005)\b|rtMalloc[^\n]*fail|aclrtMalloc[^\n]*fail",
        text("The NPU's memory is full"),
        text("The program, or another one on the same card, has taken the HBM."),
        (
            text("npu-smi info   # shows memory and processes; end what is left over, use a smaller batch or context"),
            text("export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True   # against fragmentation"),
        ),
    ),
    Cause(
        r"Ascend kernel runtime initialization failed",
        text("MindSpore does not start the NPU: its memory is taken by another process, or CANN does not fit"),
        text("At its start MindSpore reserves the NPU's memory. Another process on the card, or CANN and driver of other versions, make that fail."),
        (
            text("npu-smi info   # processes and memory: end what is left over, or choose a free card with DEVICE_ID or ASCEND_RT_VISIBLE_DEVICES; context.set_context(max_device_memory='…GB')"),
            text("source /usr/local/Ascend/ascend-toolkit/set_env.sh; the lines under 'Ascend Error Message' name the code; compare MindSpore's table of CANN versions"),
        ),
    ),
    Cause(
        r"\b50000[0-3]\b|SetPrecisionMode|AclSetCompileopt|GEInitialize|ge(?:\w* )?[Ii]nit\w*[^\n]*fail|ErrorManager|aclnn\w*[^\n]*(?:not (?:in|found)|undefined)",
        text("CANN's compiler (GE) does not start: its environment, its Python packages or its kernels are missing"),
        text(
            "torch_npu starts CANN's compiler with the first operation. It needs CANN's variables, the kernels package for this chip, Python packages, and CANN of the release that belongs to torch_npu."
        ),
        (
            text("source /usr/local/Ascend/ascend-toolkit/set_env.sh   # in the shell that starts Python"),
            text(
                "pip install numpy decorator sympy cffi protobuf attrs pyyaml pathlib2 scipy requests psutil absl-py ml-dtypes tornado   # what the compiler imports; NumPy below 2 for older CANN"
            ),
            text(
                "Install Ascend-cann-kernels-CHIP of CANN's version; compare the pair of torch_npu and CANN: https://github.com/Ascend/pytorch"
            ),
        ),
    ),
    Cause(
        r"tsdclient|\[TsdClient\]|Tsd[A-Z]\w+[^\n]*fail|E3\d{4}: Inner|[Uu]nsupported soc|No supported Ascend soc|soc_?version[^\n]*(?:not support|unsupported|invalid|unknown)|aclrtGetSocName",
        text("The NPU's driver and CANN do not belong together, or the chip is unknown to this release"),
        text("CANN asks the driver for the chip and starts its services there. One of them is older than the other needs."),
        (
            text(
                "npu-smi info; cat /usr/local/Ascend/driver/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg   # compare with CANN's table of versions"
            ),
            text(
                "Install driver, firmware, CANN and torch_npu of one row of that table; in a container the host's driver counts, and /usr/local/Ascend/driver must be mounted."
            ),
        ),
    ),
    Cause(
        r"ERR\d{5}\b|\bE[A-Z]\d{4}\b|\bE\d{5}\b|Inner error is reported|NPU (?:function )?error|CANN error|ggml-cann|aclError|AscendCL|\bACL (?:error|stream)",
        text("CANN failed; its first line that starts with E and a number names the reason"),
        text(
            "torch_npu passes on what CANN reports. Errors may come later than the operation that caused them; often driver, CANN and torch_npu do not belong together, or an operator does not support its input."
        ),
        (
            text("export ASCEND_LAUNCH_BLOCKING=1 ASCEND_GLOBAL_LOG_LEVEL=3 ASCEND_SLOG_PRINT_TO_STDOUT=1   # then run again, and read the first error"),
            text(
                "source /usr/local/Ascend/ascend-toolkit/set_env.sh; npu-smi info; compare the versions with the table of https://github.com/Ascend/pytorch"
            ),
        ),
    ),
)  # fmt: skip

# Sources: Cloud TPU, "Troubleshooting TensorFlow/PyTorch/JAX"; Kaggle, "TPU documentation"; tensorflow, TPUClusterResolver.
TPU_ERRORS = (
    Cause(
        r"Could not lookup TPU metadata|TPUClusterResolver|TPU [Cc]luster [Rr]esolver|Please provide a TPU Name to connect to|TPU (?:node )?name[^\n]*(?:not found|invalid)",
        text("TensorFlow does not find the TPU by this name"),
        text(
            "TPUClusterResolver needs the TPU's name or address; on a TPU VM (and Kaggle, Colab today) it is 'local'. Without a TPU runtime there is none to find."
        ),
        (
            text("Choose a TPU runtime (Colab, Kaggle); then: tf.distribute.cluster_resolver.TPUClusterResolver(tpu='local')"),
            text("TPU node: tpu='NAME', zone and project of the TPU, and a TensorFlow of the TPU's version"),
        ),
    ),
    Cause(
        r"ConfigureDistributedTPU|op type not registered '?\w*TPU|TPU[^\n]*not (?:registered|compiled)|TensorFlow was not compiled with TPU|Op type not registered[^\n]*TPU",
        text("This TensorFlow has no support for TPUs"),
        text("TPU VMs need a TensorFlow built for them; the ordinary wheel lacks the operations."),
        (text("pip uninstall -y tensorflow; pip install tensorflow-tpu -f https://storage.googleapis.com/libtpu-tf-releases/index.html"),),
    ),
    Cause(
        r"Unable to find a context_id matching|(?:TPU )?worker (?:was|may have been) (?:restarted|preempted)|Socket closed[^\n]*tpu|failed to connect to all addresses[^\n]*(?:8470|8471|tpu)|TPU[^\n]*(?:preempted|PREEMPTED|UNHEALTHY)|(?:session|context) (?:was )?GC'd",
        text("The TPU's worker was restarted or preempted, or ran out of memory"),
        text("The program's connection to the TPU is lost, and what was in its memory with it."),
        (
            text("Restart the runtime (kernel), connect and initialise the TPU again, and load the last checkpoint."),
            text("If it happens at the same step: a smaller batch; the host's memory may be full."),
        ),
    ),
    Cause(
        r"No module named '?(?:torch_xla|libtpu)|torch_xla is not (?:installed|available)|PJRT_DEVICE is (?:not|un)set",
        text("torch_xla, torch's part for TPUs, is not installed"),
        text("torch itself does not know TPUs. torch and torch_xla must have the same version."),
        (text("pip install torch==X.Y.* 'torch_xla[tpu]==X.Y.*' -f https://storage.googleapis.com/libtpu-releases/index.html; export PJRT_DEVICE=TPU"),),
    ),
)  # fmt: skip

# Sources: intel/compute-runtime, README; kernel documentation, i915 and xe; dgpu-docs.intel.com.
INTEL_FIRMWARE = (
    Cause(
        r"(?:i915|xe)\b[^\n]*(?:GuC|HuC|DMC|GSC)[^\n]*(?:fail|ERROR|not found|too old|wedged)|not properly supported by (?:i915|xe)|force_probe|(?:i915|xe)\b[^\n]*(?:GPU HANG|wedged|probe[^\n]*failed with error)|Failed to (?:load|fetch) (?:GuC|HuC|DMC)",
        text("The kernel's driver (i915, xe) does not start this Intel card: kernel or firmware is too old for it"),
        text("Each generation needs a kernel that knows it (Arc A: 6.2, Arc B: 6.11 and newer) and the firmware of linux-firmware."),
        (
            text("uname -r; sudo dmesg | grep -iE 'i915|xe |guc|huc'; install a newer kernel and linux-firmware, then reboot"),
            text("Where the kernel is new enough but names the parameter: i915.force_probe=ID (or xe.force_probe=ID) on its command line; turn Above 4G Decoding and Resizable BAR on in the firmware."),
        ),
    ),
)  # fmt: skip
# Sources: pytorch.org, "Getting Started on Intel GPU"; intel/intel-extension-for-pytorch, release notes (XPU from 1.10.200+gpu on).
INTEL_BUILDS = (
    Cause(
        r"not linked with support for xpu devices|Torch not compiled with XPU enabled",
        text("This torch, or its Intel extension, is a build without support for Intel GPUs"),
        text(
            "The words come from torch itself: the part for Intel GPUs (XPU) is not in this build. The ordinary wheels of torch, and those of intel-extension-for-pytorch without “+xpu” or “+gpu” in their version, are for the CPU. The driver is not concerned."
        ),
        (
            text("python -c 'import torch; print(torch.__version__)'; pip list | grep -i intel   # a version without +xpu is for the CPU"),
            text("pip uninstall -y torch intel-extension-for-pytorch; pip install torch --index-url https://download.pytorch.org/whl/xpu   # torch 2.5 and newer need no extension"),
            text("If the project needs the extension: its release with +xpu, for exactly this torch. Old releases do not support graphics that are part of the CPU."),
        ),
    ),
)  # fmt: skip
INTEL_RUNTIME = (
    Cause(
        r"No available devices: GPU|Context was not initialized for|Please,? check OpenCL|Cannot load ICD|libigdrcl|igdrcl|Device with \"?GPU\"? name is not registered|(?:GPU|NPU) device[^\n]*not (?:registered|supported)[^\n]*(?:openvino|OpenVINO|core)|openvino[^\n]*(?:Can not|Cannot|Failed to) (?:find|get|create)[^\n]*GPU",
        text("OpenVINO (or OpenCL) finds no Intel GPU: the compute runtime is missing, old, or may not be opened"),
        text(
            "The GPU plug-in works through OpenCL. Its runtime is not installed, does not know this chip, or this user may not open /dev/dri/renderD128; in a container the device is missing."
        ),
        (
            text("sudo apt-get install -y intel-opencl-icd libze-intel-gpu1 clinfo; clinfo -l   # new chips: the packages of intel/compute-runtime's releases"),
            text("sudo usermod -aG render,video $USER; then log in again. Container: --device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128)"),
            text("NPU: install intel/linux-npu-driver and a kernel with intel_vpu. Windows: the newest graphics driver from Intel."),
        ),
    ),
)  # fmt: skip
