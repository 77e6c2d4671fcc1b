"""Messages of AMD's, Intel's, Apple's, Google's and Huawei's accelerators."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import CONTAINER, LINUX, WINDOWS, WSL, Family, Mechanism
from ownlab.text import text

__all__ = ["VENDORS"]

VENDORS = (
    Family(
        text("AMD's ROCm or HIP fails, or does not see the card"),
        r"\bhip(?:Error\w+|BLAS\w*|FFT\w*|RTC\w*|Init\w*|Get\w+|Malloc\w*)|\bHIP (?:error|runtime|out of)|\bHSA[_ ]\w+|hsa_\w+|\bROC[mk]\b|rocminfo|rocm[-_]smi|rocBLAS|rocblas\w*|MIOpen\w*|miopen\w*|hipBLASLt|TensileLibrary|\bamdgpu\b|/dev/kfd|\bkfd\b|\bgfx\d{3,4}\w?\b|no ROCm-capable|zluda|HSA_OVERRIDE\w*|RCCL",
        ("rocm-devices", "rocm-libraries", "rocm-build", "rocm-atomics", "rocm-wsl", "amd-fault"),
        (
            Mechanism(text("This user may not open /dev/kfd and /dev/dri, or the container was not given them"), text("ls -ln /dev/kfd /dev/dri; id; groups render and video; docker: --device=/dev/kfd --device=/dev/dri --group-add NUMBER"), sign=rf"permission|group|unable to open|{CONTAINER}|/dev/kfd", codes=("dev-permission", "rocm-container")),
            Mechanism(text("The chip is not among those for which the build or its libraries have code"), text("rocminfo | grep -E 'gfx|Marketing'; python -c 'import torch; print(torch.cuda.get_arch_list())'; close chips: HSA_OVERRIDE_GFX_VERSION (Linux)"), sign=r"gfx|invalid device function|NoBinary|Tensile|no kernel|arch", codes=("rocm-build", "no-kernel")),
            Mechanism(text("The integrated graphics is taken instead of the card, or beside it"), text("rocminfo | grep Marketing; HIP_VISIBLE_DEVICES=0 (or 1); switch it off in the firmware"), sign=r"gfx1036|gfx1035|gfx1103|gfx90c|gfx902|iGPU|APU|Ryzen|integrated"),
            Mechanism(text("The module amdgpu is not loaded, is older than ROCm needs, or its firmware is missing; nomodeset or a virtual machine"), text("lsmod | grep amdgpu; uname -r; sudo dmesg | grep -iE 'amdgpu|kfd|firmware'; cat /proc/cmdline"), sign=r"not loaded|module|firmware|kernel|userspace|dkms|nomodeset"),
            Mechanism(text("torch is a build for CUDA or the CPU, or for another ROCm than the libraries that are installed"), text("python -c 'import torch; print(torch.__version__, torch.version.hip)'; cat /opt/rocm/.info/version; env -u LD_LIBRARY_PATH python …"), sign=r"\+cu|\+cpu|NVIDIA|undefined symbol|\.so|version", codes=("rocm-build",)),
            Mechanism(text("HSA_OVERRIDE_GFX_VERSION is set wrongly, or hides a real chip"), text("env | grep -E 'HSA|HIP|ROCR'; unset it on a supported card"), sign=r"OVERRIDE|Memory access fault|page not present"),
            Mechanism(text("Windows: the HIP SDK is missing, of another version, or not on PATH; ZLUDA is older than program or SDK; the driver is too old"), text("echo %HIP_PATH%; where amdhip64*.dll; the pairs of ZLUDA, HIP SDK and driver"), sign=rf"{WINDOWS}|zluda|HIP SDK|\.dll", against=LINUX),
            Mechanism(text("WSL: another driver, library set and supported card than on Linux"), text("rocminfo; the driver on Windows (Adrenalin for WSL); librocdxg; AMD's table of cards for WSL"), sign=WSL, codes=("rocm-wsl",)),
            Mechanism(text("The card hangs: power saving, clocks, firmware, a program that accesses memory that does not exist"), text("sudo dmesg | grep -iE 'ring|timeout|fault|reset'; default clocks; newer kernel and linux-firmware"), sign=r"timeout|hang|reset|fault|ring", codes=("amd-fault",)),
            Mechanism(text("The slot has no PCIe atomics, or the IOMMU stands in the way"), text("sudo dmesg | grep -i atomics; iommu=pt; a slot of the processor"), sign=r"atomic|iommu|PCIe", codes=("rocm-atomics",)),
            Mechanism(text("The memory is full, or is counted wrongly on an APU (carve-out and GTT)"), text("rocm-smi --showmeminfo vram gtt"), sign=r"memory|alloc|VRAM"),
        ),
    ),
    Family(
        text("An Intel GPU is not found or fails"),
        r"\bsycl\w*|level[_ -]?zero|\bUR_\w+|\bPI_ERROR\w*|\bze(?:Init|_result)\w*|\bxpu\b|oneAPI|openvino|\bIPEX\b|intel[_-]extension\w*|\bi915\b|\bxe \d{4}:|Intel\(?R?\)? (?:Arc|Iris|UHD|Data Center GPU)",
        ("intel-gpu", "xpu-build", "opencl"),
        (
            Mechanism(text("torch or its extension is not a build for Intel GPUs (its version does not end in +xpu)"), text("python -c 'import torch; print(torch.__version__)'; pip list | grep -iE 'intel|torch'"), sign=r"not linked|not compiled|\+cpu|version", codes=("xpu-build",)),
            Mechanism(text("The compute runtime is missing or older than the card: Level Zero, OpenCL"), text("sycl-ls; clinfo -l; dpkg -l | grep -E 'level-zero|libze|intel-opencl'"), sign=r"no device|sycl-ls|level|platform|not found|-1\b"),
            Mechanism(text("This user may not open /dev/dri/renderD*, or the container was not given it"), text("ls -ln /dev/dri; id; docker: --device /dev/dri --group-add NUMBER"), sign=rf"permission|render|{CONTAINER}", codes=("dev-permission",)),
            Mechanism(text("The kernel is too old for the card, or its firmware (GuC, HuC) is missing"), text("uname -r; sudo dmesg | grep -iE 'i915|xe |guc|huc'; lspci -nnk | grep -A3 -i vga"), sign=r"guc|huc|firmware|force_probe|kernel|i915"),
            Mechanism(text("oneAPI's environment is not set, or two versions of its libraries meet (pip's and the system's)"), text("source /opt/intel/oneapi/setvars.sh (or a shell without it, with pip's own); pip list | grep -iE 'intel|dpcpp|mkl'"), sign=r"libsycl|libmkl|setvars|\.so|\.dll|undefined", codes=("library-missing",)),
            Mechanism(text("The processor's graphics is not supported, or is taken instead of the card"), text("sycl-ls; ONEAPI_DEVICE_SELECTOR=level_zero:0 (or 1)"), sign=r"UHD|Iris|HD Graphics|gen9|integrated"),
            Mechanism(text("The driver on Windows, or Windows' and WSL's, is too old"), text("Intel's current graphics driver; wsl --update"), sign=rf"{WINDOWS}|{WSL}", against=LINUX),
            Mechanism(text("Memory: a single piece over 4 GB, or all of it; resizable BAR is off"), text("export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1; the firmware's setting for Resizable BAR"), sign=r"memory|OUT_OF|alloc|BAR"),
            Mechanism(text("A kernel ran too long and the card was reset"), text("sudo dmesg | grep -iE 'hang|reset'; smaller steps; the hang check of i915"), sign=r"hang|reset|DEVICE_LOST|timeout"),
        ),
    ),
    Family(
        text("An Ascend NPU or CANN fails"),
        r"\bascend\w*|\bCANN\b|\bacl(?:rt|nn|op|Init)?\w*\b[^\n]{0,30}(?:error|fail)|\bACL\b|\bNPU\b|\bnpu-smi|torch_npu|\bhccl\w*|\bdcmi\b|DrvMng\w*|\bdrv\w* (?:error|fail)|\b(?:5070\d\d|1070\d\d|207\d{3}|5000\d\d|507\d{3})\b|\bE[EZJKLHR]\d{4}\b|libatb|davinci\w*|\bTBE\b|\bMindSpore\b|\bGE\b[^\n]{0,20}fail",
        ("ascend-environment", "ascend-health", "ascend-stack"),
        (
            Mechanism(text("The environment of CANN is not set in this shell, service or IDE (also NNAL/ATB)"), text("source /usr/local/Ascend/ascend-toolkit/set_env.sh; source /usr/local/Ascend/nnal/atb/set_env.sh; env | grep ASCEND"), sign=r"\.so|libascend|libhccl|libatb|ModuleNotFound|No module|cannot open"),
            Mechanism(text("Driver, firmware, CANN, NNAL, torch and torch_npu are not of one set"), text("cat /usr/local/Ascend/driver/version.info /usr/local/Ascend/ascend-toolkit/latest/version.cfg; pip list | grep -i torch   # compare with the tables of hiascend.com and github.com/Ascend/pytorch"), sign=r"undefined symbol|version|507\d\d\d|500\d\d\d|not support|symbol|aclnn"),
            Mechanism(text("Another process or container uses the NPU, or one is left over"), text("npu-smi info on the host; docker ps; ls /dev/davinci*; fuser -v /dev/davinci*"), sign=r"used|busy|8020|8005|107002|occupied|resource|drvMng", codes=("ascend-health",)),
            Mechanism(text("The container lacks devices or the driver's files"), text("--device /dev/davinciN --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc; -v /usr/local/dcmi -v /usr/local/Ascend/driver -v /usr/local/bin/npu-smi; or Ascend's runtime"), sign=rf"{CONTAINER}|dcmi|8005|LibraryNotFound|DrvMng|davinci"),
            Mechanism(text("Rights: the user is not in HwHiAiUser, or the container dropped its capabilities"), text("ls -ln /dev/davinci*; id; grep Cap /proc/1/status"), sign=r"permission|HwHiAi|cap|denied"),
            Mechanism(text("Python packages that CANN's compiler needs are missing or too new (numpy 2, attrs, decorator, sympy, scipy, psutil, protobuf)"), text("pip install 'numpy<2' attrs decorator sympy scipy psutil protobuf cloudpickle; the line under “TBE” or “import”"), sign=r"numpy|tbe|No module|attr|decorator|500001|E40|compile"),
            Mechanism(text("The operator, its type or shape is not supported on this chip, or the operators were built for another chip"), text("npu-smi info (chip); the kernels package of CANN for it; export ASCEND_SLOG_PRINT_TO_STDOUT=1 ASCEND_LAUNCH_BLOCKING=1"), sign=r"not support|socversion|soc|E[ZK]\d+|310P|910|opp|kernel|EZ"),
            Mechanism(text("The NPU's memory is full"), text("npu-smi info; a smaller batch; gpu_memory_utilization, max_device_memory"), sign=r"memory|malloc|207001|200000|EL0004|alloc"),
            Mechanism(text("Links between NPUs: HCCL's addresses, ports, time-outs, a rank that failed first"), text("hccn_tool -i 0 -link -g; export HCCL_CONNECT_TIMEOUT=1200 HCCL_IF_IP=…; the first error of the first rank"), sign=r"hccl|EI\d{4}|EJ\d{4}|timeout|link|rank"),
            Mechanism(text("The NPU is at fault or needs a reset (health, heat, ECC)"), text("npu-smi info -t health -i 0; npu-smi info -t ecc -i 0; the kernel log of the host"), sign=r"health|alarm|critical|ecc|heart ?beat|lost|507899|507010"),
        ),
    ),
    Family(
        text("A TPU is not found or does not start"),
        r"\bTPUs?\b|libtpu\w*|torch_xla|/dev/accel\d*|/dev/vfio|tpu_driver|\bPJRT_DEVICE|TPU_\w+|tpu-vm|megascale",
        ("tpu", "tpu-no-libtpu", "jax-build"),
        (
            Mechanism(text("Another process holds the TPU: a notebook, a crashed run, a container"), text("sudo lsof -w /dev/accel* /dev/vfio/*; ps aux | grep python; then remove /tmp/libtpu_lockfile if nothing uses it"), sign=r"in use|busy|lockfile|already|Device or resource"),
            Mechanism(text("libtpu is missing, or of another release than jax or torch_xla"), text("pip list | grep -iE 'libtpu|jax|torch'; pip install -U 'jax[tpu]' or torch_xla[tpu] of torch's version"), sign=r"libtpu|not installed|version|symbol|API|Falling back", codes=("tpu-no-libtpu",)),
            Mechanism(text("The device is not there: a virtual machine without a TPU, a container without --privileged, an image too old for this generation (v5 and newer use /dev/vfio)"), text("ls /dev/accel* /dev/vfio; lspci | grep -i google; docker: --privileged --net=host"), sign=rf"No such file|/dev/accel|{CONTAINER}|not found|FAILED_PRECONDITION"),
            Mechanism(text("Several hosts: the program must run on all of them at once"), text("gcloud compute tpus tpu-vm ssh NAME --worker=all --command=…; jax.distributed.initialize()"), sign=r"worker|host|slice|pod|v\d-(?:16|32|64|128|256)|barrier|hang"),
            Mechanism(text("Variables of another set-up: TPU_NAME, TPU_*, XRT_TPU_CONFIG, PJRT_DEVICE, JAX_PLATFORMS"), text("env | grep -E 'TPU|PJRT|XRT|JAX|XLA'"), sign=r"PJRT_DEVICE|XRT|TPU_\w+|metadata"),
            Mechanism(text("The TPU was preempted, is in maintenance, or its machine is at fault: create it anew"), text("gcloud compute tpus tpu-vm describe NAME --zone ZONE   # state, health"), sign=r"preempt|maint|UNAVAILABLE|DEADLINE|unhealthy|ABORTED"),
            Mechanism(text("A hosted notebook without a TPU runtime, or with the former TPU node architecture, which current packages do not know"), text("the runtime's type; ls /dev/accel*; echo $COLAB_TPU_ADDR"), sign=r"Colab|kaggle|grpc://|COLAB"),
            Mechanism(text("The TPU's memory is full"), text("the sizes in the message; a smaller batch; jax.live_arrays()"), sign=r"RESOURCE_EXHAUSTED|HBM|memory"),
        ),
    ),
    Family(
        text("Apple's GPU is not used, or fails"),
        r"\bMPS\b|\bmps:0|torch\.backends\.mps|Metal\b|MTL\w+|\bMLX\b|jax-metal|tensorflow-metal|CoreML",
        ("mps-absent", "mps-limits", "rosetta"),
        (
            Mechanism(text("This Python is built for Intel and runs under Rosetta, or macOS is older than 12.3"), text("python -c 'import platform; print(platform.machine(), platform.mac_ver()[0])'   # must be arm64"), sign=r"x86_64|rosetta|not (?:available|built)|False", codes=("rosetta", "mps-absent")),
            Mechanism(text("The operation or number type does not exist on Apple's GPU"), text("export PYTORCH_ENABLE_MPS_FALLBACK=1; float32 instead of float64; a newer torch and macOS"), sign=r"not (?:currently )?(?:implemented|supported)|float64|aten::|bf16", codes=("mps-limits",)),
            Mechanism(text("The memory, which it shares with the system, is full"), text("PYTORCH_MPS_HIGH_WATERMARK_RATIO; a smaller batch; Activity Monitor"), sign=r"memory|watermark|alloc"),
            Mechanism(text("The package is for CUDA or the CPU, or of a release without Metal"), text("pip list | grep -iE 'torch|metal|mlx'"), sign=r"cuda|not compiled|version"),
            Mechanism(text("It runs in a virtual machine, a container or over a service without GPU"), text("system_profiler SPDisplaysDataType | grep -i metal"), sign=r"docker|vm|virtual|github"),
        ),
        stands_alone=False,
    ),
)  # fmt: skip
