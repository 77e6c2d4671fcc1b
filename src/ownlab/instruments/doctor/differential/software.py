"""Messages about libraries and packages: not found, of another version, not to be installed, not to be compiled; frameworks without their GPU."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import (
    AMD,
    CONTAINER,
    JETSON,
    LINUX,
    MAC,
    WINDOWS,
    WSL,
    Family,
    Mechanism,
)
from ownlab.text import text

__all__ = ["SOFTWARE"]

_OTHER_COPY = Mechanism(
    text(
        "Another copy of the library is found first: LD_LIBRARY_PATH, conda, a module, /usr/local/cuda, a second package"
    ),
    text(
        "ldd FILE.so; echo $LD_LIBRARY_PATH $LD_PRELOAD; env -u LD_LIBRARY_PATH PROGRAM; find $CONDA_PREFIX -name 'LIBRARY*'"
    ),
    sign=r"LD_LIBRARY_PATH|conda|/usr/local|\.\./",
    codes=("cudnn-shadow",),
)
_OTHER_ENVIRONMENT = Mechanism(
    text("Another Python or environment runs than the one in which it was installed"),
    text("python -c 'import sys; print(sys.executable)'; python -m pip show PACKAGE; which -a python pip"),
    sign=r"venv|conda|jupyter|ipykernel|python2|python3\.\d+|sudo",
    codes=("module-missing", "framework-absent"),
)
_MIXED = Mechanism(
    text(
        "Packages that do not belong together: conda and pip, several channels or indexes, a dependency that replaced one"
    ),
    text(
        "pip check; pip list | grep -iE 'torch|nvidia|cuda|tensorflow|jax|numpy'; a new environment, all from one index, as the project's guide names it"
    ),
    codes=("mixed-packages",),
)
_DRIVER_LIBRARY = Mechanism(
    text(
        "It is a library of the driver (libcuda, libnvidia-…, nvcuda.dll, libnvcuvid): the driver, its package, or the container's part of it is missing"
    ),
    text(
        "nvidia-smi; ldconfig -p | grep -E 'libcuda|nvidia'; container: --gpus all with NVIDIA_DRIVER_CAPABILITIES=all"
    ),
    sign=r"libcuda\.so|libnvidia-|nvcuda|nvcuvid|libnvoptix|nvEncodeAPI|libnvidia",
    codes=("no-driver",),
)
_DAMAGED = Mechanism(
    text(
        "The file is there but damaged or unfinished: a download or an installation that was cut short, a full disk, a broken link, a pointer of Git LFS"
    ),
    text("ls -lL FILE; file FILE; df -h; then the package once more without cache (pip --no-cache-dir)"),
    sign=r"file too short|invalid ELF|truncated|corrupt|not a valid|zip|checksum|hash",
)

SOFTWARE = (
    Family(
        text("A library is not found"),
        r"cannot open shared object|(?:lib[\w+.-]+\.so[\w.]*|\w+\.dll|lib\w+\.dylib)\W[^\n]{0,60}(?:not found|no such file|missing|could not be|cannot be|unable to|failed)|(?:could not|cannot|can't|couldn't|unable to|failed to|error) (?:load|loading|find|open|locate|import)(?: the)?(?: (?:dynamic|shared|native|required|dependent))*(?: (?:library|libraries|module|dll|object))?\W{0,4}(?:lib[\w+.-]+|[\w.-]+\.(?:so|dll|dylib))|(?:cannot|can't|could not) find -l\w+|Library (?:not loaded|not found)|WinError 12[67]|dlopen|OSError: [^\n]*\.so|image not found|UnsatisfiedLinkError|DllNotFoundException|dlsym|(?:cannot|could not|unable to|failed to) (?:be )?(?:find|locate|load(?:ed)?|preloaded)(?: an?| the| any)?(?: (?:appropriate|suitable|compatible|native|shared))* ?(?:CUDA|cuDNN|ROCm|HIP|oneAPI|native|shared)? ?(?:runtime|toolkit|installation|library|libraries)",
        ("library-missing", "cudnn-missing", "unfit-library", "tensorrt", "system-library", "container-toolkit", "wsl-libraries", "ascend-environment"),
        (
            Mechanism(text("It is not installed"), text("who has it: pip download / apt-file search LIBRARY, dnf provides '*/LIBRARY', conda search; libcudnn, libcublas, libnvrtc …: nvidia-…-cu12 from pip"), codes=("library-missing", "cudnn-missing", "tensorrt")),
            Mechanism(text("It is installed, but its folder is not searched: LD_LIBRARY_PATH or PATH is not set in this shell, service, IDE, cron or sudo"), text("find / -name 'LIBRARY*' -not -path '/proc/*' 2>/dev/null; ldconfig -p | grep LIBRARY; Windows: where LIBRARY.dll   # then export LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH, or its folder in PATH"), sign=r"PATH|/usr/local|systemd|sudo|\.dll"),
            Mechanism(text("Another major version is installed: the number after .so (or in the DLL's name) is the one that the program was built for"), text("ls FOLDER-OF-THE-LIBRARY; the program's build for the CUDA, cuDNN or TensorRT that is there, or the library of that number"), sign=r"\.so\.\d+|64_\d+"),
            _DRIVER_LIBRARY,
            Mechanism(text("The program's release needs the other cuDNN: CTranslate2 (faster-whisper, WhisperX) before 4.5 and onnxruntime-gpu before 1.19 take cuDNN 8, newer ones 9, which torch brings since 2.4"), text("pip list | grep -iE 'ctranslate2|whisper|onnxruntime|torch|cudnn'"), only=r"cudnn"),
            Mechanism(text("Apptainer, Singularity: --nv puts the driver's libraries into /.singularity.d/libs, and a shell or module inside cleared LD_LIBRARY_PATH"), text("ls /.singularity.d/libs; export LD_LIBRARY_PATH=/.singularity.d/libs:$LD_LIBRARY_PATH"), only=r"libnvidia-ml|libcuda\.so|singularity|apptainer", sign=r"singularity|apptainer"),
            Mechanism(text("A library that this one needs is missing in turn (cuDNN needs zlib and, in WSL, libcuda; DLLs need the Visual C++ runtime, libomp)"), text("ldd FILE.so | grep 'not found'; WSL: LD_LIBRARY_PATH=/usr/lib/wsl/lib PROGRAM; Windows: Dependencies.exe or dumpbin /dependents FILE.dll"), sign=rf"dependenc|WinError|DLL|\.dll|{WSL}|cudnn_\w+_infer", codes=("framework-broken",)),
            Mechanism(text("The framework must be imported first (torch brings libc10, libtorch and CUDA's libraries), or the environment's script must be run (Intel oneAPI, Ascend, ROCm, modules)"), text("import torch before the extension; source …/set_env.sh, …/setvars.sh, module load …"), sign=r"libc10|libtorch|libsycl|libmkl|libze|libascend|libhccl|libacl|libatb|libmpi|oneapi"),
            _OTHER_ENVIRONMENT,
            _DAMAGED,
            Mechanism(text("On a Jetson or another ARM board the libraries come with its system, and wheels for x86 or servers do not fit"), text("uname -m; cat /etc/nv_tegra_release; apt list --installed 2>/dev/null | grep -E 'cudnn|cuda|tensorrt'"), sign=rf"{JETSON}|aarch64", against=r"x86_64|\.dll"),
        ),
    ),
    Family(
        text("Two compiled parts do not fit each other"),
        r"undefined symbol|symbol lookup error|version [`']?(?:GLIBC|GLIBCXX|CXXABI|lib)\S* not (?:found|defined)|symbol \S+[^\n]{0,60}not (?:found|defined)|undefined reference to|multiple definition|entry point not found|procedure (?:entry point )?(?:could not|not found)|ABI (?:version|mismatch|incompat)|binary incompatib|dtype size changed|compiled (?:against|using|with|for)[^\n]{0,60}(?:but|version|different|NumPy)|version (?:mismatch|conflict|incompatib\w+)|(?:in)?compatible versions?|requires (?:\w+ )?version|was built (?:for|with|against)|is not compatible with|mismatches the version|incompatible function arguments|could not be imported|failed to import|(?:is|are) too (?:old|new)\b|(?:older|newer) (?:version )?than|no attribute '[\w.]+'",
        ("unfit-library", "cuda-shadow", "extension-mismatch", "cuda-mismatch", "mixed-packages", "package-conflict", "api-version", "framework-broken", "jax-build"),
        (
            Mechanism(text("The extension was built for another release of torch (or of the package named in the message), another C++ ABI or another Python"), text("pip list | grep -iE 'torch|EXTENSION'; c++filt SYMBOL; python -c 'import torch; print(torch.__version__, torch.version.cuda, torch._C._GLIBCXX_USE_CXX11_ABI)'   # its wheel for exactly these"), codes=("unfit-library",)),
            Mechanism(text("There is no toolkit of torch's CUDA on this machine, and CUDA_HOME names another one"), text("ls -d /usr/local/cuda-*; without root: conda install -c nvidia/label/cuda-X.Y.0 cuda-nvcc cuda-toolkit with torch's X.Y; export CUDA_HOME=$CONDA_PREFIX"), only=r"detected CUDA|CUDA_HOME", sign=r"detected CUDA"),
            _MIXED,
            _OTHER_COPY,
            Mechanism(text("The system's libraries are older than the package needs (glibc, libstdc++): a wheel or binary for a newer distribution"), text("ldd --version; strings $(gcc -print-file-name=libstdc++.so.6) | grep GLIBCXX | tail -1   # older than the message asks for: conda install -c conda-forge libstdcxx-ng, or a build for this system"), sign=r"GLIBC|GLIBCXX|CXXABI|libstdc"),
            Mechanism(text("Remains of a former build or installation are used: build folder, cache, an .egg, a second copy in ~/.local"), text("python -c 'import PACKAGE; print(PACKAGE.__file__)'; pip list -v | grep PACKAGE   # another folder than expected: remove it, build again"), sign=r"build|\.egg|\.local|torch_extensions|cache"),
            Mechanism(text("NumPy, protobuf, setuptools or another basic package is of a newer major version than the program knows"), text("pip list | grep -iE 'numpy|protobuf|setuptools|transformers'   # numpy 2: pip install 'numpy<2'"), sign=r"numpy|protobuf|pkg_resources|_ARRAY_API|no attribute"),
            Mechanism(text("The framework's CUDA and the toolkit's, or two pip packages of CUDA, have different versions"), text("nvcc --version; python -c 'import torch; print(torch.version.cuda)'; pip list | grep nvidia"), sign=r"CUDA|cudart|cublas|nvJitLink|cusparse|nvcc", codes=("cuda-mismatch",)),
            _OTHER_ENVIRONMENT,
        ),
    ),
    Family(
        text("A compiled package cannot be loaded, or crashes when it is loaded"),
        r"DLL load failed|WinError (?:126|127|193|1114|1455)|[Ii]llegal instruction|SIGILL|segmentation fault|SIGSEGV|segfault|access violation|0xC000000?5|exit(?:ed)?(?: with)?(?: code| status)?[ :]+(?:-11|139|-4|132|-1073741819|3221225477)|core dumped|double free|Fatal Python error|Trace/breakpoint|bus error|cannot import name|DSO support|AVX",
        ("framework-broken", "unfit-library", "interpreter-broken", "runtime-failure"),
        (
            Mechanism(text("Windows: the Visual C++ runtime (or libomp140) is missing, or a DLL on PATH is of another version"), text("the newest vc_redist.x64.exe; where vcruntime140.dll msvcp140.dll; import torch before other packages"), sign=rf"DLL|WinError|{WINDOWS}", against=r"\.so\b|SIGILL|/home/|[Ii]llegal instruction"),
            Mechanism(text("The processor lacks instructions for which the package was compiled: AVX, AVX2 or AVX-512; in a virtual machine they may be hidden; on ARM OpenBLAS may mistake the core"), text("grep -o -w -E 'avx|avx2|avx512f' /proc/cpuinfo | sort -u; virtual machine: CPU type “host”; ARM: export OPENBLAS_CORETYPE=ARMV8"), sign=r"[Ii]llegal instruction|SIGILL|AVX|132\b"),
            Mechanism(text("Two packages bring different copies of one library (OpenMP, protobuf, CUDA, libstdc++): it depends on the order of imports"), text("python -X faulthandler PROGRAM; python -c 'import A'; python -c 'import A, B'; in the other order"), sign=r"segmentation|SIGSEGV|139|double free|OMP|libiomp"),
            _MIXED,
            Mechanism(text("Python and package are for different processors or versions (32 and 64 bit, x86 and ARM, another Python)"), text("python -c 'import platform, struct; print(platform.machine(), struct.calcsize(\"P\") * 8)'"), sign=r"193|not a valid Win32|wrong ELF class|arm64|i386|architecture"),
            Mechanism(text("The driver, or a part of it, crashes the program"), text("nvidia-smi; another driver branch; CUDA_VISIBLE_DEVICES='' PROGRAM   # without the card it does not crash: card, driver or CUDA libraries"), sign=r"libcuda|libnvidia|nvcuda|nvlddmkm|in cuInit"),
            Mechanism(text("The stack, memory or paging file is too small, or the machine's memory is faulty"), text("ulimit -s; free -h; memtest; Windows: a larger paging file"), sign=r"1455|paging|bus error|stack|random"),
            _DAMAGED,
        ),
    ),
    Family(
        text("A package cannot be installed"),
        r"No matching distribution|Could not find a version that satisfies|ResolutionImpossible|Unsatisfiable\w*|LibMamba\w+|nothing provides|PackagesNotFound|not a supported wheel|Requires-Python|conflicting dependencies|dependency resolver|Failed to build|failed building wheel|subprocess-exited-with-error|metadata-generation-failed|No solution found|unmet dependencies|Unable to locate package|held broken packages|Could not build wheels|Failed to (?:fetch|download|install)|(?:hash|checksum|size) (?:sum )?mismatch|NO_PUBKEY|GPG error|externally-managed|Could not install packages",
        ("wheel-missing", "package-conflict", "package-tool", "driver-packages", "repository-key", "extension-build"),
        (
            Mechanism(text("There is no wheel for this Python, system or processor: too new or old a Python, ARM, Windows, musl, 32 bit"), text("python --version; python -m pip debug --verbose | grep -m1 -A3 'Compatible tags'; uname -m   # Python 3.10 to 3.12 has most wheels"), sign=r"No matching|not a supported|Requires-Python|python_version"),
            Mechanism(text("The index does not have this version: +cu builds are on their own index, old ones are removed, a nightly is gone"), text("pip index versions PACKAGE --index-url URL; --extra-index-url beside PyPI takes the higher version"), sign=r"\+cu|index-url|nightly|download\.pytorch"),
            Mechanism(text("It is compiled here, and torch is not seen (build isolation), nvcc or a compiler is missing, or memory ran out"), text("pip install --no-build-isolation PACKAGE; nvcc --version; gcc --version; MAX_JOBS=2; the first error further up"), sign=r"build|No module named 'torch'|nvcc|ninja|setup\.py|wheel"),
            Mechanism(text("Requirements exclude each other, or pins are older than this Python"), text("pip install -v; pip check; the project's lock file in a new environment"), sign=r"conflict|Resolution|unsat|incompatible"),
            Mechanism(text("conda: mixed channels, cpuonly, no driver visible (__cuda), strict priority"), text("conda config --show channels channel_priority; conda info | grep __cuda; CONDA_OVERRIDE_CUDA=12.4"), sign=r"conda|mamba"),
            Mechanism(text("The system's packages: a repository that is missing, its key, two repositories with the same packages, an installation that was interrupted"), text("sudo apt-get update; apt policy PACKAGE; grep -r nvidia /etc/apt/sources.list*; dnf repolist; sudo dpkg --configure -a"), sign=r"apt|dpkg|dnf|yum|zypper|NO_PUBKEY|GPG"),
            Mechanism(text("Windows: paths longer than 260 characters, or a file that another program holds"), text("LongPathsEnabled=1 in HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem; a short folder; close other Pythons"), sign=rf"{WINDOWS}|long path|WinError|Errno 2\b|Access is denied", against=LINUX),
            Mechanism(text("Network, proxy, certificate or disk: the download ends early or is refused"), text("curl -I URL; df -h; pip --no-cache-dir; pip config list"), sign=r"timed? ?out|SSL|proxy|connection|40[34]|space|hash"),
        ),
    ),
    Family(
        text("CUDA or C++ code does not compile"),
        r"nvcc (?:fatal|error)|\.cu(?:h|\.o)?\W[^\n]{0,80}error|\.(?:cpp|cc|c|h|hpp|cuh)[:(]\d+[^\n]{0,20}(?:fatal )?error|cc1plus|ninja: build stopped|(?:make|gmake)(?:\[\d\])?: \*\*\*|CMake Error|CMAKE_CUDA\w*|Could NOT find CUDA|nvcc[^\n]{0,40}(?:not found|no such file|missing)|CUDA_HOME|collect2: error|ld returned|error: command '[^\n]*(?:gcc|g\+\+|nvcc|cl\.exe|cl)'? |Microsoft Visual C\+\+|unsupported (?:GNU|Microsoft|clang) |#error\b|fatal error C\d|Error compiling objects",
        ("extension-build", "compiler-new", "toolkit-arch", "cuda-mismatch", "cuda-library"),
        (
            Mechanism(text("The host compiler is too new (or too old, or not found) for this CUDA"), text("nvcc --version; gcc --version (Windows: cl)   # CUDA 11: gcc 11 at most, 12.0: 12, 12.4: 13, 12.8: 14; CC=gcc-11 CXX=g++-11, or -ccbin"), sign=r"GNU|gcc|g\+\+|unsupported|Visual|cl\.exe|_Float\d+|__builtin|parameter packs|std_function", codes=("compiler-new",)),
            Mechanism(text("nvcc of another CUDA is used: the distribution's in /usr/bin, an older /usr/local/cuda, conda's; CUDA_HOME names another or none"), text("which -a nvcc; nvcc --version; echo $CUDA_HOME; python -c 'import torch; print(torch.version.cuda)'"), sign=r"/usr/bin/nvcc|CUDA_HOME|mismatch|detected CUDA|toolkit", codes=("cuda-mismatch",)),
            Mechanism(text("This nvcc does not know the architecture: too old for a new card, too new for an old one"), text("nvcc --list-gpu-arch; nvidia-smi --query-gpu=compute_cap --format=csv; TORCH_CUDA_ARCH_LIST or CMAKE_CUDA_ARCHITECTURES"), sign=r"gpu architecture|compute_\d+|sm_\d+", codes=("toolkit-arch",)),
            Mechanism(text("The code is older than this torch, CUDA or C++ library: functions were removed or renamed (THC, AT_CHECK, .type(), texture references, thrust, cub)"), text("the first “error:” line; the torch and CUDA that the project names, or a newer release of the project"), sign=r"THC|AT_CHECK|DeprecatedType|no member|not declared|undefined|texture|thrust|cub|identifier|no matching function|is not a member"),
            Mechanism(text("The toolkit's own installation failed or is incomplete: a download that was cut short, packages of two releases, only the runtime part"), text("ls /usr/local/cuda*/bin/nvcc; nvcc --version; dpkg -l | grep -E 'cuda-(nvcc|toolkit|cudart-dev)'; the installer's log; compare the size of the downloaded file"), sign=r"CUDA_HOME|not found|No such file|local_|\.deb|\.run"),
            Mechanism(text("Headers or libraries are missing: the CUDA development part, cuDNN, Python.h, submodules of the repository, the driver's stub libcuda"), text("the file in “fatal error: … No such file”; git submodule update --init --recursive; ls $CUDA_HOME/include $CUDA_HOME/lib64/stubs"), sign=r"No such file|cannot find -l|\.h\W|undefined reference|Could NOT find"),
            Mechanism(text("Memory ran out while many files were compiled at once"), text("MAX_JOBS=2; sudo dmesg | grep -i 'killed process'"), sign=r"Killed|signal 9|cc1plus[^\n]*(?:memory|killed)|Error 137"),
            Mechanism(text("The system's C library or headers are newer than CUDA knows (glibc 2.41 beside CUDA 12.8 and older), or conda's compiler meets the system's headers"), text("ldd --version; which gcc x86_64-conda-linux-gnu-gcc; a newer CUDA, or an older distribution in a container"), sign=r"cospi|sinpi|rsqrt|noexcept|exception specification|bits/|sysroot|glibc"),
            Mechanism(text("setuptools, ninja, CMake or the C++ standard are not what the project expects"), text("pip install ninja 'setuptools<75' wheel; cmake --version; -std=c++17"), sign=r"ninja|distutils|setuptools|C\+\+1[47]|C\+\+20|cmake|CMake"),
        ),
    ),
    Family(
        text("TensorFlow does not use the GPU"),
        r"tensorflow\S*[^\n]*(?:dynamic library|cuda drivers|Cannot dlopen|no GPU|Skipping registering|Ignoring visible|not (?:compiled|built))|tf\W[^\n]{0,60}(?:list_physical_devices|is_gpu_available|gpu_device_name)|dso_loader|cuda_diagnostics|Skipping registering GPU devices|Num GPUs Available",
        ("library-missing", "cudnn-missing", "gpu-not-found", "cpu-package", "no-driver"),
        (
            Mechanism(text("CUDA and cuDNN of this release are not found: pip install tensorflow alone does not bring them"), text("python -c 'import tensorflow as tf; print(tf.__version__, tf.sysconfig.get_build_info())'; pip install 'tensorflow[and-cuda]' (Linux, WSL, 2.14 and newer)"), codes=("library-missing", "cudnn-missing")),
            Mechanism(text("Native Windows: releases after 2.10 have no GPU support"), text("python -c 'import tensorflow as tf; print(tf.__version__)'   # WSL 2, or tensorflow<2.11"), sign=WINDOWS, against=LINUX),
            Mechanism(text("Another version of the libraries is installed than this release was built with (2.4: CUDA 11.0; 2.5 to 2.11: 11.2 with cuDNN 8.1; 2.12, 2.13: 11.8 with 8.6; 2.15: 12.2; 2.16 and newer: 12.3 and newer, cuDNN 8.9 or 9)"), text("the number after .so in the message beside ls /usr/local/cuda*/lib64"), sign=r"\.so\.\d+|64_\d+"),
            Mechanism(text("The libraries are in pip's or conda's folders, which the loader does not search"), text("export LD_LIBRARY_PATH=$(python -c 'import glob, nvidia; print(*glob.glob(list(nvidia.__path__)[0] + \"/*/lib\"), sep=\":\")')"), sign=r"LD_LIBRARY_PATH|conda|site-packages"),
            Mechanism(text("The driver does not work, or the container has no card"), text("nvidia-smi in the same place"), sign=rf"cuInit|303|no CUDA-capable|libcuda\.so|{CONTAINER}", codes=("no-driver", "no-visible-gpu")),
            Mechanism(text("It is a build for the CPU (conda's mkl or eigen variant, tensorflow-cpu, intel-tensorflow), or a Mac without tensorflow-metal"), text("conda list | grep tensorflow; pip list | grep -i tensorflow; python -c 'import tensorflow as tf; print(tf.test.is_built_with_cuda())'"), sign=rf"mkl|eigen|{MAC}", codes=("cpu-build",)),
            Mechanism(text("The card is newer than this release: kernels are compiled at the first start for many minutes, or fail"), text("nvidia-smi --query-gpu=name,compute_cap --format=csv; a newer release, NVIDIA's image nvcr.io/nvidia/tensorflow"), sign=r"RTX ?50|sm_1[02]|compute capability 1[02]|JIT|PTX"),
            Mechanism(text("The card is too old, or its chip is not in the build's list"), text("read the line “Ignoring visible gpu device”"), sign=r"Ignoring|compute capability", codes=("no-kernel",)),
            Mechanism(text("Only a notice: the program is meant to run on the CPU, or the line appears beside a GPU that is used"), text("does “Created device /GPU:0” follow? Then nothing is wrong"), sign=r"Created device|TF-TRT|computation_placer|already been registered"),
        ),
        of_one_program=True,
    ),
    Family(
        text("JAX does not use the accelerator"),
        r"\bjax\w*\W[^\n]*(?:fall|not|no |fail|error|version|CPU)|xla_bridge|xla_client|Unable to initialize backend|No GPU/TPU found|jaxlib|PJRT",
        ("jax-build", "tpu", "tpu-no-libtpu", "cuda-library"),
        (
            Mechanism(text("jaxlib has no CUDA part: the plain package is for the CPU, or a dependency replaced it"), text("pip list | grep -iE 'jax|nvidia'   # no plug-in: pip install -U 'jax[cuda12]' (Linux, WSL; on a TPU machine 'jax[tpu]')")),
            Mechanism(text("jax, jaxlib and the plug-ins have different versions"), text("pip list | grep -i jax   # all the same; then flax, optax and chex that know it"), sign=r"version|plugin|requires|attribute"),
            Mechanism(text("Another CUDA or cuDNN is found first, or is older than JAX was built with"), text("env -u LD_LIBRARY_PATH python -c 'import jax; print(jax.devices())'"), sign=r"LD_LIBRARY_PATH|cudnn|cusparse|Unable to load|found", codes=("cudnn-shadow",)),
            Mechanism(text("The driver is too old or does not work"), text("nvidia-smi   # CUDA 12: driver 525 and newer, CUDA 13: 580"), sign=r"driver|NO_DEVICE|cuInit", codes=("driver-old", "no-driver")),
            Mechanism(text("Native Windows and Intel Macs have no GPU build"), text("python -c 'import platform; print(platform.platform())'   # WSL 2"), sign=rf"{WINDOWS}|{MAC}", against=LINUX),
            Mechanism(text("A TPU: another process holds it, libtpu is missing or of another release, or the runtime is older than the package"), text("sudo lsof -w /dev/accel* /dev/vfio/*; pip list | grep -iE 'libtpu|jax'"), sign=r"tpu|libtpu", codes=("tpu-no-libtpu",)),
            Mechanism(text("JAX_PLATFORMS names another platform, or CUDA_VISIBLE_DEVICES hides the card"), text("echo $JAX_PLATFORMS $JAX_PLATFORM_NAME $CUDA_VISIBLE_DEVICES"), sign=r"JAX_PLATFORM"),
            Mechanism(text("Only a notice: JAX tries rocm, tpu and others, and says that they are not there"), text("python -c 'import jax; print(jax.devices())'   # lists the card: nothing is wrong"), sign=r"\bINFO\b|\bI\d{4} |rocm|interpreter"),
        ),
    ),
    Family(
        text("A Python package or name is missing"),
        r"No module named|ModuleNotFoundError|cannot import name|command not found|is not recognized as an internal|has no attribute|not installed",
        ("module-missing", "framework-absent", "api-version"),
        (
            Mechanism(text("It is not installed in the Python that runs"), text("python -c 'import sys; print(sys.executable)'; python -m pip install PACKAGE"), codes=("module-missing", "framework-absent")),
            _OTHER_ENVIRONMENT,
            Mechanism(text("The compiled part is missing: the package was installed from source without its extension, or for another Python"), text("python -c 'import PACKAGE; print(PACKAGE.__file__)'; ls FOLDER/*.so; build it again with --no-build-isolation"), sign=r"_C\b|_ext|_cuda|\.ops|cpython"),
            Mechanism(text("The release is another one than the program was written for"), text("pip show PACKAGE; the project's requirements"), sign=r"cannot import name|no attribute"),
            Mechanism(text("A file or folder of the program has the same name as the package"), text("python -c 'import PACKAGE; print(PACKAGE.__file__)'"), sign=r"partially initialized|circular"),
            Mechanism(text("It exists for another system only (triton, NCCL, bitsandbytes, vLLM: Linux; MLX, mps: Mac)"), text("the package's page: which systems it supports"), sign=rf"triton|vllm|nccl|deepspeed|{WINDOWS}|{MAC}|{AMD}"),
        ),
        stands_alone=False,
    ),
)  # fmt: skip
