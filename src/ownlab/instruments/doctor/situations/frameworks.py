"""Situations of frameworks: a version, another library or another maker's card beside a message shows which of its causes it is."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import AMD, NVIDIA_CARD, WSL, Situation
from ownlab.text import text

__all__ = ["FRAMEWORKS"]

_NO_HANDLE = r"(?:Could not|could not|Failed to) create (?:cudnn|cublas|cusolver)\w* handle|DNN library initialization failed|DNN library is not found|failed to create (?:cudnn|cublas) handle"
_JAX = r"\bjax(?:lib)?\b|XlaRuntimeError|xla_bridge|external/xla/"
_NPU = r"torch[_-]npu|\bCANN\b|davinci|\bnpu(?::\d|-smi)|\bAscend"
_MEMORY_RULES = ("tensorflow-memory", "cuda-library", "cublas", "jax-build", "unknown-message")
_TENSORFLOW_BLIND = r"(?:GPUs?|GPU devices?)(?: are)? ?[Aa]vailable\W{0,6}(?:0\b|\[\])|list_physical_devices\(['\"]GPU['\"]\)\W*\n?\W*\[\]|\[PhysicalDevice\(name='/physical_device:CPU:0', device_type='CPU'\)\]\s*$"
_SINCE_2_11 = r"tensorflow(?:[ -]gpu)?(?: version)?[ =:v\"'(]{1,6}2\.(?:1[1-9]|2\d)\b|tf\.__version__[^\n]{0,12}\n?[^\n]{0,60}\b2\.(?:1[1-9]|2\d)\b|^fact: (?:package|framework) tensorflow(?:-gpu)?==2\.(?:1[1-9]|2\d)"
_RDNA_WITHOUT_CODE = r"\bgfx103[1-5]\b|\bRX 6[3-7]\d0\b|\b6[3-7]00 ?XT\b"

FRAMEWORKS: tuple[Situation, ...] = (
    Situation(
        "driver-old",
        (_NO_HANDLE, r"Possibly insufficient driver version|insufficient driver"),
        text("cuDNN does not start: the driver is older than this cuDNN needs"),
        text("The framework adds the driver's version to its message for that reason. cuDNN 8.9 and 9 for CUDA 12 need driver 525 or newer, for CUDA 11 450 or newer."),
        (
            text("nvidia-smi   # driver and the newest CUDA that it supports; on a cluster another node or partition may have a newer one"),
            text("A build for an older CUDA: jaxlib with cuda11 (up to 0.4.25), torch with cu118; or a newer driver, where it is yours."),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "cudnn-shadow",
        (_NO_HANDLE, r"\+cuda1[12]\.cudnn8\d|jaxlib[ =]+0\.(?:[0-3]\.|4\.(?:[0-9]|1\d|2[0-6])\b)", r"nvidia-cudnn-cu1[12][ =]+9\."),
        text("cuDNN 9 is installed, and this jaxlib was built for cuDNN 8"),
        text("Another major version does not replace it. jaxlib up to 0.4.26 takes cuDNN 8.9; newer ones take cuDNN 9."),
        (
            text("pip install 'nvidia-cudnn-cu12>=8.9,<9'   # beside this jaxlib; other packages that need cuDNN 9 (torch 2.4 and newer) belong into another environment"),
            text("Or a newer JAX: python -m pip install -U 'jax[cuda12]'"),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "cudnn-shadow",
        (_NO_HANDLE, r"^fact: most of the card's memory is free$"),
        text("cuDNN does not start although the card's memory is free: another cuDNN is loaded, a part of it is missing, or the driver does not fit"),
        text("The message names the free memory, and it is enough. So it is not the memory: usually a cuDNN or CUDA of another version on LD_LIBRARY_PATH, a cuDNN that is not installed completely, or a driver that is too old."),
        (
            text("env -u LD_LIBRARY_PATH python …   # if that helps, remove CUDA's folders from LD_LIBRARY_PATH"),
            text("pip list | grep -iE 'nvidia|jax|tensorflow|torch'; ldconfig -p | grep cudnn   # one cuDNN, of the version that the framework was built with"),
            text("nvidia-smi   # the driver must support the CUDA of the build"),
            text("If it happens only beside other programs: export XLA_PYTHON_CLIENT_PREALLOCATE=false (JAX), TF_FORCE_GPU_ALLOW_GROWTH=true (TensorFlow)"),
        ),
        _MEMORY_RULES,
    ),
    Situation(
        "tensorflow-memory",
        (_NO_HANDLE, _JAX),
        text("cuDNN could not start in JAX: the card's memory is taken, or another cuDNN than JAX's is loaded"),
        text("JAX takes three quarters of the memory at its start. If other programs have the rest, cuDNN gets none. The same message comes from a cuDNN that JAX was not built with."),
        (
            text("nvidia-smi   # other programs on the card, also old notebooks; export XLA_PYTHON_CLIENT_PREALLOCATE=false (or XLA_PYTHON_CLIENT_MEM_FRACTION=.5) before Python starts"),
            text("Memory is free: env -u LD_LIBRARY_PATH python …; pip list | grep -iE 'cudnn|jax'; python -m pip install -U 'jax[cuda12]'   # brings its own cuDNN"),
            text("nvidia-smi: CUDA 12 needs driver 525 or newer."),
        ),
        ("tensorflow-memory", "cuda-library", "unknown-message"),
        unless=r"tensorflow[ =]+\d|import tensorflow|tf\.\w+\(|Loaded runtime CuDNN library|VERSION_MISMATCH|cuDNN version|sub-?library",
    ),
    Situation(
        "cpu-build",
        (r"not compiled with CUDA enabled", _NPU),
        text("The program asks for CUDA, and this machine computes with an Ascend NPU"),
        text("torch beside torch_npu is the CPU build, as it must be. Either the program names the device cuda, or its libraries are newer than this torch_npu and take the way to CUDA for what they do not know."),
        (
            text("In the program: import torch_npu; device 'npu:0'; or one line for code that was written for CUDA: from torch_npu.contrib import transfer_to_npu"),
            text("transformers after 4.49 needs torch and torch_npu 2.5.1 or newer; or: pip install 'transformers<4.50'"),
            text("A torch for CUDA does not help here, and breaks torch_npu."),
        ),
        ("cpu-build", "torch-no-gpu"),
    ),
    Situation(
        "no-accelerator",
        (r"nvcuda\.dll|CUDA: Not detected|libcuda\.so\S*: cannot open", AMD + r"|\bAMD:\d|Radeon (?:HD|R[579])"),
        text("The card is AMD's: the program looks for NVIDIA's driver in vain, as it must"),
        text("Only NVIDIA cards have CUDA. A program that also knows OpenCL, Vulkan, DirectML or ROCm goes on with that one, and the message is harmless."),
        (
            text("If the program goes on: nothing needs to be done. If it ends: its variant for AMD (ROCm, HIP, DirectML, Vulkan), or the CPU. NVIDIA's driver and CUDA cannot work with this card."),
        ),
        ("library-missing", "no-driver", "several-causes", "unknown-message", "wsl-libraries"),
        unless=NVIDIA_CARD,
        severity="note",
    ),
    Situation(
        "card-too-old",
        (r"GPUs? with compute capability (?:below|less than|lower than|under) \d\.\d (?:are|is) not supported|(?:requires|needs) (?:a )?(?:GPU with )?compute capability (?:of )?(?:at least |>= ?)?\d\.\d",),
        text("This program does not support cards of this age at all"),
        text("The message names the compute capability that it needs. Another number format, a driver or a toolkit does not change that."),
        (
            text("nvidia-smi --query-gpu=name,compute_cap --format=csv   # beside the number in the message"),
            text("Another program for this card (llama.cpp and Ollama run on cards from 5.0 on), an older release that still supports it, or another card."),
        ),
        ("no-bf16", "card-too-old", "device-request", "unknown-message"),
        unless=r"FlashAttention|bitsandbytes|flash_attn",
    ),
    Situation(
        "wheel-missing",
        (r"No matching distribution found for tensorflow-gpu|Could not find a version that satisfies the requirement tensorflow-gpu",),
        text("The package tensorflow-gpu no longer exists; and on native Windows TensorFlow has no GPU support after 2.10"),
        text("Since 2.1 the package tensorflow itself is for the GPU, too; tensorflow-gpu ended with 2.11. CUDA and cuDNN of Windows do not help newer releases."),
        (
            text("Linux, WSL 2: python -m pip install 'tensorflow[and-cuda]'"),
            text("Windows itself: Python 3.10 or older: pip install 'tensorflow<2.11' 'numpy<2'; conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1.0"),
        ),
        ("wheel-missing", "gpu-not-found"),
        blocks=False,
    ),
    Situation(
        "gpu-not-found",
        (_SINCE_2_11, _TENSORFLOW_BLIND),
        text("TensorFlow sees no GPU: on native Windows releases after 2.10 have none; on Linux the plain package brings no CUDA"),
        text("Which of the two it is, the text does not show. That other programs (torch) see the card says nothing about TensorFlow."),
        (
            text("Windows itself: WSL 2 with 'tensorflow[and-cuda]', or Python 3.10 with: pip install 'tensorflow<2.11' 'numpy<2'. Other versions of CUDA and cuDNN do not help."),
            text("Linux, WSL 2: python -m pip install 'tensorflow[and-cuda]'; then: python -c 'import tensorflow as tf; print(tf.config.list_physical_devices())'   # lines above the list name a library that is missing"),
            text("nvidia-smi must work in the same place (container: --gpus all)."),
        ),
        ("gpu-not-found", "torch-no-gpu", "unknown-message", "several-causes"),
        unless=rf"{WSL}|^fact: family linux|Could not load dynamic library|dso_loader|Cannot dlopen|x86_64-linux|CUDA_ERROR|is_built_with_cuda\(\)\W*\n?\W*False|+cpu".replace("+cpu", r"\+cpu"),
    ),
    Situation(
        "gpu-not-found",
        (r"library=cuda\b|inference compute[^\n]*(?:NVIDIA|cuda)", r"runners=\[\"?cpu\"?\]|Dynamic LLM libraries[^\n]*\[cpu\]"),
        text("Ollama lists the card but has no runner for it: the processor lacks AVX, or the installation is incomplete"),
        text("Ollama's GPU runners need AVX. In a virtual machine the processor's type may hide it (QEMU, Proxmox: kvm64). Without lib/ollama beside the program there are no runners either."),
        (
            text("grep -o -w avx /proc/cpuinfo | head -1   # nothing: give the virtual machine the processor type host, then start it anew"),
            text("ls /usr/lib/ollama /usr/local/lib/ollama   # no cuda files: install Ollama again with its script; the driver is in order"),
        ),
        ("unknown-message", "no-accelerator"),
    ),
    Situation(
        "gpu-not-found",
        (r"load_backend: loaded CPU backend|offloaded 0/\d+ layers to GPU|offloading (?:0|no) (?:repeating )?layers",),
        text("The model runs on the CPU: the GPU's back end was not loaded, or no layer fits or was asked for"),
        text("In the order of frequency: the build or installation has no back end for this card (its files are missing or not found), the card's memory is too small or taken, the number of layers for the GPU is 0, or a variable hides the card."),
        (
            text("The log above: which back ends are loaded (CUDA, ROCm, Vulkan)? None: install the program again, or its GPU build; Windows: the folder lib\\ollama must be found (PATH)."),
            text("nvidia-smi (rocm-smi): free memory; llama.cpp: -ngl 99; Ollama: num_gpu not 0, a smaller model or context"),
            text("env | grep -E 'VISIBLE_DEVICES|OLLAMA_LLM'   # in the service, too: systemctl show ollama -p Environment; Slurm may set ROCR_VISIBLE_DEVICES beside an NVIDIA card: unset it"),
        ),
        ("unknown-message",),
        unless=r"loaded (?:CUDA|ROCm|HIP|Vulkan|Metal|SYCL|BLAS|RPC) backend|offloaded [1-9]\d*/|out of memory|CUDA error|killed",
        severity="warning",
    ),
    Situation(
        "gpu-not-found",
        (r"ROCR_VISIBLE_DEVICES[=: \"]+\d", r"NVIDIA|CUDA|library=cpu", r"ollama|library=cpu|user overrode visible devices"),
        text("ROCR_VISIBLE_DEVICES is set beside an NVIDIA card: Ollama then looks for AMD cards only, and takes the CPU"),
        text("Slurm sets the variable for every job with a GPU. It is meant for AMD cards."),
        (text("unset ROCR_VISIBLE_DEVICES; then start ollama serve again   # in the job's script"),),
        ("gpu-not-found", "hidden"),
        unless=r"\bgfx\d|Radeon|Instinct",
    ),
    Situation(
        "rocm-build",
        (_RDNA_WITHOUT_CODE, r"Segmentation fault|core dumped|SIGSEGV|exit code -11"),
        text("The program crashes on a Radeon for which ROCm's libraries have no code: HSA_OVERRIDE_GFX_VERSION is not set, or not exported"),
        text("Chips gfx1031 to gfx1035 (RX 6300 to 6750) run code for gfx1030 if the program sees the variable. A variable that is only set in the shell, not exported, is not seen; env must list it."),
        (
            text("export HSA_OVERRIDE_GFX_VERSION=10.3.0   # fish: set -gx HSA_OVERRIDE_GFX_VERSION 10.3.0; check: env | grep HSA"),
            text("With an integrated GPU beside the card: HIP_VISIBLE_DEVICES=0 (or 1)."),
        ),
        ("unfit-library", "rocm-libraries", "unknown-message"),
    ),
    Situation(
        "extension-build",
        (r"^Loading \w+ extension \(set |Using \S+ as PyTorch extensions root\.\.\.\s*$|^Loading extension module \w+\.\.\.\s*$|Creating extension directory \S+torch_extensions",),
        text("torch compiles an extension, or waits for another process that does: a lock of an aborted build makes it wait for ever"),
        text("The first start compiles for some minutes. If nothing happens after that, a file named lock lies in the cache of extensions, left by a run that was stopped."),
        (
            text("ls -l ~/.cache/torch_extensions/*/*/lock; ps aux | grep -E 'nvcc|ninja'   # a lock, and nothing compiles: rm -rf ~/.cache/torch_extensions/*"),
            text("To see what it does: COLBERT_LOAD_TORCH_EXTENSION_VERBOSE=True, or verbose=True in load(); MAX_JOBS=2 if memory runs out"),
        ),
        ("unknown-message", "several-causes"),
        unless=r"Error|error:|FAILED|Traceback|failed",
        severity="warning",
        while_working=True,
    ),
    Situation(
        "driver-old",
        (r"Driver API Version: (?P<driver>\d+)\.(?P<minor>\d+), Runtime API Version: (?!(?P=driver)\.)(?:1[0-9]|9)\.", r"(?i:error|fail|cannot|mismatch)"),
        text("Paddle's CUDA is of another major version than the newest that the driver supports"),
        text("Paddle prints both: the CUDA of the driver (Driver API) and its own (Runtime API). The driver's must be the same major version or a newer one; with a newer one, look at the library that fails."),
        (
            text("python -m pip uninstall -y paddlepaddle-gpu paddlepaddle; then the build for the driver's CUDA from https://www.paddlepaddle.org.cn/en/install/quick   # cu118, cu126, cu129"),
            text("Or a newer driver, where it is yours; then: python -c 'import paddle; paddle.utils.run_check()'"),
        ),
        ("runtime-failure", "cublas", "cuda-library", "cudnn-missing"),
        unless=r"Driver API Version: (?:1[1-9])\.\d+, Runtime API Version: (?:10|9|8)\.|Driver API Version: 1[2-9]\.\d+, Runtime API Version: 11\.|Driver API Version: 13\.\d+, Runtime API Version: 12\.",
    ),
    Situation(
        "cudnn-shadow",
        (r"Runtime API Version: 1[12]\.\d", r"cuDNN Version: [567]\.\d"),
        text("Paddle finds a cuDNN that is much older than its CUDA: another one on the loader's path"),
        text("Paddle prints what it has loaded. With CUDA 11 and 12 it needs cuDNN 8 or 9; a cuDNN 5 to 7 of the system, or of another folder in LD_LIBRARY_PATH, is found first."),
        (
            text("ldconfig -p | grep cudnn; echo $LD_LIBRARY_PATH; find / -name 'libcudnn.so*' -not -path '/proc/*' 2>/dev/null   # which is found, and which is meant"),
            text("export LD_LIBRARY_PATH=FOLDER-OF-THE-RIGHT-CUDNN:$LD_LIBRARY_PATH   # conda: $CONDA_PREFIX/lib; pip: site-packages/nvidia/cudnn/lib; or Paddle 2.6 and newer from its own index, which brings it"),
        ),
        ("runtime-failure", "cublas", "cuda-library", "cudnn-missing"),
    ),
    Situation(
        "tensorrt",
        (r"does not currently build wheels for Tegra",),
        text("On a Jetson TensorRT comes with JetPack, and not from pip"),
        text("The wheels of PyPI are for servers. JetPack installs TensorRT with its Python module for the system's Python."),
        (
            text("dpkg -l | grep -E 'nvinfer|tensorrt'; sudo apt-get install -y nvidia-tensorrt python3-libnvinfer   # JetPack's packages"),
            text("In a virtual environment: python3 -m venv --system-site-packages ENV; or NVIDIA's container l4t-tensorrt. The release is JetPack's: a newer TensorRT needs a newer JetPack."),
        ),
        ("extension-build", "package-tool", "unknown-message"),
        blocks=False,
    ),
    Situation(
        "harmless",
        (r"compute type inferred from the saved model is \w+, but the target device or backend do(?:es)? not support",),
        text("Harmless: CTranslate2 converts the model to a number format that this device has"),
        text("Cards before Volta, GTX 16 cards and processors have no fast float16. The weights are converted to float32 when the model is loaded; the results are right, and need more memory."),
        (text("Nothing needs to be done. compute_type='int8' (or 'int8_float32') needs less memory; compute_type='float32' silences the notice."),),
        ("unknown-message", "several-causes", "runtime-failure"),
        severity="note",
        while_working=True,
        unless=r"^\s*[\w.]*(?:Error|Exception)\b: ",
    ),
    Situation(
        "cudnn-missing",
        (r"(?:Could not load library|Could not locate|Error loading|LoadLibrary failed)[^\n]*cudnn\w*\.dll", r"[Ee]rror(?: code)?\W{0,4}126\b"),
        text("Windows does not load a DLL of cuDNN: it is not on PATH, or a DLL that it needs in turn is missing (zlibwapi.dll)"),
        text("Error 126 does not say which file is missing. If the folder of cuDNN is on PATH, it is usually zlibwapi.dll, which cuDNN 8 needs and does not bring."),
        (
            text("where cudnn*.dll; where zlibwapi.dll   # what is not found is missing"),
            text("cuDNN is found: put zlibwapi.dll (NVIDIA's cuDNN guide, “Installing zlib”) beside it; cuDNN need not be installed again."),
            text("cuDNN is not found: its bin folder into PATH, in a new terminal; or pip install nvidia-cudnn-cu12 of the major version in the name"),
        ),
        ("cudnn-missing", "framework-broken", "library-missing"),
    ),
    Situation(
        "dev-permission",
        (r"NVreg_DeviceFileMode=0?6[0-6]0\b",),
        text("The module's options give the card's device files to one group: other users cannot open them"),
        text("NVreg_DeviceFileGID names the group by its number, NVreg_DeviceFileMode the rights. A user outside of the group, or a number that is another group here, reaches no card; root does."),
        (
            text("ls -ln /dev/nvidia*; id; getent group NUMBER   # the number of NVreg_DeviceFileGID"),
            text("sudo usermod -aG GROUP $USER; then log out and in again   # also the users of services (sddm, gdm, docker)"),
            text("Or correct the number, or allow all users: options nvidia NVreg_DeviceFileMode=0666 in /etc/modprobe.d; then rebuild the boot image (dracut -f, update-initramfs -u) and reboot"),
        ),
        ("dev-permission", "unknown-message", "several-causes"),
    ),
    Situation(
        "ptx-toolchain",
        (r"Unsupported \.version \d+\.\d+; current version is", r"LinkerError|Call to cuLinkAddData|ptxas application ptx input|cuModuleLoad|numba|cupy"),
        text("The PTX is of a newer CUDA than the driver's compiler knows"),
        text("The driver's compiler knows PTX up to the second version in the message; the toolkit that numba, CuPy or the program uses made the first one."),
        (
            text("nvidia-smi   # top right: the newest CUDA of the driver; conda list | grep -iE 'cudatoolkit|cuda-nvcc|cuda-version'"),
            text("An older toolkit: conda install cudatoolkit=11.Y (or -c conda-forge cuda-version=12.X), not newer than the driver's; or a newer driver, where it is yours."),
        ),
        ("xla-tools", "ptx-toolchain"),
    ),
    Situation(
        "no-accelerator",
        (r"dxcore[^\n]*Core Nvidia component[^\n]*not found|Core Nvidia component \S+ not found in /usr/lib/wsl/drivers",),
        text("In WSL the toolkit finds an adapter whose driver is not NVIDIA's: this machine has no NVIDIA card, or its driver is not the one for WSL"),
        text("/usr/lib/wsl/drivers has a folder for each adapter's driver of Windows. NVIDIA's begins with nv (nvlt…, nvmd…, nv_disp…) and contains libcuda; others are of AMD (u0…) or Intel (iigd…)."),
        (
            text("On Windows: Get-CimInstance Win32_VideoController | select Name, DriverVersion   # no NVIDIA card: run without --gpus, on the CPU"),
            text("With an NVIDIA card: install its current driver on Windows; then wsl --update; wsl --shutdown. Install no Linux driver inside WSL."),
        ),
        ("library-missing", "wsl", "wsl-libraries", "container-toolkit", "unknown-message"),
        severity="warning",
    ),
    Situation(
        "rocm-libraries",
        (r"\bgfx(?:1036|1037|1035|1103|1150|1151|90c|902|909)\b", r"\bgfx(?:103[0-4]|110[0-2]|120[01]|90a|90[68]|94\d|950)\b"),
        text("ROCm counts the graphics that are part of the CPU beside the card, and may take them instead"),
        text("The text names two chips: the small one of the processor (gfx1036, gfx1103, …) and the card's. Programs that take device 0, or code for one chip, then fail or are slow. An update of the firmware can turn it on again."),
        (
            text("rocminfo | grep -E 'gfx|Marketing' (Windows: hipInfo)   # the numbers; then HIP_VISIBLE_DEVICES=0 (or 1), the card's, before the program starts"),
            text("Or turn the processor's graphics off in the firmware or in Windows' device manager. A HIP_VISIBLE_DEVICES that was set for the former order is then wrong: remove it."),
        ),
        ("unknown-message", "rocm-libraries", "rocm-build", "unfit-library"),
        unless=r"Cannot find CO|hipErrorNoBinary|supported[^\n]*gfx\w+, gfx|--offload-arch|PYTORCH_ROCM_ARCH|amdgpu-targets|Compiled? for",
        severity="warning",
        while_working=True,
    ),
    Situation(
        "no-kernel",
        (r"CUDA Compiler +(?P<compiler>\d+\.\d+)(?=[\s\S]*CUDA Runtime (?!(?P=compiler))\d)", r"no kernel image|invalid device function|not compatible"),
        text("The extension was compiled with another CUDA than torch's, which has no code for this card"),
        text("The list names both: the compiler of the extension, and the CUDA runtime of torch. An old nvcc does not know newer cards."),
        (
            text("export CUDA_HOME=/usr/local/cuda-X.Y   # torch's CUDA; then remove the build folder and install the extension again: pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps ."),
            text("python -m detectron2.utils.collect_env   # both versions must then be equal, and the card's architecture in the list"),
        ),
        ("no-kernel", "cuda-mismatch", "device-request"),
        blocks=False,
        while_working=True,
    ),
    Situation(
        "harmless",
        (r"failed to mlock \d+-byte buffer|Try increasing RLIMIT_MLOCK",),
        text("Harmless: llama.cpp could not lock the model in memory, and goes on without"),
        text("Locking only keeps the system from swapping the model out. The limit for locked memory (ulimit -l) is small by default, above all in containers."),
        (text("Nothing needs to be done. Without the notice: use_mlock=False (no --mlock); or docker run --ulimit memlock=-1"),),
        ("unknown-message", "several-causes", "memlock", "host-memory"),
        severity="note",
        while_working=True,
        unless=r"^\s*[\w.]*(?:Error|Exception)\b: |core dumped|Killed",
    ),
    Situation(
        "pcie-topology",
        (r"P2P Connectivity Matrix|CAN Access Peer Device",),
        text("The cards say that they can reach each other; if jobs on several cards hang all the same, the IOMMU or ACS is the reason"),
        text("This test asks the driver. It does not show whether the data arrives: with an IOMMU (or ACS) it goes another way, and NCCL hangs or computes wrongly."),
        (
            text("NCCL_P2P_DISABLE=1 in front of the job: if it runs then, transfers between the cards are the reason."),
            text("sudo dmesg | grep -iE 'iommu|AMD-Vi|DMAR' | head; sudo lspci -vvv | grep ACSCtl   # SrcValid+: ACS is on"),
            text("Then, where no virtual machine needs it: the IOMMU off in the firmware, or iommu=pt on the kernel's command line; ACS off on the switches."),
        ),
        severity="warning",
        while_working=True,
        unless=r"CANNOT Access|error|fail",
    ),
    Situation(
        "harmless",
        (r"Missing \\?\"?iommu=pt",),
        text("The kernel was started without iommu=pt: harmless where jobs run, the usual reason where jobs on several cards hang"),
        text("NCCL and RCCL only check the kernel's command line. With the IOMMU in its strict mode transfers between AMD (and some NVIDIA) cards are slow, hang or are lost."),
        (
            text("Does a job on several cards run to its end? Then nothing needs to be done."),
            text("If it hangs: add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub; then sudo update-grub or grub2-mkconfig), and reboot; check: cat /proc/cmdline"),
        ),
        ("harmless", "unknown-message"),
        severity="note",
        while_working=True,
    ),
    Situation(
        "container-no-gpu",
        (r"docker run (?:-{1,2}[\w-]+(?:[= ][^\s-]\S*)? )*(?:[0-9a-f]{12}|[\w.-]+(?:/[\w.-]+)+(?::[\w.-]+)?|[\w.-]+:[\w.-]+) (?:\S+ )*--gpus",),
        text("--gpus stands after the image's name, so it is an argument of the program and not of docker"),
        text("Options of docker run stand before the image. What follows it goes to the program in the container, which has no card then."),
        (text("docker run --gpus all … IMAGE COMMAND"),),
        ("container-no-gpu", "container-daemon", "no-driver", "unknown-message"),
    ),
    Situation(
        "intel-gpu",
        (r"libze_intel_gpu\.so\S*[^\n]*cannot open|Load Library of libze_intel_gpu\S* failed",),
        text("Intel's Level Zero driver is not installed: libze_intel_gpu.so.1 is missing"),
        text("The loader (libze1) is there, and finds no driver for the card. OpenCL has a package of its own, and may work all the same."),
        (
            text("sudo apt-get install -y libze-intel-gpu1   # older packages: intel-level-zero-gpu; Fedora: intel-level-zero; then: sycl-ls"),
        ),
        ("intel-gpu", "library-missing", "unfit-library", "opencl"),
        blocks=False,
    ),
    Situation(
        "intel-gpu",
        (r"^\[host:0\]|\[opencl(?::\d)?:?(?:cpu|\d)?\]", r"^\[opencl:0\] CPU|\[opencl:cpu\]|\[host:0\] HOST"),
        text("sycl-ls lists no Intel GPU: the Level Zero driver is missing, or the compute runtime does not know this card or kernel"),
        text("Only the processor is listed. The package for OpenCL alone does not bring Level Zero."),
        (
            text("sudo apt-get install -y libze-intel-gpu1 libze1 intel-opencl-icd   # Intel's older repository: intel-level-zero-gpu level-zero"),
            text("ls -l /dev/dri; groups   # not in render: sudo usermod -aG render $USER, and log in again; uname -r: Arc needs 6.2 or newer"),
        ),
        ("intel-gpu", "unknown-message", "several-causes"),
        unless=r"\bGPU ?:|:gpu\]|level_zero",
        blocks=False,
    ),
)  # fmt: skip
