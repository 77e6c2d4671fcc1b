"""The rule about laptops with two graphics chips: tools that switch the NVIDIA card off and on."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["HybridGraphics"]


class HybridGraphics(CauseRule):
    """A tool for laptops with two graphics chips (Bumblebee, prime-select, bbswitch) keeps the NVIDIA card off.

    **Why it matters.** These tools unload the driver or cut the card's power. CUDA then finds no card, though the driver is
    installed.

    **What to do.** Use the driver's own on-demand mode, and remove Bumblebee and bbswitch: current drivers switch the card off
    by themselves.

    **Sources.** NVIDIA driver README, "PRIME render offload"; Arch Wiki, "NVIDIA Optimus"; Bumblebee-Project, FAQ.
    """

    code = "hybrid"
    severity = "error"
    title = text("A tool for hybrid graphics keeps the NVIDIA card off")
    while_broken = True
    causes = (
        Cause(
            r"permission to communicate with the Bumblebee daemon|Connection refused: '?/var/run/bumblebee|could not connect to Bumblebee daemon|bumblebee daemon (?:has not been|is not) (?:started|running)|bumblebeed not (?:started|running)",
            text("Bumblebee's service is not running, or this user may not use it"),
            text("optirun asks a service to start the card; that needs the service and the group bumblebee."),
            (
                text(
                    "sudo systemctl enable --now bumblebeed; sudo usermod -aG bumblebee $USER; then log out and in again"
                ),
                text(
                    "Better: remove Bumblebee, and use the driver's own render offload (prime-run PROGRAM). CUDA needs neither."
                ),
            ),
        ),
        Cause(
            r"bbswitch[^\n]*(?:No such device|No suitable _DSM|not found|No discrete VGA)|bumblebeed[^\n]*Module '?(?:nvidia|bbswitch)\S* is not found",
            text("Bumblebee's parts do not find the card or the driver's module"),
            text("bbswitch needs a laptop with the old way of switching; Bumblebee needs the module's exact name."),
            (
                text("Remove bbswitch and Bumblebee: current drivers switch the card off by themselves."),
                text(
                    "To keep Bumblebee: KernelDriver= in /etc/bumblebee/bumblebee.conf must be the module's name (ls /lib/modules/$(uname -r)/updates/dkms)."
                ),
            ),
        ),
        Cause(
            r"prime-select[^\n]*(?:error|not (?:found|available|supported)|cannot|fail)|nvidia-prime[^\n]*(?:error|fail)|prime-run[^\n]*(?:not found|error|fail)|latest GPU setup attempt failed|optimus-manager[^\n]*(?:error|fail)|envycontrol[^\n]*(?:error|fail)|supergfx\w*[^\n]*(?:error|fail|not)",
            text("The tool that switches between the graphics chips failed"),
            text(
                "The driver is not installed for it, a program holds the loaded module so that it cannot be switched, or two such tools undo each other."
            ),
            (
                text(
                    "sudo fuser -v /dev/nvidia*; lsmod | grep nvidia   # end what holds the module (monitoring, containers, nvidia-persistenced)"
                ),
                text("Keep one tool only. Ubuntu: sudo prime-select on-demand; sudo reboot"),
                text(
                    "Then: nvidia-smi. If it fails, the driver itself is the problem: sudo dmesg | grep -iE 'nvrm|nvidia|nouveau' | tail"
                ),
            ),
        ),
        Cause(
            r"nvidia-settings[^\n]*Unable to load info from any available system|ERROR: Unable to load info from any available system",
            text("nvidia-settings finds no NVIDIA display: the card is off, or the driver does not run the display"),
            text("On laptops the Intel or AMD chip drives the display. CUDA does not need nvidia-settings."),
            (
                text("nvidia-smi   # if it works, CUDA works"),
                text("Ubuntu: sudo prime-select on-demand   # or nvidia; then log out and in"),
            ),
        ),
    )
