"""Rules about Python packages that exclude each other, and about libraries of the system that wheels need."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["PackageConflict", "SystemLibraryMissing"]


class PackageConflict(CauseRule):
    """pip or conda says that installed packages exclude each other, or finds no set that fits.

    **Why it matters.** An upgrade of one package replaced torch, NumPy or protobuf under another one, which then fails or loses
    its GPU part.

    **What to do.** Install the packages that depend on each other in one command, in a new environment.

    **Sources.** pip, "Dependency resolution"; conda, "Managing virtual packages"; numpy.org, NumPy 2 migration guide.
    """

    code = "package-conflict"
    severity = "error"
    title = text("Installed packages exclude each other")
    causes = (
        Cause(
            r"(?P<name>torch\w*|xformers|vllm|flash[-_]attn|torchvision|torchaudio|triton|tensorflow\S*|jax\w*|deepspeed|bitsandbytes)\S* [\d.]\S* (?:requires|depends on) (?:torch|nvidia-\S+|triton|jax\w*|tensorflow)\S*[^\n]*(?:but you have|which is incompatible|is not installed)",
            text("Another torch (or CUDA library) was installed than a package needs"),
            text(
                "A package contains code for one torch release, and pip replaced that torch by another. What needs the former one fails or does not use the card."
            ),
            (
                text(
                    "Install them in one command, so that pip finds versions that fit: pip install torch torchvision torchaudio xformers --index-url https://download.pytorch.org/whl/cuXYZ"
                ),
                text("Or in a new environment: python -m venv lab; do not mix pip's and conda's torch."),
            ),
        ),
        Cause(
            r"(?:has requirement|requires) [^\n]{1,120}, but you(?:'ll)? have [^\n]*incompatible|pip's dependency resolver does not currently take into account|ResolutionImpossible|Cannot install [^\n]* because these package versions have conflicting dependencies|No solution found when resolving dependencies",
            text("pip installed, or was asked for, versions that exclude each other"),
            text(
                "Each package names the versions of others that it works with; the message names the pair that does not fit. Often it still works, but not always."
            ),
            (
                text(
                    "Install the packages that belong together in one command, in a new environment: python -m venv lab"
                ),
                text("Or install the version that the message asks for: pip install 'NAME==VERSION'"),
            ),
        ),
        Cause(
            r"UnsatisfiableError|LibMambaUnsatisfiableError|PackagesNotFoundError|found to be incompatible with (?:each other|your system)|nothing provides (?:cuda|cudatoolkit|pytorch|libcu)\S*",
            text("conda finds no set of packages that fits"),
            text(
                "The channels do not have this combination of Python, torch and CUDA, or it needs another channel (nvidia, pytorch, conda-forge); NVIDIA's cudatoolkit ends at 11.8."
            ),
            (
                text("Try in a new environment: conda create -n lab -c conda-forge python=3.11 pytorch-gpu"),
                text(
                    "Or use pip inside conda: pip install torch --index-url https://download.pytorch.org/whl/cuXYZ   # the pytorch channel has no releases since 2.5"
                ),
            ),
        ),
        Cause(
            r"RuntimeError: Numpy is not available|module 'numpy' has no attribute '(?:bool|int|float|object|str|long)'|numpy\.dtype size changed|No module named 'numpy\.(?:_core|core)",
            text("NumPy's version does not fit the other packages"),
            text("torch before 2.3 and many older packages need NumPy 1; very old code needs NumPy below 1.24."),
            (text("pip install 'numpy<2'   # code that uses np.bool or np.int: pip install 'numpy<1.24'"),),
        ),
        Cause(
            r"Descriptors cannot (?:not )?be created directly|protoc >= 3\.19|google\.protobuf[^\n]*(?:error|cannot)",
            text("protobuf is too new for a package"),
            text("Files that were generated with an older protobuf do not work with version 4."),
            (text("pip install 'protobuf<3.21'   # or a newer release of the package that fails"),),
        ),
    )


class SystemLibraryMissing(CauseRule):
    """A library of the operating system that a Python package needs is missing.

    **Why it matters.** Wheels contain most of what they need, but not graphics, MPI or threading libraries of the system; slim
    images lack them.

    **What to do.** Install the system's package. The GPU is not concerned.

    **Sources.** opencv-python, README; ld.so(8); Debian and Fedora package indexes.
    """

    code = "system-library"
    severity = "error"
    title = text("A library of the operating system is missing")
    causes = (
        Cause(
            r"zlibwapi\.dll",
            text("cuDNN 8 on Windows needs zlibwapi.dll, which is not there"),
            text("cuDNN 8 compresses with zlib, and does not bring it."),
            (
                text(
                    "Take zlib123dllx64.zip from NVIDIA's cuDNN installation guide, and put zlibwapi.dll beside cudnn64_8.dll or into CUDA's folder bin."
                ),
                text("Or use a release with cuDNN 9, or WSL2, where it is not needed."),
            ),
        ),
        Cause(
            r"libgomp\S*: cannot allocate memory in static TLS block|cannot allocate memory in static TLS block",
            text("The loader has no room left for a threading library: it must be loaded first"),
            text("On ARM machines (Jetson, Grace) the order of imports matters: OpenMP's library comes too late."),
            (
                text(
                    "export LD_PRELOAD=/usr/lib/aarch64-linux-gnu/libgomp.so.1   # the path in the message; or import this package before torch"
                ),
            ),
        ),
        Cause(
            r"lib(?:GL|SM|Xext|Xrender|glib-2\.0|gthread-2\.0)\.so\S*: cannot open|Could not load the Qt platform plugin|no Qt platform plugin could be initialized",
            text("OpenCV needs a graphics library of the system"),
            text("Slim images and servers lack it. The GPU is not concerned."),
            (
                text(
                    "sudo apt-get install -y libgl1 libglib2.0-0 libsm6 libxext6   # or: pip install opencv-python-headless instead of opencv-python"
                ),
            ),
        ),
        Cause(
            r"lib(?:mpi\w*|numa|openblas\w*|gfortran|aio|ibverbs|rdmacm|sndfile|quadmath|tbb|ffi|python3\S*|pmi\w*)\.so\S*: cannot open",
            text("A library of the operating system is missing"),
            text("The message names it. It is not part of the driver or of CUDA."),
            (
                text(
                    "Find the package: apt-file search LIBRARY (Fedora: dnf provides '*/LIBRARY'); for example libopenblas0, libopenmpi3, libnuma1, libaio1, libgfortran5"
                ),
                text("On a cluster: load the module that has it (module load openmpi)."),
            ),
        ),
    )
