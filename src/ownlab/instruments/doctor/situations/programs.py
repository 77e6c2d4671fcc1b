"""Situations of single programs and systems, in the words that only they use."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import AMD, NVIDIA_CARD, Situation
from ownlab.text import text

__all__ = ["PROGRAMS"]

_LAST = ("unknown-message", "several-causes")

PROGRAMS: tuple[Situation, ...] = (
    Situation(
        "program-backend",
        (r"There is no registered Platform called \W?(?:CUDA|OpenCL|HIP)|platform named \W?(?:CUDA|OpenCL)\W? (?:is )?not (?:found|available)",),
        text("OpenMM has no plug-in for this platform, or the plug-in does not load"),
        text("The plug-in is a file of its own. It is missing in the CPU package, was built for another CUDA than is installed, or does not find the driver's libcuda (a container without the card, WSL's folder)."),
        (
            text("python -m openmm.testInstallation; python -c 'import openmm as m; print(m.Platform.getPluginLoadFailures())'   # names the library that is missing"),
            text("conda install -c conda-forge openmm cuda-version=12.X   # the driver's CUDA (nvidia-smi) or an older one; pip: openmm[cuda12]"),
        ),
        _LAST,
        blocks=False,
    ),
    Situation(
        "runtime-failure",
        (r"invalid device symbol|cudaErrorInvalidSymbol|cuModuleGetFunction[^\n]*not found|\berror 13\b[^\n]*cudaMemcpyToSymbol",),
        text("The program was compiled for other cards: its kernels or constants are not there for this one"),
        text("“Invalid device symbol” from the first copy to the card means that the program contains no code for the card's architecture, or was linked with another CUDA than it is run with."),
        (
            text("nvidia-smi --query-gpu=name,compute_cap --format=csv; cuobjdump --list-elf PROGRAM   # the architectures in it"),
            text("Build the program again with the card's architecture (AMBER, NAMD, LAMMPS: its newest update and a CUDA that knows the card), or take its release for this card."),
        ),
        ("cuda-error", "runtime-failure", *_LAST),
    ),
    Situation(
        "gpu-not-found",
        (r"Could not find/initialize a specified accelerator device|gpu_extra\.h:\d+",),
        text("LAMMPS does not reach the card: it is not visible to this process, or the GPU package was built for another card"),
        text("The GPU package is built for one architecture (GPU_ARCH), and with CUDA or OpenCL. Without a visible card, or with the wrong code, it prints this."),
        (
            text("nvidia-smi in the same job; ./nvc_get_devices (of lib/gpu)   # lists what the package sees"),
            text("Build it again: cmake -D PKG_GPU=on -D GPU_API=cuda -D GPU_ARCH=sm_XY   # the card's number; CUDA not newer than the driver's"),
        ),
        _LAST,
    ),
    Situation(
        "cuda-shadow",
        (r"CUDA runtime library [`']?lib\w+\.so[`']? was loaded from a system path|CUDA runtime [\d.]+, artifact installation[\s\S]{0,400}CUBLAS: (?!1?1\b)",),
        text("Julia loads CUDA libraries of the system beside those of CUDA.jl: LD_LIBRARY_PATH names their folder"),
        text("CUDA.jl brings libraries that belong together. A folder of another CUDA in LD_LIBRARY_PATH (a module, a profile file) comes first."),
        (
            text("env -u LD_LIBRARY_PATH julia   # then: using CUDA; CUDA.versioninfo()   # all of one version; remove the folder from the profile or module"),
            text("If the system's CUDA is meant: CUDA.set_runtime_version!(local_toolkit=true), and restart Julia"),
        ),
        ("harmless", *_LAST),
        severity="warning",
        while_working=True,
    ),
    Situation(
        "driver-old",
        (r"Detected CUDA (?:Runtime|driver) version is \S+[^\n]*(?:requires|needs)|(?:cudf|cuml|RAPIDS)[^\n]*requires CUDA (?:Runtime |driver )?(?:version )?\d",),
        text("RAPIDS needs a newer CUDA than is here: of the driver, or of the packages in the environment"),
        text("The message names both versions. “Driver version” is the newest CUDA of the driver, “Runtime version” the package of the environment."),
        (
            text("nvidia-smi (CUDA Version); conda list | grep -E 'cuda-version|cudatoolkit'; pip list | grep -iE 'cudf|cuml|nvidia-cuda-runtime'"),
            text("Install RAPIDS for the CUDA that the driver supports: https://docs.rapids.ai/install   # cuda-version=12.X, or the packages cudf-cu12, cudf-cu13; in a new environment"),
        ),
        ("card-too-old", *_LAST),
        unless=r"[Cc]ompute [Cc]apability",
    ),
    Situation(
        "launch-timeout",
        (r"LiveKernelEvent\W{0,20}(?:Code\W*)?(?:141|117|1a8|193|1b8|144)\b|VIDEO_TDR_(?:FAILURE|TIMEOUT_DETECTED|ERROR)|VIDEO_ENGINE_TIMEOUT_DETECTED|\bnvlddmkm\.sys\b",),
        text("Windows reset the graphics driver, because the card did not answer in time (TDR)"),
        text("LiveKernelEvent 141 and 117, VIDEO_TDR_FAILURE: the card hung or computed too long in one piece. The number does not say why."),
        (
            text("Default clocks and power limit (no overclocking, no undervolting); temperatures under load; power cables, each on its own plug"),
            text("The driver once more, cleanly, or another release (Studio); does it happen with one program only? Then smaller steps there, or TdrDelay=60 in HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers"),
            text("It remains with default clocks, another driver and another program: the card in another machine, or another card in this one."),
        ),
        _LAST,
        severity="warning",
    ),
    Situation(
        "library-missing",
        (r"nvcuda\.dll[^\n]*(?:is missing|was not found|not found|cannot be found|could not be (?:found|loaded))|(?:Could not|Failed to|Unable to) (?:load|find|locate)[^\n]*nvcuda\.dll",),
        text("nvcuda.dll is missing: it belongs to NVIDIA's driver, so there is no NVIDIA card in this machine, or its driver is not installed"),
        text("The file comes with the graphics driver, never from elsewhere. A machine with Intel or AMD graphics only does not have it."),
        (
            text("Get-CimInstance Win32_VideoController | select Name, DriverVersion   # is there an NVIDIA card?"),
            text("With a card: its driver from NVIDIA or the maker of the computer. Without one: the program's variant for the CPU, DirectML or OpenCL. Do not download a single DLL."),
        ),
        ("library-missing", "framework-broken", *_LAST),
        unless=rf"{AMD}|{NVIDIA_CARD}",
    ),
    Situation(
        "windows-device",
        (r"could not find compatible graphics hardware|not compatible with this version of Windows|standard NVIDIA graphics driver is not compatible|NVIDIA [Ii]nstaller cannot continue",),
        text("NVIDIA's installer has no driver for this card or this Windows in its package"),
        text("The package is for other cards (desktop or notebook, GeForce or RTX, too new or too old a branch), for another Windows or DCH kind, or Windows does not see the card at all."),
        (
            text("Device Manager, the card, Details, Hardware ids: VEN_10DE&DEV_…   # not listed: power, slot, firmware; listed: choose exactly this card and Windows at https://www.nvidia.com/drivers"),
            text("Old cards need their last branch (Maxwell, Pascal, Volta: R580; Kepler: R470); notebooks with switched graphics often the driver of their maker; an old Windows 10 an update first."),
        ),
        _LAST,
        unless=r"\bCode (?:43|10|31|12|28|14|52)\b",
    ),
    Situation(
        "device-request",
        (r"resource request cannot be scheduled[^\n]*GPU|No available node types can fulfill resource request[^\n]*GPU|Insufficient resources[^\n]*['\"]GPU['\"]",),
        text("Ray has no node with a free GPU: none was registered, or others hold them"),
        text("Ray counts the cards once, when a node starts. Without a driver or with CUDA_VISIBLE_DEVICES empty it counts none; actors that still live hold theirs."),
        (
            text("ray status; python -c 'import ray; ray.init(address=\"auto\"); print(ray.cluster_resources())'   # no GPU: nvidia-smi on that node, then ray stop; ray start --num-gpus=N"),
            text("All in use: ray list actors; end old jobs, or ask for less (num_gpus=0.5)"),
        ),
        ("kubernetes", *_LAST),
    ),
    Situation(
        "launcher",
        (r"\bShardCannotStart\b|Shard complete standard error output",),
        text("A shard of the text-generation server ended; its own error, further up, has the reason"),
        text("“ShardCannotStart” only follows it. Usually memory of the card, a card or format that this release does not support, or NCCL between several cards."),
        (
            text("Read the lines after “Shard complete standard error output”; give the doctor these."),
            text("docker run --gpus all --shm-size 1g …; fewer tokens (--max-batch-prefill-tokens), or --quantize; one card: --num-shard 1"),
        ),
        _LAST,
        unless=r"OutOfMemory|out of memory|NCCL (?:WARN|error)|Error: (?!Shard)\w|\w+Error: ",
    ),
    Situation(
        "extension-mismatch",
        (r"name '(?:autogptq_cuda\w*|exllama\w*|awq_ext|marlin_cuda|quant_cuda|gptqmodel\w*)' is not defined|No module named '?(?:autogptq_cuda\w*|exllama\w*kernels?|awq_ext|awq_inference_engine|quant_cuda)\b|exllama_kernels not installed",),
        text("The quantisation library was installed without its compiled CUDA part"),
        text("AutoGPTQ, GPTQModel and AutoAWQ have wheels for certain torch and CUDA versions; from source, or for other versions, the kernels are left out."),
        (
            text("python -c 'import torch; print(torch.__version__, torch.version.cuda)'; then the library's wheel for exactly these, from its releases or index"),
            text("Or compile it: pip install --no-build-isolation --no-binary PACKAGE PACKAGE   # needs nvcc of torch's CUDA; AutoGPTQ is no longer developed: GPTQModel"),
        ),
        ("cpu-package", *_LAST),
        unless=r"DLL load failed|undefined symbol",
        blocks=False,
    ),
    Situation(
        "invalid-ordinal",
        (r"supplied GPU IDs do not exist|GPU ID\(?s?\)?[^\n]{0,40}(?:do(?:es)? not exist|not detected|invalid)|-gpu_id[^\n]*(?:not exist|invalid|detected)",),
        text("A program asked for a card number that does not exist"),
        text("Cards are numbered from 0, and only those that this process sees count: with CUDA_VISIBLE_DEVICES or in a job the numbers begin with 0 again."),
        (
            text("nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES   # the numbers that there are; correct the option (-gpu_id 0)"),
        ),
        _LAST,
    ),
    Situation(
        "xla-tools",
        (r"Unable to find ptxas|Can't find ptxas|ptxas (?:is )?not (?:found|in PATH)",),
        text("ptxas, a part of the CUDA toolkit, is not found"),
        text("XLA compiles with it. The driver can do so, too, but slower, and not for every version."),
        (
            text("conda install -c nvidia cuda-nvcc=12.X; or pip install nvidia-cuda-nvcc-cu12; or export PATH=/usr/local/cuda/bin:$PATH"),
            text("export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda   # a folder that contains bin/ptxas and nvvm/libdevice"),
        ),
        _LAST,
        blocks=False,
    ),
    Situation(
        "program-backend",
        (r"NoAvailableBackendException|nd4j-cuda[^\n]*(?:not found|no )|Unable to (?:find|load) [^\n]*nd4j[^\n]*backend",),
        text("ND4J (Deeplearning4j) finds no back end: the library for the CPU or CUDA is not among the dependencies, or does not load"),
        text("The back end is a dependency of its own, with the native libraries of this system. The CUDA one needs exactly its CUDA version."),
        (
            text("Add org.nd4j:nd4j-cuda-X.Y-platform (or nd4j-native-platform for the CPU) of ND4J's version; the first “Caused by” names a library that is missing"),
        ),
        _LAST,
        blocks=False,
    ),
)  # fmt: skip
