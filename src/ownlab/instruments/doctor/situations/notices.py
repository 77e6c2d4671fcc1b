"""Notices that people paste in fear, and that say nothing about a fault."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import Situation
from ownlab.text import text

__all__ = ["NOTICES"]

# Beside these, a notice is not what the text is about.
_REAL = r"Traceback|^\s*[\w.]*(?:Error|Exception)\b: |core dumped|Segmentation fault|could not insert|NVIDIA-SMI has failed|No devices were found|out of memory|\bXid\b|Watchdog|illegal memory"


def _notice(
    sign: str, title: str, meaning: str, step: str, instead_of: tuple[str, ...] = ("unknown-message",)
) -> Situation:
    return Situation("harmless", (sign,), title, meaning, (step,), instead_of, _REAL, "note", False, True)


NOTICES: tuple[Situation, ...] = (
    _notice(
        r"(?:Fan ?Speed|Power ?(?:Usage|Draw|Limit)|Temperature|Clocks?|Encoder\w*|Utilization\w*)\w*(?:\(\))?[^\n]{0,60}Not Supported|nvmlDeviceGet\w+[^\n]*(?:Not Supported|NOT_SUPPORTED)",
        text("Harmless: the card does not report one value (fan, power, clock)"),
        text("Cards without a fan of their own, laptops and some GeForce cards answer “Not Supported” for it. Everything else works."),
        text("Nothing needs to be done. nvidia-smi shows N/A for the same value."),
        ("unknown-message", "nvml-query"),
    ),
    _notice(
        r"using (?:best-guess )?GPU \d+ (?:to perform barrier )?as device[^\n]*(?:unknown|used by this process)",
        text("Harmless: barrier() guesses the card, because the program named none"),
        text("It matters only if ranks and cards have another order than rank 0 on card 0."),
        text("Nothing needs to be done. To silence it: torch.cuda.set_device(local_rank) first, or init_process_group(device_id=torch.device('cuda', local_rank))"),
        ("unknown-message", "nccl"),
    ),
    _notice(
        r"nvidia-powerd[^\n]*(?:No matching GPU found|SBIOS support not found|Failed to initialize RM|exit-code|ERROR! Client)",
        text("Harmless: nvidia-powerd serves laptops with Dynamic Boost only, and ends on other machines"),
        text("The driver and CUDA do not need this service."),
        text("Nothing needs to be done. To silence it: sudo systemctl disable --now nvidia-powerd"),
        ("unknown-message", "container-daemon", "module-upkeep"),
    ),
    _notice(
        r"NVK requires nouveau",
        text("Harmless: Mesa's Vulkan driver for nouveau (NVK) says that NVIDIA's own driver is in use"),
        text("The Vulkan loader asks all drivers in turn. NVIDIA's own one is used."),
        text("Nothing needs to be done. vulkaninfo --summary shows the card; VK_DRIVER_FILES with NVIDIA's file silences it."),
        ("unknown-message", "nouveau"),
    ),
    _notice(
        r"is not a conformant Vulkan implementation",
        text("Harmless: Mesa's Vulkan driver says that it was not tested for conformance"),
        text("It is a notice of a driver that lies beside NVIDIA's or AMD's. Only if it is the single device is the card not used."),
        text("vulkaninfo --summary   # the card must be listed beside llvmpipe"),
    ),
    _notice(
        r"NOTE: CUDA Forward Compatibility mode ENABLED",
        text("Harmless: the image runs on an older driver with CUDA's compatibility libraries"),
        text("NVIDIA's images do so by themselves on data-centre cards, where it is supported."),
        text("Nothing needs to be done. With errors 803 or 804: update the driver, or an image of an older CUDA."),
    ),
    _notice(
        r"overdrive is enabled[^\n]*|AOTRITON_ENABLE_EXPERIMENTAL|MatMul8bitLt: inputs will be cast|doesn't support architecture 'i386'",
        text("Harmless: the program or the system says how it works"),
        text("The notice is about speed, number formats or an architecture that is not used."),
        text("Nothing needs to be done."),
    ),
    _notice(
        r"xFormers is (?:not )?available \(",
        text("Harmless: the model says whether the optional library xFormers is there"),
        text("xFormers makes attention faster on some cards. Without it the results are the same; with it nothing needs to be done."),
        text("Nothing needs to be done. Another xFormers may replace the installed torch by another build."),
    ),
    _notice(
        r"WDDM:N/A|GPU Memory Usage[^\n]*N/A",
        text("Harmless: under Windows' WDDM the driver does not know the memory of single processes"),
        text("Windows manages the memory of the card there, also for WSL; nvidia-smi and tools on it show N/A. The card works."),
        text("Nothing needs to be done. The Task Manager shows it (Details, column Dedicated GPU memory)."),
        ("unknown-message", "nvml-query"),
    ),
    Situation(
        "harmless",
        (r"nvidia-fabricmanager(?:\.service)?[^\n]*(?:fail|exited)|Job for nvidia-fabricmanager", r"GeForce|\bRTX\b|\bQuadro\b|Tesla T4|\bL4\b|\bL40S?\b"),
        text("Harmless: Fabric Manager ends on this machine, because it serves cards on NVSwitch boards only"),
        text("Only HGX and DGX systems have NVSwitches. CUDA on other cards does not need the service."),
        (text("sudo systemctl disable --now nvidia-fabricmanager   # or remove its package; nothing else needs to be done"),),
        ("unknown-message", "fabric", "persistence"),
        unless=rf"{_REAL}|\bHGX\b|\bDGX\b|SXM|NVSwitch\b[^\n]*found",
        severity="note",
        blocks=False,
        while_working=True,
    ),
)  # fmt: skip
