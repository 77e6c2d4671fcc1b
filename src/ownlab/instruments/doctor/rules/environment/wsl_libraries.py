"""The rule about WSL's own libcuda, which programs do not find, or find too late."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import QUOTES_SHOWN, Cause, CauseRule, MessageRule, speaks_of_wsl
from ownlab.text import text

__all__ = ["WslLibraries", "WslNoModule"]

_REMOVE = text(
    "Remove a Linux driver from inside WSL, never install one there: sudo apt-get purge '*nvidia-driver*' 'libnvidia-*' libcuda1; then in PowerShell: wsl --shutdown"
)


class WslLibraries(CauseRule):
    """In WSL a program does not find the driver's libraries in /usr/lib/wsl/lib, or finds a Linux driver's first.

    **Why it matters.** The Windows driver puts libcuda.so.1 and libnvidia-ml.so.1 into /usr/lib/wsl/lib. Programs that search
    elsewhere (numba, ollama, conda) find none, or those of a Linux driver that cannot work in WSL.

    **What to do.** Put /usr/lib/wsl/lib first on the loader's path, and remove Linux driver packages from WSL.

    **Sources.** NVIDIA, CUDA on WSL user guide; cuda-python#17; cuml#5624, #6218; ollama#1898.
    """

    code = "wsl-libraries"
    severity = "error"
    title = text("The program does not find the driver's libraries")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"Unable to find cuda lib under the names|libcuda\.so\S*: file too short|libcudnn\S*[^\n]*libcuda\.so: cannot open|Failed to dlopen libcuda\.so|nvml (?:vram )?init failure: 9|Failed to (?:load|dlopen) (?:lib)?nvcuda|libdxcore\.so|dxgk?io_[^\n]*|/dev/dxg\b[^\n]*(?:No such|fail)",
            text("The program does not find the driver's libcuda; in WSL it is in /usr/lib/wsl/lib"),
            text("The loader finds no libcuda, or in WSL the one of a Linux driver, which cannot work there."),
            (
                text(
                    "WSL: export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH   # numba: export NUMBA_CUDA_DRIVER=/usr/lib/wsl/lib/libcuda.so.1"
                ),
                _REMOVE,
                text(
                    "Linux itself: ldconfig -p | grep libcuda; if only libcuda.so.1 is there: sudo ln -s libcuda.so.1 FOLDER/libcuda.so; sudo ldconfig"
                ),
            ),
        ),
        Cause(
            r"0x80370102|0x80370114|Wsl/(?:Service|Install)\S*/\S+|WslRegisterDistribution failed",
            text("WSL itself does not start"),
            text("Virtualisation is off in the firmware, or Windows' parts for WSL are missing or old."),
            (
                text(
                    "In PowerShell as administrator: wsl --install --no-distribution; wsl --update; then restart Windows"
                ),
                text(
                    "Turn on virtualisation (VT-x, SVM) in the firmware, and the feature Virtual Machine Platform in Windows."
                ),
            ),
        ),
        Cause(
            r"GPU access blocked by the operating system|Failed to initialize NVML: N/A|/usr/lib/wsl/lib/nvidia-smi[\s\S]{0,80}Segmentation|Segmentation fault[\s\S]{0,80}/usr/lib/wsl/lib/nvidia-smi",
            text(
                "Windows does not let WSL use the card: driver, Windows or WSL is too old, or was updated without a restart"
            ),
            text(
                "The Windows side refuses access, or its driver and the libraries here have different versions. If it works in WSL and fails in a container, the toolkit does not open the device (no-cgroups = true). In a Hyper-V guest with GPU partitioning, files of the Windows driver are missing."
            ),
            (
                text(
                    "In PowerShell: wsl --update; wsl --shutdown; restart Windows; install the newest driver: https://www.nvidia.com/drivers"
                ),
                text(
                    "In a container only: no-cgroups = false in /etc/nvidia-container-runtime/config.toml; sudo systemctl restart docker"
                ),
                text(
                    "Hyper-V guest: copy the complete driver folder and C:\\Program Files\\WSL\\lib of Windows into the guest."
                ),
                text(
                    "Start WSL as the logged-in user, not as a service or over a remote session without rights on the GPU."
                ),
            ),
        ),
        Cause(
            r"(?:CudaSupportError|Error at driver init)[^\n]*(?:CUDA_ERROR_NO_DEVICE|NO_DEVICE|\(100\))|Call to cuInit results in CUDA_ERROR_NO_DEVICE",
            text(
                "CUDA finds no card: it is hidden from this process, or in WSL another libcuda than /usr/lib/wsl/lib's is loaded"
            ),
            text(
                "In WSL nvidia-smi works with the Windows driver, while this program loads a Linux driver's libcuda. Outside WSL: CUDA_VISIBLE_DEVICES hides the cards (-1, or a number too high), a container has none, or there is no driver."
            ),
            (
                text(
                    "WSL: export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH NUMBA_CUDA_DRIVER=/usr/lib/wsl/lib/libcuda.so.1"
                ),
                _REMOVE,
                text("Outside WSL: nvidia-smi; echo $CUDA_VISIBLE_DEVICES; containers need --gpus all."),
            ),
        ),
    )


class WslNoModule(MessageRule):
    """A kernel module of NVIDIA's is built or loaded in WSL, where there is none.

    **Why it matters.** WSL uses the driver of Windows, through /dev/dxg. Its kernel has no headers to build against, and no
    NVIDIA module; a Linux driver that is installed there hides the libraries that Windows provides.

    **What to do.** Install the driver on Windows, and nothing of it in WSL; of CUDA only the toolkit (cuda-toolkit-X-Y).

    **Sources.** NVIDIA, CUDA on WSL user guide.
    """

    code = "wsl-no-module"
    severity = "error"
    title = text("WSL needs no NVIDIA kernel module: the driver belongs on Windows")
    blocks = True
    patterns = (
        r"Module nvidia\S* not found|kernel source tree|kernel headers|target kernel version|modprobe: (?:ERROR|FATAL)[^\n]*nvidia|nvidia-installer|linux-headers-\S*microsoft|dkms[^\n]*(?:nvidia|microsoft)|nvidia\S*[^\n]*post-installation script",
    )

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding where the text is about WSL and about a kernel module."""
        quotes = self.quotes(case) if speaks_of_wsl(case) else ()
        if quotes:
            yield self.finding(
                evidence=quotes[:QUOTES_SHOWN],
                meaning=text("In WSL the card is reached through the driver of Windows. No module is built or loaded."),
                fix=(
                    text(
                        "On Windows install the newest driver (https://www.nvidia.com/drivers); in PowerShell: wsl --update; wsl --shutdown"
                    ),
                    _REMOVE,
                    text(
                        "Toolkit only: sudo apt-get install -y cuda-toolkit-12-6 from NVIDIA's repository for wsl-ubuntu, not cuda or cuda-drivers; then /usr/lib/wsl/lib/nvidia-smi must work."
                    ),
                ),
            )
