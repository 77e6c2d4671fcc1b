"""Situations of WSL and Windows: the text shows a kernel, a build or a mode with which no card can be used there."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import WINDOWS, WSL, Situation
from ownlab.text import text

__all__ = ["WSL_AND_WINDOWS"]

# What rules say of a driver in Linux: inside WSL none of it applies.
_LINUX_DRIVER = (
    "module-build", "module-load", "module-missing", "module-upkeep", "module-rejected", "no-smi", "no-driver", "driver-old",
    "driver-packages", "driver-installer", "driver-end", "wsl", "wsl-libraries", "wsl-no-module", "card-lost", "no-device", "nouveau",
    "no-visible-gpu", "torch-no-gpu", "gpu-not-found", "mismatch", "container-no-gpu", "uvm", "nvml-unknown", "cuda-error", "unknown-message",
)  # fmt: skip
_FAILS = r"NVIDIA-SMI has failed|No devices were found|insufficient ?driver|no CUDA-capable|No CUDA GPUs|is_available\(\)[^\n]*\n?\W*False|cuda\w*Error|CUDA[ _]ERROR|CUDA error|not (?:found|detected)|Failed to initialize NVML|GPUs Available: *0|blocked by the operating system|no adapters were found|unsupported configuration"
# Windows before 21H2: 10240 to 19043. Insider builds from 20145 on had it earlier.
_OLD_BUILD = r"\b10\.0\.1(?:[0-8]\d{3}|90(?:[0-3]\d|4[0-3]))\b|\bbuild:? ?1(?:[0-8]\d{3}|90(?:[0-3]\d|4[0-3]))\b|\bWindows 10[^\n]{0,30}\b(?:1[5-9]0[39]|2004|20H2|21H1)\b"
_NEW_BUILD = r"\b(?:10\.0\.|build:? ?)(?:1904[4-9]|190[5-9]\d|19[1-9]\d\d|2\d{4})\b|\b2[1-5]H2\b|\bWindows 11\b"
# A line of nvidia-smi's table, its heading with the mode, or a sentence about it.
_TCC = r"^\|\s+\d+\s[^|\n]*\bTCC\b|\bDriver-Model\b[^\n]*\bTCC\b|^fact: card [^\n]*model=TCC|(?-i:\bTCC\b)[ -](?:driver )?mode|\b(?:driver model|mode)\W{1,3}(?-i:TCC)\b"
_WDDM_STEPS = (
    text("On Windows, as administrator: nvidia-smi --query-gpu=index,name,driver_model.current --format=csv; then for each card in TCC mode: nvidia-smi -i NUMBER -dm 0   # WDDM; restart Windows"),
    text("If the card refuses it: data-centre cards need a driver that offers WDDM (vGPU or RTX Enterprise) and its licence. Without one, use the card from Windows or from Linux itself."),
    text("Several cards: a card in TCC mode hides the others, too. Disable it in the Device Manager; then in PowerShell: wsl --shutdown"),
)  # fmt: skip

WSL_AND_WINDOWS: tuple[Situation, ...] = (
    Situation(
        "wsl",
        (r"\b4\.4\.0-\d+-microsoft\b|^\*?\s*[A-Z][\w.-]+\s+(?:Running|Stopped)\s+1\s*$",),
        text("This is WSL 1, which has no GPU: only WSL 2 reaches the card"),
        text("The kernel 4.4.0-…-Microsoft is WSL 1's imitation of Linux. It has no kernel modules, no headers to build them with, and no way to the driver of Windows."),
        (
            text("In PowerShell: wsl -l -v; wsl --set-version DISTRIBUTION 2; wsl --update"),
            text("Remove what was installed of a Linux driver, and install none: sudo apt-get purge '*nvidia-driver*' '*nvidia-dkms*' 'libnvidia-*'"),
            text("On Windows (11, or 10 from 21H2 on): the newest driver from https://www.nvidia.com/drivers. Then in WSL: /usr/lib/wsl/lib/nvidia-smi"),
        ),
        _LINUX_DRIVER,
        unless=r"^\*?\s*[A-Z][\w.-]+\s+(?:Running|Stopped)\s+2\s*$|microsoft-standard",
    ),
    Situation(
        "wsl",
        (_TCC, WSL),
        text("A card is in TCC mode on Windows, and WSL uses cards in WDDM mode only"),
        text("TCC takes the card out of Windows' graphics system, through which WSL reaches it. Card and driver are not at fault."),
        _WDDM_STEPS,
        (*_LINUX_DRIVER, "no-bf16", "persistence"),
    ),
    Situation(
        "wsl",
        (_OLD_BUILD, WSL, _FAILS),
        text("This build of Windows has no GPU in WSL: it needs Windows 11, or Windows 10 from 21H2 (build 19044) on"),
        text("WSL reaches the card through a part of Windows that older builds do not have. No driver and no toolkit inside WSL helps."),
        (
            text("Update Windows (Settings, Windows Update); winver shows the build. Then in PowerShell: wsl --update; wsl --shutdown"),
            text("Keep the driver on Windows, a current one; install no Linux driver inside WSL. Then: /usr/lib/wsl/lib/nvidia-smi"),
        ),
        _LINUX_DRIVER,
        unless=_NEW_BUILD,
    ),
    Situation(
        "no-accelerator",
        (
            r"no adapters were found|could not select device driver[^\n]*gpu|nvidia-container-cli: initialization error|unknown or invalid runtime name: nvidia|Found no NVIDIA driver",
            r"\bGraphics:[^\n]*\bIntel|\bIntel\S{0,5} (?:Iris|UHD|HD|Xe)\b|\bno (?:dedicated|discrete|NVIDIA) (?:GPU|graphics|card)",
        ),
        text("The text shows no NVIDIA card in this machine, only graphics of the processor"),
        text("The program or container asks for an NVIDIA card. Neither driver nor Container Toolkit helps without one."),
        (
            text("Check it: lspci | grep -iE 'vga|3d|display'; on Windows: Get-CimInstance Win32_VideoController | select Name"),
            text("Run on the CPU: without --gpus, without the GPU part of the Compose file, the program's CPU variant or image."),
            text("Or on a machine with an NVIDIA card."),
        ),
        ("wsl", "runtime-missing", "no-driver", "container-no-gpu", "container-toolkit", "device-request", "unknown-message"),
        unless=r"\bGeForce|\bRTX\b|\bGTX\b|\bQuadro\b|\bTesla\b|NVIDIA Corporation|NVIDIA-SMI \d|^fact: (?:driver|card nvidia|pci 10de)",
    ),
    Situation(
        "jax-build",
        (
            WINDOWS + r"|\bWindows 1[01]\b|^fact: family windows",
            r"No GPU/TPU found, falling back to CPU|\[CpuDevice\(id=0\)\]|TFRT_CPU_0|CUDA-enabled jaxlib is not installed",
        ),
        text("JAX has no CUDA build for native Windows: it computes on the CPU there"),
        text("The wheels of jax[cuda12] and jax[cuda13] are for Linux. Driver and toolkit of Windows are not the reason."),
        (
            text("WSL 2: wsl --install; inside it: python -m pip install -U 'jax[cuda12]'; the driver stays the one of Windows"),
            text("Then: python -c 'import jax; print(jax.devices())'. On Windows itself JAX works with the CPU."),
        ),
        ("jax-build", "no-driver", "gpu-not-found"),
        unless=rf"{WSL}|^fact: family linux",
        blocks=False,
        while_working=True,
    ),
)  # fmt: skip
