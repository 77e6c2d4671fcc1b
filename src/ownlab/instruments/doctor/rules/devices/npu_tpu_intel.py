"""Rules about Ascend NPUs, TPUs and Intel cards: environment, permissions, busy devices, versions."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.instruments.doctor.rules.devices.accelerator_errors import (
    ASCEND_CODES,
    ASCEND_ERRORS,
    INTEL_BUILDS,
    INTEL_FIRMWARE,
    INTEL_RUNTIME,
    TPU_ERRORS,
)
from ownlab.text import text

__all__ = ["AscendEnvironment", "IntelGpu", "TpuUnavailable"]


class AscendEnvironment(CauseRule):
    """Ascend's software does not start: environment not set, packages missing, versions that do not go together, no rights.

    **Why it matters.** An NPU needs a driver and firmware (npu-smi), CANN with its environment script, and a torch_npu for
    exactly this torch. Errors of any of them appear as numbers (EH9999, 507033).

    **What to do.** Source CANN's set_env.sh in the shell that starts Python; install CANN's Python packages; take versions
    from torch_npu's table.

    **Sources.** Ascend/pytorch, README and compatibility table; hiascend.com, CANN installation and error codes.
    """

    code = "ascend-environment"
    severity = "error"
    title = text("Ascend's software does not start")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"No module named '?torch_npu\._C",
            text("Python finds the source folder of torch_npu instead of the installed package"),
            text("Python was started in a folder that contains a folder torch_npu, which has no compiled part."),
            (text("Start Python in another folder: cd ~ && python -c 'import torch_npu'"),),
        ),
        *ASCEND_CODES,
        Cause(
            r"dlopen lib(?:ascend|hccl|acl)\w*\.so failed|lib(?:hccl|ascendcl|ascend_hal)\.so\S*: undefined symbol|lib(?:ascend_hal|hccl|ascendcl|acl\w*|ge_\w+|graph|runtime|opapi|nnopbase|register|platform|tiling_api)\.so\S*: cannot open|ascend\w*\.so\S*: cannot open shared object|No module named '(?:te|tbe|acl|hccl|mindspore_ascend)'|ASCEND_(?:HOME|OPP)_PATH[^\n]*(?:not set|not found|empty)|(?-i:\bCANN\b)[^\n]*(?:not installed|not found)|Failed to (?:load the backend extension|import the Ascend backend):? torch_npu|source \S*set_env\.sh|module 'torch' has no attribute 'npu'",
            text("CANN's environment is not set: a library of Ascend is not on the loader's path"),
            text("The libraries exist in CANN's (or the driver's) folder, but the loader does not search there."),
            (
                text(
                    "source /usr/local/Ascend/ascend-toolkit/set_env.sh   # also nnal/atb/set_env.sh; in the shell that starts Python"
                ),
                text(
                    "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/driver:/usr/local/lib:$LD_LIBRARY_PATH"
                ),
                text(
                    "In a container: mount /usr/local/Ascend/driver, /usr/local/dcmi and npu-smi, and pass --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc"
                ),
            ),
        ),
        Cause(
            r"\[Init\]\[Env\]init env failed|build op model failed|TBE (?:subprocess|compile)[^\n]*(?:fail|error)|E(?:19999|H9999|Z9999|40021|B\d{4})[^\n]*(?:init|Python|import|opc|compile)|result = 500001|Failed to (?:import|init)[^\n]*(?:tbe|te_fusion)|EH9999: Inner Error|E29999|Ascend inner error",
            text("CANN's operator compiler does not start: Python packages that it needs are missing"),
            text("The compiler runs in Python, and needs packages that pip does not install with torch_npu."),
            (
                text(
                    "pip install numpy decorator sympy cffi protobuf attrs pyyaml pathlib2 scipy requests psutil absl-py   # NumPy below 2 for older CANN"
                ),
                text(
                    "source /usr/local/Ascend/ascend-toolkit/set_env.sh; details: export ASCEND_GLOBAL_LOG_LEVEL=1 ASCEND_SLOG_PRINT_TO_STDOUT=1"
                ),
            ),
        ),
        Cause(
            r"torch_npu\.npu\.is_available\(\)\W+False|device_target['\" ]+Ascend['\" ]+is not supported|at start of device string: npu|PrivateUse1[^\n]*not (?:implemented|available)|has no attribute 'npu'",
            text("torch_npu is not imported, or not installed"),
            text("torch knows the device npu only after import torch_npu; torch_npu must have torch's version."),
            (
                text("import torch, torch_npu   # in the program, before the first .npu()"),
                text(
                    "pip install torch_npu==X.Y.Z   # torch's version; and source /usr/local/Ascend/ascend-toolkit/set_env.sh"
                ),
            ),
        ),
        Cause(
            r"\baiv?ec error exception|\baicore (?:error|execution is abnormal|exception)|\bvector core exception|error code (?:is )?(?:507015|507035|507014|507011|507018)\b|error from device\(chipId|hbm Multi-bit ECC|UCE ERROR|HBM[^\n]*ECC",
            text("An operator failed on the NPU: wrong input, a fault of the operator, or of the memory"),
            text(
                "The AI core stopped. Most often an index or a shape is out of range, or CANN, the driver and torch_npu do not belong together; HBM ECC errors are hardware."
            ),
            (
                text(
                    "export ASCEND_LAUNCH_BLOCKING=1   # then the traceback names the operation; try its input on the CPU"
                ),
                text(
                    "npu-smi info -t ecc -i 0; if ECC errors are counted, have the card checked. Otherwise: driver, firmware, CANN and torch_npu of one table of versions."
                ),
            ),
        ),
        Cause(
            r"\bE[A-Z]?\d{4,5}: [^\n]*(?:is unsupported|not supported)|Ops kernel \[?AIcoreEngine|parameter \[--soc_version\] is invalid|Optype \[[^\]]+\][^\n]*(?:unsupported|not found)|custom op[^\n]*not (?:found|registered)",
            text("CANN has no kernel of this operator for this NPU, or another chip was named"),
            text(
                "The operator package (kernels) of this chip is not installed, is older than the program, or --soc_version names another chip."
            ),
            (
                text(
                    "npu-smi info   # the chip's name; install the package Ascend-cann-kernels for it, of CANN's version"
                ),
                text("Use the model's version for this CANN (and atc --soc_version=Ascend910B4 with the exact name)."),
            ),
        ),
        Cause(
            r"driver version (?:does not support|is not compatible)|\[CheckPlatform\] failed|user not in HwHiAiUser|TsdOpen failed|Failed to open device|(?:EE|EL|EK|EZ|E[0-9A-Z])(?:9999|0000|0005)[^\n]*Inner Error|lib(?:c_sec|drvdsmi_host|dcmi|ascend_hal|mmpa)\.so\S*: cannot open|ERR00100",
            text(
                "CANN cannot open the NPU: driver, firmware and CANN do not fit, or the driver's libraries are not found"
            ),
            text(
                "CANN's error lines start with E and a number; the first one names the reason. Usually the driver is older than CANN, its libraries are not on the loader's path, or the container lacks them."
            ),
            (
                text(
                    "cat /usr/local/Ascend/driver/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg   # compare with CANN's table of versions"
                ),
                text(
                    "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/common:/usr/local/Ascend/driver/lib64/driver:$LD_LIBRARY_PATH; source /usr/local/Ascend/ascend-toolkit/set_env.sh"
                ),
                text(
                    "Details: export ASCEND_GLOBAL_LOG_LEVEL=1 ASCEND_SLOG_PRINT_TO_STDOUT=1; in a container mount /usr/local/Ascend/driver and pass --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc"
                ),
            ),
        ),
        Cause(
            r"dcmi (?:module )?initialize failed|ret is -8005|drvErr ?= ?(?:4|87)\b|/dev/davinci\S*[^\n]*(?:Permission|denied|No such)|permission denied[^\n]*/dev/davinci|devdrv[^\n]*(?:fail|not)|drv(?:GetDevNum|DevNum)[^\n]*fail|rtGetDeviceCount[^\n]*fail|error code (?:is )?(?:507008|507899|107001|507033)|(?:ACL|NPU|aclrt|rt[A-Z]|hccl)[^\n]*\b(?:507\d{3}|107\d{3}|207\d{3})\b|\b(?:507008|507899|507033)\b|rtSetDevice[^\n]*fail|aclInit[^\n]*fail|npu-smi: command not found|drvRetCode ?= ?\d+|No NPU (?:device|found)",
            text("The NPU's driver cannot be reached"),
            text(
                "The driver is not loaded, this user is not in the group HwHiAiUser, another container holds the card, or the container was started without the devices."
            ),
            (
                text("npu-smi info   # on the host, as root; sudo usermod -aG HwHiAiUser $USER, then log in again"),
                text(
                    "In a container: --device /dev/davinciN --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc and the driver's folder mounted; a card can be in one container only."
                ),
            ),
        ),
        Cause(
            r"(?:HCCL|hccl|HCCP)[^\n]*(?:fail|error|timeout)|EJ000\d|EI000\d|already exists[^\n]*HCCP",
            text("HCCL, Ascend's communication, does not start or timed out"),
            text(
                "An old process holds the ports or the card, the ranks do not reach each other, or one of them stopped earlier."
            ),
            (
                text(
                    "End old processes (npu-smi info shows them; ps aux | grep python); check: hccn_tool -i 0 -net_health -g; hccn_tool -i 0 -link -g"
                ),
                text(
                    "export HCCL_CONNECT_TIMEOUT=1200 HCCL_EXEC_TIMEOUT=1800   # if ranks start at different times; read the first error of the first rank"
                ),
            ),
        ),
        Cause(
            r"torch_npu[^\n]*(?:undefined symbol|version|not match|mismatch|incompatible)|version of torch_npu",
            text("torch_npu was built for another torch"),
            text("torch and torch_npu must have the same version, and CANN the one in torch_npu's table."),
            (
                text(
                    "pip install torch==X.Y.Z torch_npu==X.Y.Z   # the pair from https://github.com/Ascend/pytorch, with its CANN"
                ),
            ),
        ),
        *ASCEND_ERRORS,
    )


class TpuUnavailable(CauseRule):
    """A TPU is there, but this process cannot use it: busy, hidden, or software of another version.

    **Why it matters.** One process at a time may use a TPU chip. Old notebooks and crashed runs keep it; libtpu and jaxlib (or
    torch_xla) must belong together.

    **What to do.** End the other process, remove its lock file, install matching versions.

    **Sources.** Cloud TPU documentation, "Troubleshooting"; jax-ml/jax, TPU backend messages; pytorch/xla, TROUBLESHOOTING.md.
    """

    code = "tpu"
    severity = "error"
    title = text("The TPU cannot be used")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"libtpu\S* (?:is )?already in use|Couldn't open (?:iommu group|VFIO)|vfio[^\n]*iommu group[^\n]*(?:busy|Couldn't open)|TPU is already in use|libtpu_lockfile|/dev/(?:accel|vfio)\S*[^\n]*(?:busy|EBUSY)|Device or resource busy[^\n]*(?:accel|vfio|\btpu)|only one process[^\n]*\bTPU|\bTPU[^\n]*(?:in use by|busy)",
            text("Another process uses the TPU"),
            text("Only one process at a time may use a TPU. An old notebook or a crashed run still holds it."),
            (
                text(
                    "Find it: sudo lsof -w /dev/accel* /dev/vfio/*; end it, then: rm -f /tmp/libtpu_lockfile /tmp/tpu_logs/*"
                ),
                text("Several processes on several chips: TPU_VISIBLE_CHIPS and TPU_PROCESS_BOUNDS for each."),
            ),
        ),
        Cause(
            r"(?:Failed to get global TPU topology|open\(/dev/accel\d+\)[^\n]*(?:not permitted|denied)|/dev/(?:accel|vfio)\S*[^\n]*(?:Permission denied|not permitted))",
            text("This user or container may not open the TPU"),
            text("The device files are there, but not open for this process."),
            (
                text(
                    "Run the container with --privileged --net=host (or --device /dev/accel0 …; /dev/vfio for v5 and newer), or as a user with rights on /dev/accel*."
                ),
            ),
        ),
        Cause(
            r"Missing XLA configuration|XRT_TPU_CONFIG|XRT configuration not found",
            text("torch_xla does not find a TPU: this machine has none, or the variable that names it is not set"),
            text(
                "torch_xla 2 reads PJRT_DEVICE; older releases read XRT_TPU_CONFIG with the address of the TPU. Where torch_xla is installed without a TPU (a notebook with a GPU, an image), a library that looks for one fails with this message, too."
            ),
            (
                text(
                    "No TPU here, or a GPU is meant: pip uninstall -y torch_xla; a hosted notebook with a TPU: choose the TPU runtime"
                ),
                text("export PJRT_DEVICE=TPU   # torch_xla 1.13 and newer"),
                text(
                    "Older: export XRT_TPU_CONFIG='localservice;0;localhost:51011'   # TPU VM; tpu_worker;0;ADDRESS:8470 for a TPU node"
                ),
            ),
        ),
        Cause(
            r"PJRT(?: C)? API[^\n]*version|libtpu[^\n]*(?:version|too old|mismatch|incompatible|undefined symbol)|Failed to deserialize the Mosaic module|No TPU [Pp]latform available|Expected \d+ worker addresses|Failed to initialize TPU system|xrt_computation_client|Cannot find any TPU cores|libtpu\.so not found|symbolize\.stripped_domain[^\n]*[\s\S]{0,500}tpu|No hardware is found\. Using default TPU version|XRT configuration not found|PJRT_DEVICE|COLAB_TPU_ADDR|colab_tpu|Unable to connect to TPU|No TPU (?:devices?|found)|TPU (?:initialization failed|platform[^\n]*not)|RuntimeError[^\n]*backend 'tpu'[^\n]*(?:ABORTED|UNAVAILABLE|UNKNOWN|INTERNAL|FAILED_PRECONDITION|NOT_FOUND: (?!Unable to find driver))|TPU backend cannot|Failed to find libtpu|Bad StatusOr access[^\n]*TpuPlatform|RuntimeError[^\n]*TpuPlatform is not available|failed to connect[^\n]*:8470",
            text("The TPU's software does not fit, or the runtime has no TPU"),
            text(
                "libtpu belongs to one jaxlib (or torch_xla) release; older code for Colab (COLAB_TPU_ADDR, XRT) no longer works on TPU VMs; or the runtime type is not TPU."
            ),
            (
                text(
                    "pip install -U 'jax[tpu]'   # torch: pip install torch 'torch_xla[tpu]' of the same version; export PJRT_DEVICE=TPU"
                ),
                text("Colab: Runtime → Change runtime type → TPU; remove jax.tools.colab_tpu.setup_tpu()."),
            ),
        ),
        *TPU_ERRORS,
    )


class IntelGpu(CauseRule):
    """An Intel card is not found or fails: kernel driver, compute runtime, groups or versions.

    **Why it matters.** Intel cards need the kernel's i915 or xe driver (Arc: kernel 6.2 or newer), the compute runtime
    (Level Zero, OpenCL) of a matching release, and rights on /dev/dri/renderD*.

    **What to do.** Update kernel and compute runtime, join the group render; then a torch with XPU.

    **Sources.** intel/compute-runtime, README and #350, #422, #610, #710; dgpu-docs.intel.com; pytorch.org, "Getting started on Intel GPU".
    """

    code = "intel-gpu"
    severity = "error"
    title = text("The Intel GPU cannot be used")
    blocks = True
    while_broken = True
    causes = (
        *INTEL_FIRMWARE,
        *INTEL_BUILDS,
        Cause(
            r"ZE_RESULT_ERROR|DRM_IOCTL_I915|zeInit[^\n]*fail|Level[- ]Zero[^\n]*(?:error|fail|not found)|ze_loader[^\n]*(?:not found|cannot)",
            text("Intel's compute runtime (Level Zero) fails on this card"),
            text(
                "Kernel driver and compute runtime do not fit the card: Arc needs kernel 6.2 or newer, newer kernels need a newer runtime; on Windows the graphics driver is broken or old."
            ),
            (
                text(
                    "uname -r; sudo dmesg | grep -iE 'i915|xe '; update kernel, linux-firmware, intel-opencl-icd and libze-intel-gpu1 (intel/compute-runtime releases)."
                ),
                text("Windows: remove the Intel graphics driver cleanly, and install the newest one from Intel."),
                text("sudo usermod -aG render $USER; then log in again"),
            ),
        ),
        Cause(
            r"\[GPU\][^\n]*no supported devices found|XPU device count is zero|No XPU devices? (?:are|is|found)|PI_ERROR_(?:DEVICE_NOT_FOUND|INVALID_DEVICE)|No device of requested type|UR_RESULT_ERROR|Native API (?:failed|returns)|lib(?:sycl|ze_loader|mkl_sycl\w*|pti_view|OpenCL)\.so\S*: cannot open|intel_extension_for_pytorch[^\n]*(?:fail|error)|torch\.xpu\.is_available\(\)[^\n]*False",
            text("torch finds no Intel GPU, or its runtime fails"),
            text(
                "The compute runtime is missing or old, this user is not in the group render, or oneAPI's libraries do not match."
            ),
            (
                text(
                    "sudo apt-get install -y libze-intel-gpu1 libze1 intel-opencl-icd; sudo usermod -aG render $USER; log in again; check: sycl-ls"
                ),
                text(
                    "pip install torch --index-url https://download.pytorch.org/whl/xpu   # brings its oneAPI; do not source another setvars.sh"
                ),
            ),
        ),
        Cause(
            r"(?:^|\n)\s*\[opencl:(?:acc|cpu|fpga)[^\n]*(?:\n(?!\s*\[(?:opencl:gpu|ext_oneapi_level_zero:gpu|level_zero:gpu))[^\n]*)*\s*$",
            text("Intel's compute runtime lists no GPU"),
            text(
                "sycl-ls shows processors only: the compute runtime is missing, too old for this kernel, or this user may not open /dev/dri/renderD128."
            ),
            (
                text("ls -l /dev/dri; groups; sudo usermod -aG render $USER; then log in again"),
                text(
                    "Update intel-opencl-icd and libze-intel-gpu1 (releases before 24.09 do not work with kernel 6.8), or boot an older kernel."
                ),
            ),
        ),
        *INTEL_RUNTIME,
    )
