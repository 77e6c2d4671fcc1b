"""Rules about asking and managing the driver: NVML from Python, settings that nvidia-smi refuses, licences of vGPU."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["ManagementRefused", "NvmlQuery", "VirtualGpuLicense"]


class NvmlQuery(CauseRule):
    """A monitoring program cannot ask the driver: NVML's Python package and the driver do not go together.

    **Why it matters.** gpustat, nvitop, wandb and training programs read the cards through NVML. Another package called
    pynvml, or a driver that is older than the package, makes the question fail. Computing is not affected.

    **What to do.** Install one NVML package (`nvidia-ml-py`) of a version that fits the driver.

    **Sources.** nvidia-ml-py, release notes; NVML API, return values; wookayin/gpustat, README.
    """

    code = "nvml-query"
    severity = "error"
    title = text("A program cannot read the cards through NVML")
    causes = (
        Cause(
            r"NVMLError_LibRmVersionMismatch|RM has detected an NVML/RM version mismatch",
            text("The driver was updated without a reboot: NVML and the kernel module have different versions"),
            text("The library belongs to the new driver, the loaded module to the old one."),
            (text("sudo reboot"),),
        ),
        Cause(
            r"retrieving[^\n]*: Function Not Found|NVMLError_FunctionNotFound|NVML_ERROR_FUNCTION_NOT_FOUND|nvml\w*[^\n]*(?:Function Not Found|undefined symbol: nvml)|symbol lookup error[^\n]*nvml|Could not load NVML symbol",
            text("The NVML package is newer than the driver: it asks for a function that the driver does not have"),
            text("Newer packages use functions such as …_v3, which older drivers lack."),
            (
                text(
                    "pip install 'nvidia-ml-py<12'   # for drivers before R530; 'nvidia-ml-py==11.450.51' before R510"
                ),
                text("Or update the driver, as far as the card allows."),
            ),
        ),
        Cause(
            r"nvmlDeviceGet\w+[\s\S]{0,300}'(?:str|bytes)' object has no attribute '(?:decode|encode)'|'(?:str|bytes)' object has no attribute '(?:decode|encode)'[\s\S]{0,300}(?:nvml|gpustat)|module 'pynvml' has no attribute|cannot import name '\w*nvml\w*' from 'pynvml'",
            text("Two packages named pynvml are mixed"),
            text("The packages pynvml, nvidia-ml-py3 and nvidia-ml-py contain the same module in different versions."),
            (text("pip uninstall -y pynvml nvidia-ml-py3 nvidia-ml-py; pip install nvidia-ml-py"),),
        ),
        Cause(
            r"Error on querying NVIDIA devices|NVMLError_(?:Unknown|Uninitialized|InvalidArgument|NotFound)\b|pynvml\.\w*NVMLError\b",
            text("NVML does not answer"),
            text(
                "The driver is not loaded, was updated without a reboot, a card has dropped out, or a container has lost its devices."
            ),
            (
                text("nvidia-smi   # its message names the reason; inside a container also on the host"),
                text("After a driver update: reboot. In a container that worked before: restart the container."),
            ),
        ),
    )


class ManagementRefused(CauseRule):
    """nvidia-smi refuses to change a setting or to reset a card.

    **Why it matters.** Resets, persistence, compute modes and power limits need administrator's rights, an idle card, and a
    card that has the setting. Computing is not affected.

    **What to do.** Run it as root on the host, without programs (displays, monitoring) on the card.

    **Sources.** nvidia-smi(1), "GPU reset" and "Device modification options".
    """

    code = "smi-refused"
    severity = "warning"
    title = text("nvidia-smi refuses to change the card")
    causes = (
        Cause(
            r"could not be reset[\s\S]{0,200}In use by another client|GPU Reset couldn't run|(?:is the primary GPU|in use by one or more processes)",
            text("The card cannot be reset while something uses it"),
            text(
                "Programs, the display, nvidia-persistenced, DCGM or monitoring hold the card; cards with NVLink are reset together."
            ),
            (
                text(
                    "sudo fuser -v /dev/nvidia*   # end these programs, by their numbers; sudo systemctl stop nvidia-persistenced nvidia-dcgm"
                ),
                text("sudo nvidia-smi --gpu-reset -i N; a card with a display cannot be reset: reboot."),
            ),
        ),
        Cause(
            r"Unable to (?:set|create|enable|disable|change|reset)[^\n]*(?:GPU|MIG|persistence|compute mode)[^\n]*Insufficient Permissions|Insufficient Permissions[^\n]*(?:persistence|power|clock|MIG)",
            text("Only root may change this setting"),
            text("In a container also the host's root is needed."),
            (text("sudo nvidia-smi …   # on the host"),),
        ),
        Cause(
            r"(?:Changing|Setting) (?:power management limit|applications? clocks|GPU clocks|persistence mode|compute mode)[^\n]*not supported|is not a valid power (?:management )?limit|Power management is not supported",
            text("This card does not have this setting"),
            text(
                "Many laptop and consumer cards have fixed power limits and clocks; limits outside the card's range are refused."
            ),
            (text("nvidia-smi -q -d POWER,CLOCK,SUPPORTED_CLOCKS   # shows what this card allows"),),
        ),
    )


class VirtualGpuLicense(CauseRule):
    """A virtual GPU has no licence, or its guest driver does not fit the host's.

    **Why it matters.** NVIDIA vGPU slows down and then stops without a licence. The guest needs the driver of the vGPU
    software (GRID) of the same release as the host, not the driver for real cards.

    **What to do.** Install the guest driver of the host's release, and a token of the licence server.

    **Sources.** NVIDIA Virtual GPU Software, "Client licensing" and "Release notes".
    """

    code = "vgpu"
    severity = "error"
    title = text("The virtual GPU has no licence or the wrong driver")
    causes = (
        Cause(
            r"(?:vGPU|guest)[^\n]*(?:driver|version)[^\n]*(?:not compatible|incompatible|mismatch|not supported)|guest driver is incompatible",
            text("The guest's vGPU driver does not fit the host's"),
            text(
                "Guest and host need drivers of the same vGPU release; the driver for real cards does not work in the guest."
            ),
            (
                text(
                    "Install the guest driver (GRID) of the host's vGPU release: NVIDIA Licensing Portal, or the cloud provider's page."
                ),
            ),
        ),
        Cause(
            r"nvidia-gridd[^\n]*(?:fail|error|unlicensed|Unable|invalid)|License Status\s*:\s*Unlicensed|Failed to (?:acquire|renew) license|vGPU[^\n]*unlicensed|GRID[^\n]*license[^\n]*(?:expired|not |fail)",
            text("The virtual GPU has no licence, so it is slowed down"),
            text("Without a licence CUDA works for some minutes, then slowly or not at all."),
            (
                text("Copy the client token to /etc/nvidia/ClientConfigToken; sudo systemctl restart nvidia-gridd"),
                text(
                    "nvidia-smi -q | grep -A2 -i license   # must say Licensed; the time and the way to the server must be right"
                ),
            ),
        ),
    )
