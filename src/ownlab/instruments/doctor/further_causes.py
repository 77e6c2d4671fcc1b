"""The rarer causes of messages that have many, as steps after the usual ones.

A message that is pasted alone does not show which of its causes it has. The rule names the usual one; here follow the ones that
public reports confirmed less often, each with the sign by which to recognise it. For a machine that was read they are left out: there the rules ask the machine.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from ownlab.instruments.doctor.records import Finding
from ownlab.machine.facts import Known
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["with_further_causes"]


class _Further(NamedTuple):
    """The further steps of a rule's findings."""

    code: str
    steps: tuple[str, ...]
    shown_by: str = ""  # a pattern that the evidence must contain


_WINDOWS_DLL = (
    text(
        "If the C++ runtime is installed: the DLL that the message names needs another one that is missing. fbgemm.dll (torch 2.4.0) needs libomp140.x86_64.dll: another torch release; asmjit, shm, caffe2 or c10.dll: pip uninstall torch; pip install --no-cache-dir torch"
    ),
    text(
        "WinError 127, 1114 (or a procedure that is missing): libraries of two versions meet, such as another torch, torchvision, onnxruntime or an older MSVC runtime on PATH: a new environment, all packages from one index; import torch before onnxruntime, PyQt and others."
    ),
    text(
        "WinError 193: Python and the package are for different processors (32 and 64 bit, ARM): install 64-bit Python. TensorFlow: a release for this Python, and a CPU with AVX. conda: conda install -c conda-forge vs2015_runtime"
    ),
)

_FURTHER = (
    _Further(
        "uvm",
        (
            text(
                "After an update of driver or kernel: sudo reboot. In a container: docker run --gpus all …, and on its host ls -l /dev/nvidia-uvm (missing: sudo nvidia-modprobe -u -c=0)"
            ),
            text(
                "If it remains: sudo dmesg | grep -iE 'nvrm|xid|uvm' | tail; echo $LD_LIBRARY_PATH (another libcuda first?); then install the driver again, cleanly (Windows too)."
            ),
        ),
    ),
    _Further(
        "nvml-unknown",
        (
            text(
                "If it never worked in this container: no-cgroups = false in /etc/nvidia-container-runtime/config.toml (root engine), nvidia-container-toolkit 1.8 or newer, devices for a rootless engine through CDI (nvidia-ctk cdi generate)."
            ),
            text("If nvidia-smi fails on the host too: sudo dmesg | grep -iE 'nvrm|xid'; reboot the host."),
        ),
    ),
    _Further(
        "out-of-memory",
        (
            text(
                "If other programs fill the card (nvidia-smi, Windows: task manager): end them, or run less on it at the same time."
            ),
            text(
                "If little is asked for: another framework has reserved the card (JAX: XLA_PYTHON_CLIENT_PREALLOCATE=false; TensorFlow: TF_FORCE_GPU_ALLOW_GROWTH=true), or it is the wrong card (CUDA_VISIBLE_DEVICES)."
            ),
            text(
                "Language models: fewer layers on the card (llama.cpp -ngl, Ollama num_gpu), a shorter context, weights with fewer bits. Fragmented: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
            ),
        ),
    ),
    _Further("framework-broken", _WINDOWS_DLL, r"^(?!.*(?i:zluda)).*(?:WinError|DLL|\.dll)"),
    _Further(
        "framework-broken",
        (
            text(
                "On ARM boards (Jetson, Raspberry Pi), where AVX does not exist: export OPENBLAS_CORETYPE=ARMV8, as NumPy's OpenBLAS takes the processor for another one; or the distribution's python3-numpy."
            ),
            text(
                "If the CPU has AVX (grep -c avx /proc/cpuinfo): the package was compiled for a newer CPU than this (-march=native, AVX-512): compile it here, or install another build. In a virtual machine: CPU type “host”."
            ),
        ),
        r"[Ii]llegal instruction|SIGILL|AVX",
    ),
    _Further(
        "library-missing",
        (
            text(
                "If the file is there (find / -name 'libcu*.so*' -not -path '/proc/*' 2>/dev/null; Windows: where cudart64_*.dll): export LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH, or its folder into /etc/ld.so.conf.d and sudo ldconfig; Windows: into PATH."
            ),
            text(
                "Jetson: CUDA and cuDNN come with JetPack (sudo apt-get install nvidia-jetpack), and torch must be NVIDIA's wheel for this JetPack; wheels from PyPI do not fit. Containers: --runtime nvidia"
            ),
            text(
                "Or install the program's build for the CUDA that is there: vLLM, bitsandbytes, onnxruntime-gpu, CuPy, flash-attn and others have one for each; torch of another CUDA was often installed over the former one."
            ),
        ),
    ),
    _Further(
        "cudnn-missing",
        (
            text(
                "CTranslate2 (faster-whisper, WhisperX) before 4.5 and onnxruntime-gpu before 1.19 need cuDNN 8, newer ones cuDNN 9: with torch 2.4 and newer (cuDNN 9) use the newer release, or pip install 'ctranslate2<4.5' beside an older torch."
            ),
            text(
                "If the file is there (find / -name 'libcudnn*' -not -path '/proc/*' 2>/dev/null; Windows: where cudnn*.dll): its folder belongs on LD_LIBRARY_PATH (Windows: PATH), with all of cuDNN's files."
            ),
        ),
    ),
    _Further(
        "cudnn-missing",
        (
            text(
                "In WSL, if cuDNN is installed: it looks for libcuda.so, which lies in /usr/lib/wsl/lib: export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH (or link libcuda.so.1 into cuDNN's folder)."
            ),
        ),
    ),
    _Further(
        "cuda-library",
        (
            text(
                "If memory is free: the cuDNN in torch's wheel does not fit card or driver: another torch release (newer for a new card, older for an old card or driver), in a new environment with a Python that the project names."
            ),
        ),
        r"CUDNN",
    ),
    _Further(
        "cuda-mismatch",
        (
            text(
                "Without root, or if there is no toolkit of that version: conda install -c nvidia/label/cuda-X.Y.0 cuda-toolkit (or cuda-nvcc) with torch's X.Y, then export CUDA_HOME=$CONDA_PREFIX"
            ),
        ),
        r"[Dd]etected CUDA version",
    ),
    _Further(
        "container-toolkit",
        (
            text(
                "Apptainer, Singularity: --nv puts the driver's libraries into /.singularity.d/libs and names it in LD_LIBRARY_PATH; a shell or module inside that clears the variable loses them: export LD_LIBRARY_PATH=/.singularity.d/libs:$LD_LIBRARY_PATH"
            ),
        ),
        r"libnvidia-ml",
    ),
    _Further(
        "dev-permission",
        (
            text(
                "If ls -ln /dev/dri shows a group by its number alone (in containers): it has no name there: sudo groupadd -g NUMBER render; sudo usermod -aG render USER, or start the container with --group-add NUMBER."
            ),
        ),
        r"renderD|/dev/dri|kfd|group",
    ),
    _Further(
        "nccl",
        (
            text(
                "In a container: --ipc=host (or --shm-size=8g) --ulimit memlock=-1. One rank for each card: CUDA_VISIBLE_DEVICES, torch.cuda.set_device(LOCAL_RANK). nvidia-smi: is another program's memory in the way?"
            ),
            text(
                "If it hangs or fails from the first collective on: turn ACS or the IOMMU off (iommu=pt), NCCL_IB_DISABLE=1 without InfiniBand; a driver that is older than NCCL's CUDA: update it, or an older torch."
            ),
        ),
    ),
    _Further(
        "no-driver",
        (
            text(
                "An AMD card: pip install torch --index-url https://download.pytorch.org/whl/rocm6.4 (Linux). No card: the CPU (device='cpu', map_location='cpu', CUDA_VISIBLE_DEVICES=''). Colab, Kaggle: choose a GPU runtime. WSL: the driver belongs on Windows."
            ),
            text("If a driver was installed since the last boot, or the kernel was updated: reboot; then nvidia-smi."),
        ),
    ),
    _Further(
        "cpu-build",
        (
            text(
                "If torch with CUDA was installed: look whether this Python has it (python -c 'import sys, torch; print(sys.executable, torch.__version__)'); another package may have replaced it, or there is no CUDA build for this Python: use 3.10 to 3.12."
            ),
            text(
                "conda: conda install -c conda-forge pytorch-gpu (remove cpuonly). AMD cards: the ROCm build. Macs: device='mps'."
            ),
        ),
        r"torch|Torch|CUDA",
    ),
    _Further(
        "no-visible-gpu",
        (
            text(
                "If it worked before, or driver or kernel were updated: reboot. If nvidia-smi shows the card: MIG without instances (nvidia-smi -L); another libcuda on LD_LIBRARY_PATH (compat, stubs; WSL: /usr/lib/wsl/lib must come first); the program's CUDA is newer than the driver's."
            ),
        ),
    ),
    _Further(
        "no-device",
        (
            text(
                "If it worked before: another driver branch was installed (Maxwell, Pascal, Volta need R580 at most, Kepler R470), the laptop switched the card off (prime-select, BIOS), or a power cable or riser is loose."
            ),
            text("In a virtual machine: is the card passed through, with UEFI firmware and enough address space?"),
        ),
    ),
    _Further(
        "invalid-ordinal",
        (
            text(
                "CUDA_VISIBLE_DEVICES renumbers: with CUDA_VISIBLE_DEVICES=3 the card is cuda:0. nvidia-smi -L shows whether a card has dropped out (then reboot). Configurations made on another machine name its cards."
            ),
        ),
    ),
    _Further(
        "driver-old",
        (
            text(
                "If it worked before, or the driver was just updated: restart the session or the machine first; an old state of the driver gives the same message."
            ),
            text(
                "A build for an older CUDA instead: pip install torch --index-url https://download.pytorch.org/whl/cu118 (driver 450 and newer); torch from a plain pip install is for the newest CUDA. Libraries in /usr/local/cuda/compat of an image may also be too old or too new for the host."
            ),
        ),
    ),
    _Further(
        "ptx-toolchain",
        (
            text(
                "numba, CuPy, JAX and Triton compile with the newest nvcc or nvrtc package that pip or conda found: install them for the driver's CUDA (pip install 'nvidia-cuda-nvcc-cu12<12.5', conda install cuda-version=12.2), or a program built with machine code for this card."
            ),
        ),
    ),
    _Further(
        "oom-killed",
        (
            text(
                "A container's or job's own limit may be smaller than the machine (docker --memory, Slurm --mem, Kubernetes limits); WSL: memory=… in %UserProfile%\\.wslconfig. While compiling: MAX_JOBS=2. More swap helps for a short peak."
            ),
        ),
    ),
    _Further(
        "host-memory",
        (
            text(
                "A limit may be smaller than the machine: docker --memory, Slurm --mem, WSL (memory=… in %UserProfile%\\.wslconfig), ulimit -v; a 32-bit Python has 2 GB. A size that is absurdly large comes from wrong shapes or a broken file."
            ),
        ),
    ),
    _Further(
        "no-smi",
        (
            text(
                "In a virtual machine or in the cloud: does it have a card (lspci | grep -i nvidia)? If nouveau holds it (lspci -nnk -d 10de:): blacklist nouveau, rebuild the boot image, reboot. After a kernel update the previous kernel, in the boot menu, still works."
            ),
        ),
    ),
    _Further(
        "exclusive",
        (
            text(
                "Also: a process of another container or user, a card that needs a reset (sudo dmesg | grep -i xid), CUDA MPS without its server, or, on Windows and in WSL, a driver that was updated without a restart."
            ),
        ),
    ),
    _Further(
        "illegal-access",
        (
            text(
                "On one card only, or in different programs: overclocking, heat, power, or memory of the card (nvidia-smi -q -d ECC). On new cards: an older build of the program or of Triton; update it, and the driver."
            ),
        ),
        r"^(?!.*(?i:unspecified launch failure|launch_?failed|illegal instruction))",
    ),
)


# Where the driver is known, these findings already say what is to be done on this machine.
_ABOUT_THE_DRIVER = frozenset(("driver-old", "no-driver", "no-smi"))


def with_further_causes(machine: Machine, finding: Finding) -> Finding:
    """Return the finding with the steps for its rarer causes, where a pasted text is all that is known."""
    if machine.origin != "pasted" or (finding.code in _ABOUT_THE_DRIVER and isinstance(machine.nvidia.driver, Known)):
        return finding
    steps = tuple(
        step
        for further in _FURTHER
        if further.code == finding.code and any(re.search(further.shown_by, line) for line in finding.evidence)
        for step in further.steps
        if step not in finding.fix
    )
    return msgspec.structs.replace(finding, fix=(*finding.fix, *steps)) if steps else finding
