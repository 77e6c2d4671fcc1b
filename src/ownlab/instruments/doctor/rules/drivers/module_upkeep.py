"""Rules about what surrounds the driver's kernel module: DKMS's tree, modprobe's files, services, and crashes in the kernel."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["KernelCrash", "ModuleUpkeep"]

_HEADERS = (
    text("Debian, Ubuntu: sudo apt-get install --reinstall linux-headers-$(uname -r)"),
    text("Fedora, RHEL: sudo dnf reinstall -y kernel-devel-$(uname -r)"),
    text("Arch: sudo pacman -S linux-headers   # the headers of the installed kernel (linux-lts-headers, …)"),
    text("Then build again: sudo dkms autoinstall   # Fedora: sudo akmods --force; then reboot"),
)


class ModuleUpkeep(CauseRule):
    """DKMS, modprobe or a service of the driver stops because of its own files: leftovers, wrong lines, incomplete headers.

    **Why it matters.** The driver itself may be sound. DKMS keeps a tree of sources and builds in /var/lib/dkms, which half
    removed packages leave behind; modprobe reads every file in /etc/modprobe.d, and one wrong line is enough.

    **What to do.** Remove what is left over, mend the file that the message names, build the module again.

    **Sources.** dkms(8); modprobe.d(5); kernel documentation, "Building External Modules"; NVIDIA driver README.
    """

    code = "module-upkeep"
    severity = "error"
    title = text("The files around the driver's kernel module are in disorder")
    not_in_wsl = True
    causes = (
        Cause(
            r"Could not locate dkms\.conf|dkms\.conf(?: for module \S+)? does not exist|DKMS tree already contains|Missing the module source directory[^\n]*nvidia|The following would cause module name conflict|dkms\b[^\n]*(?:is broken|already (?:added|installed))",
            text("DKMS's tree has leftovers of another version of the driver"),
            text(
                "A removed or half-installed driver is still registered in /var/lib/dkms, while its sources are gone, or it is to be added twice."
            ),
            (
                text("dkms status   # lists what is registered"),
                text(
                    "sudo dkms remove nvidia/VERSION --all; if that fails: sudo rm -rf /var/lib/dkms/nvidia/VERSION   # the version in the message"
                ),
                text(
                    "Then install the driver's DKMS package again (sudo apt-get install --reinstall nvidia-dkms-BRANCH), or: sudo dkms install nvidia/VERSION"
                ),
            ),
        ),
        Cause(
            r"ignoring bad line starting with|modprobe\.d/\S+ line \d+",
            text("A line in /etc/modprobe.d is wrong, and is ignored"),
            text("modprobe does not understand the line, so the option or blacklist in it has no effect."),
            (
                text(
                    "Mend the line that the message names: each line is “blacklist NAME”, “options NAME parameter=value” or “install NAME command”."
                ),
                text("sudo update-initramfs -u   # Fedora, openSUSE: sudo dracut --force; Arch: sudo mkinitcpio -P; then reboot"),
            ),
        ),
        Cause(
            r"Kernel configuration is invalid|generated/autoconf\.h[^\n]*(?:missing|No such)|auto\.conf[^\n]*(?:missing|No such)|scripts/(?:basic/fixdep|mod/modpost|genksyms\S*)[^\n]*(?:not found|No such file)|No rule to make target '?(?:scripts|modules|arch)/?|asm/\S+\.h: No such file|(?:linux|generated)/\w+\.h: No such file or directory|Module\.symvers is missing|No such file or directory[^\n]*linux-headers",
            text("The kernel's headers are incomplete, so the driver's module cannot be built"),
            text(
                "The build folder of this kernel lacks generated files or tools: its headers package is half installed, is of another build, or the kernel's source was not prepared."
            ),
            _HEADERS,
        ),
        Cause(
            r"fatal error: drm/\S+\.h|drmP\.h|nvidia\S*/\S+\.[ch]:\d+:\d+: (?:fatal )?error|/(?:nvidia|nvidia-\d\S+)/\S+\.[ch]: error|error: 'struct \w+' has no member named|implicit declaration of function|incompatible pointer type|akmods[^\n]*(?:\.failed\.log|fail)|\.failed\.log|too (?:few|many) arguments to function '\w+'",
            text("The driver's sources do not compile: this kernel is newer than the driver release"),
            text("Functions in the kernel change; each driver release knows the kernels up to its own date."),
            (
                text("Install a newer release of the driver's branch for this card (its notes name the kernel it supports)."),
                text("Until there is one, boot the previous kernel, or the distribution's long-term kernel; keep it: sudo apt-mark hold linux-image-$(uname -r)"),
                text("Legacy branches (390, 340) are no longer adapted: use an older kernel series, or nouveau without CUDA."),
            ),
        ),
        Cause(
            r"\bgcc-\d+: (?:command )?not found|\bgcc-\d+: No such file|(?:cc|gcc)(?:-\d+)?: error: unrecognized(?![^\n]*-std)|plugin[^\n]*gcc[^\n]*(?:not found|cannot|incompatible)|make\[\d\]: gcc-\d+: No such file",
            text("The compiler that built the kernel is not installed, so the driver's module cannot be built"),
            text("A kernel module is compiled with the compiler of the kernel; DKMS calls it by its exact name."),
            (
                text("cat /proc/version   # names the compiler; then: sudo apt-get install -y gcc-N   # Fedora, Arch: update the system, so that kernel and gcc match"),
                text("sudo dkms autoinstall; sudo reboot"),
            ),
        ),
        Cause(
            r"depmod: ERROR: [^\n]*nvidia|depmod: WARNING: [^\n]*nvidia[^\n]*(?:needs unknown|disagrees)",
            text("The list of the kernel's modules is out of date"),
            text("depmod finds a module in the list that is not there, or one that belongs to another kernel."),
            (
                text("sudo dkms status; ls /lib/modules/$(uname -r)/updates/dkms /lib/modules/$(uname -r)/extra 2>/dev/null; sudo depmod -a; sudo dkms autoinstall"),
            ),
        ),
        Cause(
            r"nvidia-persistenced[^\n]*(?:Start request repeated|Failed with result|Main process exited)|nvidia-(?:smi|modprobe)[^\n]*service[^\n]*(?:failed|Failed)",
            text("A service of the driver does not start: usually because the kernel module is not loaded"),
            text("nvidia-persistenced opens the cards at boot. Without a loaded module, or without a card, it ends."),
            (
                text("nvidia-smi; sudo journalctl -b -u nvidia-persistenced | tail; sudo dmesg | grep -iE 'nvrm|nvidia|nouveau' | tail"),
                text("If nvidia-smi fails: see that first (is the module built? dkms status). If it works: sudo systemctl reset-failed nvidia-persistenced; sudo systemctl restart nvidia-persistenced"),
            ),
        ),
        Cause(
            r"nvidia-modprobe[^\n]*(?:setuid|permission denied|Operation not permitted)|nvidia-modprobe: (?:command )?not found",
            text("nvidia-modprobe, which creates the device files for users, does not work"),
            text("Programs of ordinary users call it to load the module and to make /dev/nvidia*. It must belong to root with the setuid bit."),
            (
                text("sudo chown root:root /usr/bin/nvidia-modprobe; sudo chmod u+s /usr/bin/nvidia-modprobe; or reinstall the package nvidia-modprobe"),
                text("Once: sudo nvidia-modprobe -u -c=0   # at every boot: sudo systemctl enable --now nvidia-persistenced"),
            ),
        ),
    )  # fmt: skip


class KernelCrash(CauseRule):
    """The kernel crashed or hung inside the driver.

    **Why it matters.** An oops names the module in which it happened. Memory that is damaged, a driver that does not fit the
    kernel, or a fault of the driver release cause it; the machine is unreliable until it is rebooted.

    **What to do.** Reboot; then another release of the driver, and a test of the machine's memory if it happens again.

    **Sources.** kernel documentation, "Bug hunting"; NVIDIA, "GPU debug guidelines".
    """

    code = "kernel-crash"
    severity = "error"
    title = text("The kernel crashed inside the graphics driver")
    causes = (
        Cause(
            r"(?:\bRIP\b|PC is at|\bpc :)[^\n]*\[?\b(?:nvidia\w*|nv\d+rm|_nv\d+rm|nouveau|amdgpu|i915|xe)\b|(?:BUG: |Oops|general protection fault|Kernel panic|kernel NULL pointer)[^\n]*(?:nvidia|_nv\d|nouveau|amdgpu)|(?:nvidia|nouveau|amdgpu)\w*[^\n]*(?:Oops|general protection fault|Kernel panic|NULL pointer dereference)|WARNING: CPU: \d+ PID: \d+ at [^\n]*(?:nvidia|nouveau|amdgpu)",
            text("The kernel crashed inside the graphics driver"),
            text(
                "A fault of this driver release, a kernel that it does not know, or damaged memory. What ran on the card is lost."
            ),
            (
                text("sudo reboot; then: sudo journalctl -k -b -1 | grep -iE 'nvrm|xid|oops|bug:' | tail   # what came before"),
                text("Install another release of the driver's branch (newer, or the one that worked), or boot the previous kernel; on Turing and newer cards try the other flavour of the kernel modules."),
                text("If it goes on: test the machine's memory (memtest86+), go without overclocking."),
            ),
        ),
    )  # fmt: skip
