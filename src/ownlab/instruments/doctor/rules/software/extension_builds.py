"""Rules about extensions that do not compile: no toolkit, no compiler, missing headers, versions that do not go together."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["ExtensionBuildFailed", "TritonCompiler", "XlaTools"]


class ExtensionBuildFailed(CauseRule):
    """An extension with CUDA code could not be compiled.

    **Why it matters.** torch's wheels contain CUDA's libraries, but not its compiler. To build flash-attn, apex, detectron2
    and the like, a toolkit (nvcc) of torch's CUDA version, a C++ compiler that this nvcc accepts, and memory are needed.

    **What to do.** Look for a ready wheel first. Else install the toolkit of torch's CUDA and set CUDA_HOME.

    **Sources.** torch/utils/cpp_extension.py; CUDA Installation Guide, host compiler support; Dao-AILab/flash-attention, README.
    """

    code = "extension-build"
    severity = "error"
    title = text("An extension with CUDA code could not be compiled")
    causes = (
        Cause(
            r"Ninja is required to load C\+\+ extensions|ninja: (?:command )?not found",
            text("The program ninja, which builds extensions, is missing"),
            text("torch compiles extensions with ninja, which it does not bring."),
            (text("pip install ninja   # or: sudo apt-get install -y ninja-build"),),
        ),
        Cause(
            r"CUDA_(?:HOME|PATH)=\S*[^\s:=]:(?:/|\$)\S*",
            text("CUDA_HOME names several folders: it must be one"),
            text("CUDA_HOME is no search path. With a colon, tools look in a folder that does not exist."),
            (
                text(
                    "export CUDA_HOME=/usr/local/cuda-X.Y   # one folder, without a colon; PATH and LD_LIBRARY_PATH are search paths"
                ),
            ),
        ),
        Cause(
            r"fatal error: nccl\.h: No such file|Could NOT find NCCL|Could not find NCCL|NCCL (?:library |headers? |was )?not found|cannot find -lnccl",
            text("NCCL's header files are missing"),
            text(
                "The build needs NCCL's development files of the same CUDA; torch's wheel does not show them to the compiler."
            ),
            (
                text(
                    "sudo apt-get install -y libnccl2 libnccl-dev   # from NVIDIA's repository, for the installed CUDA; or: conda install -c conda-forge nccl"
                ),
                text("If it is in another folder: export NCCL_HOME=FOLDER (Horovod: HOROVOD_NCCL_HOME)"),
            ),
        ),
        Cause(
            r"fatal error: cudnn\S*\.h: No such file|Could NOT find CUDNN|cudnn\.h[^\n]*not found",
            text("cuDNN's header files are missing"),
            text("The build needs cuDNN's development files, which are not part of the toolkit."),
            (
                text(
                    "sudo apt-get install -y libcudnn9-dev-cuda-12   # from NVIDIA's repository; or: pip install nvidia-cudnn-cu12 and add its include folder to CPATH"
                ),
            ),
        ),
        Cause(
            r"fatal error: (?:THC/\S+|TH/TH\S*)\.h: No such file|THC/THC\S*\.h|(?:THCudaCheck|THCState)\S* (?:was not declared|is undefined|has not been declared)|identifier \"?THC\w+",
            text("The extension is older than torch 1.11, which removed THC"),
            text("Its source uses header files that torch no longer has."),
            (
                text(
                    "Use a newer release (or a fork) of the extension; or torch 1.10 with the CUDA of that time, on a card that it supports."
                ),
            ),
        ),
        Cause(
            r"fatal error: Python\.h: No such file",
            text("Python's header files are missing"),
            text("To compile an extension, Python's development files are needed."),
            (
                text(
                    "sudo apt-get install -y python3-dev   # Fedora: sudo dnf install -y python3-devel; the version must be this Python's"
                ),
            ),
        ),
        Cause(
            r"(?:fatal error: )?(?:cuda_runtime\S*|cuda|cublas\S*|cusparse|cusolver\S*|curand\S*|nvrtc|nvToolsExt|thrust/\S+|cub/\S+|cuda_\w+|cooperative_groups\S*|cutlass/\S+|crt/\S+)\.(?:h|cuh|hpp): No such file|undefined reference to [`'](?:cuda|cublas|cudnn|cu[A-Z])\w*|cannot open source file \"?cuda\w*\.h|cannot find -lcuda[a-z]\w*|undefined reference to [`\']__cuda\w+|cannot find -l(?:nvidia-ml|cudart|cublas|cusparse|cusolver|curand|nvrtc)",
            text("Header files or libraries of the CUDA toolkit are missing"),
            text(
                "The toolkit is not installed completely (conda's cuda-nvcc alone has no headers), or CUDA_HOME points to another folder."
            ),
            (
                text("conda install -c nvidia cuda-toolkit=X.Y   # torch's CUDA; or NVIDIA's package cuda-toolkit-X-Y"),
                text(
                    "export CUDA_HOME=/usr/local/cuda-X.Y   # the folder that contains bin/nvcc and include/cuda_runtime.h"
                ),
            ),
        ),
        Cause(
            r"parameter packs not expanded with|std_function\.h:\d+:\d+: (?:error|note)|identifier \"?__builtin_ia32|error: identifier \"?_Float(?:32|64|128)|exception specification is incompatible with that of previous function \"?(?:cospi|sinpi|rsqrt)|unsupported (?:Microsoft Visual Studio|GNU|clang) version|the host compiler[^\n]*not supported|this version of gcc[^\n]*not supported|only the versions between 20\d\d and 20\d\d",
            text("The C++ compiler (or the C library) is too new for this nvcc"),
            text(
                "Each nvcc accepts compilers up to a certain version; newer headers stop it with errors in system files."
            ),
            (
                text(
                    "Use an older compiler: sudo apt-get install -y g++-11; export CC=gcc-11 CXX=g++-11 NVCC_PREPEND_FLAGS='-ccbin g++-11'   # CUDA 11.x: 10 or 11, CUDA 12.x: 11 to 13"
                ),
                text(
                    "Or a newer CUDA toolkit of the same major version as torch's CUDA. Windows: Visual Studio 2019 or 2022 as the message asks."
                ),
            ),
        ),
        Cause(
            r"arch_list\[-1\] \+= '\+PTX'|CUDA_ARCHITECTURES is empty for target|identifier \"?(?:__h[a-z]+2?|__half2?|__nv_bfloat16\d?|atomicAdd|__shfl_\w+|__nanosleep)\"? is undefined|no instance of overloaded function \"?atomicAdd|Unknown compute capability\. Specify|TCNN_CUDA_ARCHITECTURES|Unknown CUDA arch \([\d.]+\) or GPU not supported|_get_cuda_arch_flags",
            text("torch does not know for which card to compile"),
            text(
                "The installed torch is older than the card; or no card is visible while the extension is built (as in docker build), and TORCH_CUDA_ARCH_LIST is not set."
            ),
            (
                text(
                    "export TORCH_CUDA_ARCH_LIST='8.6'   # the card's number: nvidia-smi --query-gpu=compute_cap --format=csv; for a card newer than torch, an older one of its family with +PTX"
                ),
                text("Or install a torch that knows the card."),
            ),
        ),
        Cause(
            r"(?:Value 'c\+\+\d\d' is not defined|nvcc fatal\s*: Unknown option|Unknown option '?-?std|unrecognized command.line option '?-std=c\+\+)",
            text("The compiler (nvcc or g++) is too old for this extension"),
            text("The source needs a newer C++ standard than this compiler knows."),
            (
                text(
                    "Install a newer CUDA toolkit (11 or newer for C++17) of torch's major version, and g++ 9 or newer; then set CUDA_HOME, CC and CXX."
                ),
            ),
        ),
        Cause(
            r"No CUDA toolset found|CUDA[^\n]*Visual Studio integration",
            text("Visual Studio does not know the CUDA toolkit"),
            text("The toolkit was installed before Visual Studio, so its build rules are missing there."),
            (
                text(
                    "Copy extras\\visual_studio_integration\\MSBuildExtensions of the toolkit to Visual Studio's MSBuild\\Microsoft\\VC\\v170\\BuildCustomizations, or install the toolkit again."
                ),
            ),
        ),
        Cause(
            r"Microsoft Visual C\+\+ 14\.\d or (?:greater|newer) is required|Cannot find compiler 'cl\.exe'|Error checking compiler version for cl|'cl' is not recognized|cl\.exe[^\n]*(?:not found|failed)|vcvarsall\.bat",
            text("Microsoft's C++ compiler is missing or not on the path"),
            text("Extensions are compiled with Visual Studio's cl.exe on Windows."),
            (
                text(
                    'winget install Microsoft.VisualStudio.2022.BuildTools --override "--add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
                ),
                text("Then build in the 'x64 Native Tools Command Prompt'. Better: install a ready wheel."),
            ),
        ),
        Cause(
            r"CUDA_HOME (?:environment variable )?is not set|CUDA_HOME does not exist|Please set it to your CUDA install root|nvcc: (?:command )?not found|nvcc(?:\.exe)?'?\"?:? (?:is not recognized|No such file or directory)|No such file or directory:? '?\"?\S*(?:/bin/nvcc|nvcc)|(?:Failed|Unable) to find nvcc|Could not find (?:CUDA(?! driver)|nvcc)|CMAKE_CUDA_COMPILER(?![:=])|CUDA compiler identification is unknown|CUDA_\w+_LIBRARY \(ADVANCED\)|CUDA_\w+_LIBRARY[^\n]*NOTFOUND|CMAKE_CUDA_ARCHITECTURES must be|Failed to detect a default CUDA architecture|[Ff]ailed to execute `?nvcc|nvcc preprocessing of|Could NOT find CUDA(?:Toolkit)?(?! driver)|CUDA_TOOLKIT_ROOT_DIR not found|Specify CUDA_TOOLKIT_ROOT_DIR|nvcc was not found|No CUDA toolkit found|CUDA path could not be detected|cannot find CUDA",
            text("The CUDA toolkit (nvcc) was not found"),
            text(
                "The driver and torch's wheel do not contain the compiler nvcc. It is not installed, or CUDA_HOME and PATH do not name its folder."
            ),
            (
                text(
                    "Install the toolkit of torch's CUDA (python -c 'import torch; print(torch.version.cuda)'): conda install -c nvidia cuda-toolkit=X.Y, or NVIDIA's package cuda-toolkit-X-Y"
                ),
                text(
                    "export CUDA_HOME=/usr/local/cuda-X.Y PATH=/usr/local/cuda-X.Y/bin:$PATH   # conda: export CUDA_HOME=$CONDA_PREFIX"
                ),
                text("Or look for a ready wheel of the package for this torch and Python."),
            ),
        ),
        Cause(
            r"(?:Getting requirements to build|subprocess-exited-with-error|egg_info|Preparing metadata)[\s\S]{0,2000}No module named '(?:torch|packaging|psutil|wheel|ninja)'|No module named '(?:torch|packaging|psutil|wheel|setuptools|ninja)'[\s\S]{0,400}(?:Getting requirements to build|subprocess-exited-with-error|egg_info|metadata|flash|build)|Getting requirements to build wheel did not run|(?:flash[-_]attn|apex|xformers|mamba|causal[-_]conv1d|deepspeed)[\s\S]{0,300}No module named '(?:torch|packaging)'",
            text("The package needs torch while it is built, which pip hides from it"),
            text(
                "pip builds packages in an empty environment. Packages such as flash-attn import torch in their setup, and must be built without that isolation."
            ),
            (text("pip install packaging psutil ninja wheel setuptools && pip install --no-build-isolation PACKAGE"),),
        ),
        Cause(
            r"cannot import name 'packaging' from 'pkg_resources'|No module named 'pkg_resources'|module 'pkgutil' has no attribute 'ImpImporter'|No module named 'distutils'|No module named '?setuptools\.|invalid command 'bdist_wheel'|setuptools[^\n]*(?:deprecated|removed)[^\n]*error",
            text("setuptools does not fit what the package's build expects"),
            text(
                "New releases of setuptools (and Python 3.12) removed parts that older builds use; wheel is missing, or setuptools is too old."
            ),
            (
                text(
                    "pip install 'setuptools<70' wheel ninja packaging; then pip install --no-build-isolation PACKAGE   # Python 3.12 and newer: pip install -U setuptools wheel"
                ),
                text("Or a newer release of the package, or Python 3.11."),
            ),
        ),
        Cause(
            r"nvcc error\s*: '(?:cicc|cudafe\+\+|ptxas)' died due to signal|(?:cc1plus|cicc|ptxas)[^\n]*(?:Killed|signal 9|out of memory)|fatal error: Killed signal terminated program|c\+\+: fatal error: Killed",
            text("The compiler was killed: too little memory for so many jobs at once"),
            text("Each compile job of such an extension takes several gigabytes."),
            (text("MAX_JOBS=2 pip install --no-build-isolation PACKAGE"),),
        ),
        Cause(
            r"(?:gcc|g\+\+|cc|cl\.exe)'? failed with exit (?:code|status) \d|failed with error code \d+ in \S*(?:pip|tmp)|Setting up (?:PyTorch|TensorFlow) plugin[^\n]*(?:\n[^\n]*)?Failed!|Could not find MSVC/GCC/CLANG installation|Unable to pre-compile \w+|Need to compile C\+\+ extensions|No C\+\+ compiler|\['ninja', '-v'\]|Command '\['ninja'|Error compiling objects for extension|ninja: build stopped|nvcc(?:\.exe)?'? failed with exit (?:status|code)|Unable to JIT load the \w+ op|Error building extension|Failed building wheel for (?:flash|apex|xformers|llama|deepspeed|causal|mamba|bitsandbytes|pytorch3d|detectron|dlib|torch)\S*|Guessing wheel URL[\s\S]{0,600}HTTP Error 404|HTTP Error 404[\s\S]{0,600}Guessing wheel URL|FlashAttention is only supported on CUDA \S+ and above|namespace \"?(?:cub|thrust|std)\"?[^\n]*has no member|subprocess-exited-with-error|Could not build wheels for (?:flash|llama|dlib|torch|causal|mamba|pytorch3d)\S*",
            text("The extension did not compile; the first error further up names the reason"),
            text(
                "ninja only reports that a compile job failed. Usually nvcc, its version, or the C++ compiler does not fit torch."
            ),
            (
                text(
                    "Search the output for the first line with 'error:'; build one file at a time: MAX_JOBS=1 pip install --no-build-isolation -v PACKAGE"
                ),
                text(
                    "Compare: nvcc --version; python -c 'import torch; print(torch.version.cuda)'   # the major versions must be equal"
                ),
                text("Better: install a ready wheel of the package for this torch, CUDA and Python."),
            ),
        ),
    )


class TritonCompiler(CauseRule):
    """Triton (torch.compile, fast kernels) cannot compile its small launcher: no C compiler, or no libcuda.so to link.

    **Why it matters.** Triton compiles a C file at run time. That needs gcc (Windows: Visual Studio), Python's headers and a
    libcuda.so; drivers install libcuda.so.1 only.

    **What to do.** Install a compiler, and give the linker a libcuda.so.

    **Sources.** triton-lang/triton, python/triton/runtime/build.py; triton#1981; docs of torch.compile.
    """

    code = "triton-compiler"
    severity = "error"
    title = text("Triton cannot compile its launcher")
    causes = (
        Cause(
            r"cannot find -lcuda\b|libcuda\.so cannot found|skipping incompatible \S*libcuda|Possible files are located at \[?'?\S*libcuda",
            text("The linker finds no libcuda.so"),
            text(
                "Triton links against libcuda.so. The driver installs libcuda.so.1; the link libcuda.so is missing, or its folder is not known to the linker."
            ),
            (
                text("Find it: ldconfig -p | grep libcuda.so"),
                text(
                    "sudo ln -s libcuda.so.1 FOLDER/libcuda.so && sudo ldconfig   # or, without root: export LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LIBRARY_PATH; WSL: /usr/lib/wsl/lib"
                ),
            ),
        ),
        Cause(
            r"Failed to find C compiler|'which', '(?:g\+\+|c\+\+|gcc|cc)'|(?:g\+\+|c\+\+|gcc|clang): (?:command )?not found|No such file or directory: '(?:g\+\+|gcc|c\+\+|cc|clang)'|gcc[^\n]*No such file or directory[^\n]*|CalledProcessError: Command '\['[^']*(?:gcc|cc|clang)'[^\n]*(?:cuda_utils|__triton|main\.c)",
            text("Triton finds no C compiler"),
            text("Triton compiles a small C file at run time, and no gcc (Windows: Visual Studio) is installed."),
            (
                text(
                    "sudo apt-get install -y gcc python3-dev   # Fedora: sudo dnf install -y gcc python3-devel; or: export CC=/path/to/gcc"
                ),
                text(
                    "Windows: pip install triton-windows, with Visual Studio's build tools. Without Triton: torch._dynamo.config.suppress_errors = True, or TORCHDYNAMO_DISABLE=1"
                ),
            ),
        ),
        Cause(
            r"(?:BackendCompilerFailed|InductorError|TritonMissing|Cannot find a working triton installation|ModuleNotFoundError: No module named 'triton'|triton not installed)",
            text("Triton is not installed, or does not work here"),
            text("torch.compile needs Triton to make GPU code. Windows has no official build of it."),
            (
                text(
                    "Linux: pip install --force-reinstall torch (it brings its own triton). Windows: pip install triton-windows"
                ),
                text("Or run without it: export TORCHDYNAMO_DISABLE=1"),
            ),
        ),
    )


class XlaTools(CauseRule):
    """XLA (TensorFlow, JAX) or numba does not find parts of the CUDA toolkit: libdevice, ptxas, NVVM.

    **Why it matters.** Compiled programs need libdevice.10.bc and ptxas, which are in the toolkit, not in the driver.

    **What to do.** Install the package that has them, and name their folder.

    **Sources.** tensorflow#58681; jax-ml/jax, gpu_troubleshooting; numba documentation, "CUDA installation".
    """

    code = "xla-tools"
    severity = "error"
    title = text("A part of the CUDA toolkit was not found")
    causes = (
        Cause(
            r"libdevice(?:\.10\.bc)?[^\n]*(?:not found|is required|can't find|missing)|Can't find libdevice|Missing libdevice|libdevice not found",
            text("libdevice, a part of the CUDA toolkit, was not found"),
            text("XLA looks for nvvm/libdevice/libdevice.10.bc in the toolkit's folder."),
            (
                text("pip install nvidia-cuda-nvcc-cu12   # or: conda install -c nvidia cuda-nvcc"),
                text(
                    "export XLA_FLAGS=--xla_gpu_cuda_data_dir=FOLDER   # the folder that contains nvvm/libdevice; numba: export CUDA_HOME=FOLDER"
                ),
            ),
        ),
        Cause(
            r"cannot find ROCm device library|rocm-path|hipcc[^\n]*not found|__ockl_\w+|invalid target ID 'gfx|unsupported HIP gpu architecture|unsupported gpu architecture[:\s]{1,3}\S?gfx|HIP[^\n]*compiler[^\n]*not found|unknown target CPU 'gfx|HIP_PATH[^\n]*not",
            text("ROCm's compiler parts were not found"),
            text(
                "The program compiles at run time or is built, and ROCm's device libraries or hipcc are not where it looks."
            ),
            (text("Install rocm-device-libs and hipcc (rocm-hip-sdk); export ROCM_PATH=/opt/rocm HIP_PATH=/opt/rocm"),),
        ),
        Cause(
            r"libNVVM cannot be found|NVVM_ERROR_\w+|IR version \S+ incompatible|NVVM (?:Error|not found)|nvvm\.dll|libnvvm\.so[^\n]*(?:cannot|not found)|NvvmSupportError",
            text("numba does not find NVVM, a part of the CUDA toolkit"),
            text("numba compiles with NVVM of an installed toolkit."),
            (
                text(
                    "conda install -c conda-forge cuda-nvcc cuda-nvrtc   # or: pip install 'numba-cuda[cu12]'; with an installed toolkit: export CUDA_HOME=/usr/local/cuda"
                ),
            ),
        ),
        Cause(
            r"Cannot find ptxas|ptxas[\w-]*: (?:command )?not found|XLA requires ptxas|unsupported \.version \d|PTX version \S+ (?:does not support|is not supported)|nvrtc: error: invalid value for --gpu-architecture|invalid value for --gpu-architecture|ptxas[^\n]*(?:fatal|too old|does not support)|ptxas too old|ptxas exited with non-zero|LLVM ERROR: (?:Cannot select|Symbol not found)[^\n]*nvvm|__nvvm_reflect|Unsupported \.target|ptxas[^\n]*fatal|libnvrtc-builtins\.so\S*",
            text("The CUDA compiler tools do not fit the card or the driver"),
            text(
                "The toolkit that compiles at run time is older than the card (or than the code it is given), or its parts have different versions."
            ),
            (
                text(
                    "Install a toolkit that knows the card and that the driver supports; in one environment use one CUDA version: pip list | grep -iE 'cuda|nvrtc|ptxas|nvcc'"
                ),
                text(
                    "CuPy: pip install cupy-cuda12x (or 13x), and no second CuPy package; remove other toolkits from PATH and LD_LIBRARY_PATH."
                ),
            ),
        ),
    )
