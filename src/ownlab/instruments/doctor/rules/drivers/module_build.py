"""Rules about kernel modules as distributions build, package and load them, and about the installers of drivers."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["DriverInstallerFailed", "ModuleBuildFailed", "ModuleLoadFailed"]

_HEADERS = (
    text("Debian, Ubuntu: sudo apt-get install -y linux-headers-$(uname -r)"),
    text("Fedora, RHEL: sudo dnf install -y kernel-devel-$(uname -r)"),
    text("Arch: sudo pacman -S linux-headers   # the headers of the installed kernel (linux-lts-headers, …)"),
    text("openSUSE: sudo zypper install -y kernel-default-devel"),
    text("Then build again: sudo dkms autoinstall   # Fedora: sudo akmods --force && sudo reboot"),
    text("sudo reboot"),
)
_REBUILD = (
    text("See what was built: dkms status; modinfo nvidia | grep -E '^(filename|version|vermagic)'"),
    text(
        "Build all modules again: sudo dkms remove nvidia/VERSION --all; sudo dkms install nvidia/VERSION; then reboot"
    ),
)


class ModuleBuildFailed(CauseRule):
    """A kernel module of the driver could not be built for this kernel (DKMS, akmods, the installer).

    **Why it matters.** A driver from packages compiles its module for each kernel. Without the kernel's headers, with
    another compiler, or on a kernel that is newer than the driver release knows, nothing is built, and after the next boot
    there is no driver.

    **What to do.** Install the headers of the running kernel; else take a driver release that knows this kernel, or boot the
    previous kernel until there is one. The log that DKMS names shows the first error.

    **Sources.** dkms(8); Fedora and RPM Fusion, "Howto/NVIDIA"; NVIDIA driver README, "Installing the kernel module".
    """

    code = "module-build"
    severity = "error"
    title = text("The driver's kernel module could not be built")
    blocks = True
    while_broken = True
    not_in_wsl = True
    causes = (
        Cause(
            r"(?<!\S)\S+ is needed by (?:\S*nvidia|\S*kmod|\S*dkms)",
            text("A package that is needed to build the driver's module is missing"),
            text("The message names it, for example gcc-c++, elfutils-libelf-devel or kernel-devel."),
            (
                text("Fedora, RHEL: sudo dnf install -y NAME   # the name in the message"),
                text("Then build again: sudo akmods --force; sudo reboot"),
            ),
        ),
        Cause(
            r"kernel headers for kernel \S+ cannot be found|Unable to determine the target kernel version|Could not resolve Linux kernel version|Could not install kernel headers|kernel source for this kernel does not seem to be installed"
            r"|unable to find the kernel source tree|could not find files needed to compile modules"
            r"|(?:unable to find a match|no match for argument|filtered out by exclude filtering).*kernel-(?:headers|devel)"
            r"|unable to locate package linux-headers|missing (?:kernel )?headers? for target kernel"
            r"|Missing \S+ kernel (?:modules tree|headers) for module|linux-headers-\S+ (?:is not installed|but it is not installable)|kernel headers .{0,40}not (?:found|installed)",
            text("The headers of the running kernel are missing, so the driver's module cannot be built"),
            text(
                "DKMS compiles the module against the headers of exactly this kernel. They are not installed, or the package"
                " manager holds kernel packages back."
            ),
            (
                text(
                    "If kernel packages are excluded or held (dnf exclude=, apt-mark hold): lift that, and update the kernel."
                ),
                *_HEADERS,
            ),
        ),
        Cause(
            r"compiler version check failed|gcc-version-check failed|compiler used to compile the kernel \(gcc|kernel was built (?:by|with) gcc.*(?:but|differs)|cc version check failed"
            r"|the compiler used to compile the kernel .*does not exactly match|unrecognized command.line option.*(?:-f|-m)"
            r"|GCC used for (?:the )?compiling the kernel[^\n]*is different|different from the current GCC version"
            r"|unable to find the development tool `?(?:cc|make|gcc)|gcc: command not found|make: command not found",
            text("The compiler does not match the kernel, so the driver's module cannot be built"),
            text("A kernel module must be compiled with the compiler (major version) that built the kernel."),
            (
                text("Read which compiler built the kernel: cat /proc/version"),
                text(
                    "Install that gcc and make (Debian, Ubuntu: sudo apt-get install -y build-essential gcc-N), then: sudo dkms autoinstall"
                ),
            ),
        ),
        Cause(
            r"gpl-incompatible module|uses GPL-only symbol",
            text("This driver release uses a function that this kernel no longer gives to proprietary modules"),
            text(
                "The kernel is newer than this driver release, or was built with a debugging option that changes the function."
            ),
            (
                text("Install a newer release of the driver, or its open kernel modules (Turing and newer cards)."),
                text("Until then boot the previous kernel, or the distribution's standard kernel."),
            ),
        ),
        Cause(
            r"(?:amdgpu|rock)-?\S* DKMS|dkms/amdgpu|amdgpu-dkms.*(?:fail|error)|rock-dkms.*(?:fail|error)",
            text("AMD's kernel module does not build on this kernel"),
            text(
                "amdgpu-dkms of each ROCm release supports certain kernels; this kernel is newer (or a mainline one)."
            ),
            (
                text(
                    "Boot a kernel that this ROCm release supports (the distribution's LTS kernel), or install a newer ROCm."
                ),
                text(
                    "Recent kernels have an amdgpu driver of their own: sudo apt-get remove amdgpu-dkms, and use ROCm without it."
                ),
            ),
        ),
        Cause(
            r"Leaving directory '/usr/(?:src|lib/modules)/[^\n]*[\s\S]{0,300}\*\*\* [^\n]*Error \d|bad return status for module build on kernel|CONFTEST: \S+[^\n]*(?:\n[^\n]*){0,40}\*\*\* |Missing the module source directory|error! build of \S+\.ko failed|dkms(?:\.conf)?[^\n]*(?:build|make)[^\n]*fail"
            r"|failed to run `?/usr/sbin/dkms|performing the step: .?Building kernel modules|module build .*failed"
            r"|conftest\S*.*error|nv\S*\.c:\d+:\d+: error:|(?:akmods?|kmod).*(?:build|compil)\S* .*failed|nvidia-kmod.*failed|failed to load BTF from vmlinux"
            r"|building and installing nvidia-kmod.*fail|consult (?:the )?\S*make\.log for more information|Kernel preparation unnecessary.*fail",
            text("The driver's kernel module does not build on this kernel"),
            text("This driver release does not know this kernel: the kernel is newer than the driver."),
            (
                text(
                    "Read the first error: less /var/lib/dkms/nvidia/*/build/make.log   # Fedora: less /var/cache/akmods/nvidia/*.failed.log"
                ),
                text(
                    "Install a newer release of the driver's branch for this card, or boot the previous kernel until there is one."
                ),
                text("Check that the headers match the kernel: uname -r; ls /lib/modules/$(uname -r)/build"),
            ),
        ),
    )


class ModuleLoadFailed(CauseRule):
    """The driver's kernel module exists, but the kernel refuses to load it; or there is none for this kernel.

    **Why it matters.** Without the module no program reaches the card. A module belongs to exactly one kernel, and nvidia,
    nvidia_modeset and nvidia_uvm must have the same version.

    **What to do.** Build the modules again for the running kernel, remove stale ones, and load what they depend on.

    **Sources.** modprobe(8); NVIDIA driver README; Arch Wiki, "NVIDIA"; Debian Wiki, "NvidiaGraphicsDrivers".
    """

    code = "module-load"
    severity = "error"
    title = text("The driver's kernel module cannot be loaded")
    blocks = True
    while_broken = True
    not_in_wsl = True
    causes = (
        Cause(
            r"(?:nv_peer_mem|nvidia[_-]peermem)[^\n]*(?:Unknown symbol|Invalid argument)",
            text("The module for RDMA finds no InfiniBand driver with peer memory"),
            text(
                "nvidia_peermem (nv_peer_mem) needs the InfiniBand driver of NVIDIA (MLNX_OFED, DOCA) built for the running kernel; the kernel's own lacks these functions."
            ),
            (
                text(
                    "Install MLNX_OFED (or DOCA) again for this kernel, then the NVIDIA driver (or: sudo dkms autoinstall), and reboot; newer kernels can use dma-buf instead"
                ),
            ),
        ),
        Cause(
            r"(?:amdgpu|i915|xe|radeon): Unknown symbol",
            text("The graphics module needs another kernel module that is not installed"),
            text("Cloud kernels leave out modules that desktops have; the package with the extra modules is missing."),
            (
                text("Ubuntu: sudo apt-get install -y linux-modules-extra-$(uname -r)"),
                text("Fedora, RHEL: sudo dnf install -y kernel-modules-extra"),
                text("sudo depmod -a; sudo modprobe amdgpu   # the module in the message"),
            ),
        ),
        Cause(
            r"Unknown symbol ipmi_",
            text("The module nvidia needs the IPMI modules, which are not loaded"),
            text(
                "This nvidia module was built with IPMI support; ipmi_devintf and ipmi_msghandler must be loaded before it."
            ),
            (
                text("sudo modprobe ipmi_devintf && sudo modprobe nvidia"),
                text("At every boot: echo ipmi_devintf | sudo tee /etc/modules-load.d/ipmi.conf"),
            ),
        ),
        Cause(
            r"prime-select query\s+intel|by name='off'|could not insert 'off'|nvidia-prime[^\n]*intel|PRIME profile: intel",
            text("The laptop is set to its Intel graphics, and the NVIDIA card is off"),
            text("prime-select intel keeps the NVIDIA module from loading."),
            (text("sudo prime-select on-demand   # or nvidia; then log out and in, or reboot"),),
        ),
        Cause(
            r"nvidia\S*: exports duplicate symbol|nvidia-?\w*: version mismatch: nvidia\.ko|nvidia[-_]modeset.*version mismatch|nvidia-drm.*version mismatch",
            text("The driver's kernel modules have different versions"),
            text(
                "A module of an older release is still installed beside the new one: DKMS did not rebuild all of them."
            ),
            _REBUILD,
        ),
        Cause(
            r"Unknown symbol in module|nvidia\S*: Unknown symbol|disagrees about version of symbol|version magic '[^']*' should be"
            r"|could not insert '?nvidia\S* (?:invalid module format|exec format error)|nvidia\S*: Invalid module format"
            r"|(?:modprobe|insmod)[^\n]*nvidia[^\n]*Exec format error|insmod: ERROR: could not insert module \S*nvidia\S*: Invalid",
            text("The driver's module was built for another kernel"),
            text("The module on disk does not belong to the running kernel, or is left over from another driver."),
            (text("Compare: uname -r; modinfo -F vermagic nvidia"), *_REBUILD),
        ),
        Cause(
            r"modinfo: ERROR: Module nvidia\S* not found|Module nvidia\S* not found in directory|FATAL: Module nvidia\S* not found|module not found: [`']?nvidia|Failed to find module '?nvidia"
            r"|Could not find module by name='?nvidia|modprobe: ERROR:.*nvidia.*not found",
            text("There is no NVIDIA module for the running kernel"),
            text(
                "The kernel was updated, and the module was not built for it (or the kernel's package was replaced before a reboot)."
            ),
            (
                text(
                    "Reboot once if the kernel was updated since the last boot; else boot the previous kernel until the module exists."
                ),
                *_HEADERS,
            ),
        ),
        Cause(
            r"could not insert '?nvidia\S* (?:no such device)|nvidia.*: No such device|insmod.*nvidia.*No such device"
            r"|NVRM: No NVIDIA (?:graphics adapters?|GPUs?|devices) (?:found|probed)|NVRM: None of the NVIDIA (?:graphics adapters|devices) were (?:initialized|probed)|another driver was loaded and obtained ownership of the NVIDIA",
            text("The module nvidia finds no card that it can drive"),
            text(
                "The module loads only if it finds a card that it supports and that no other driver holds. Either another driver"
                " (nouveau, vfio-pci) holds the card, or this release does not support it, or the card is not on the bus."
            ),
            (
                text("See who holds the card: lspci -nnk -d 10de:"),
                text("Read the module's reason: sudo dmesg | grep -iE 'nvrm|nvidia|nouveau' | tail -20"),
            ),
        ),
        Cause(
            r"could not insert '?nvidia\S* operation not permitted|Lockdown: \S+: unsigned module loading|PKCS#7 signature not signed with a trusted key",
            text("The kernel refuses the NVIDIA module: Secure Boot (lockdown) accepts signed modules only"),
            text("With Secure Boot on, the kernel loads only modules whose signing key is enrolled."),
            (
                text(
                    "Enrol the key that signs the module: sudo mokutil --import /var/lib/shim-signed/mok/MOK.der; then reboot"
                ),
                text("Or turn Secure Boot off in the system firmware (UEFI)."),
            ),
        ),
        Cause(
            r"nvidia[/,] ?[\d.]+, (?P<built>\d\S+), \S+: installed[\s\S]{0,300}uname -r\s+(?!(?P=built))\d+\.\d+\.\d+\S*|nvidia(?:/|, )[\d.]+: added",
            text("The module was not built for the running kernel"),
            text("DKMS has built it for another kernel only, or has added its source without building it."),
            _HEADERS,
        ),
        Cause(
            r"Could not load UVM kernel module|/dev/nvidia-uvm\S*:? no such file|device \"?/dev/nvidia-uvm\"?: no such file|nvidia-uvm.*(?:not found|failed)|failed to load (?:module )?nvidia[-_]uvm",
            text("The module nvidia_uvm, which CUDA needs, is not loaded"),
            text("The driver works for displays, but its part for CUDA is not loaded."),
            (text("sudo nvidia-modprobe -u -c=0   # or: sudo modprobe nvidia_uvm"),),
        ),
        Cause(
            r"cannot access '?/dev/nvidia[^\n]*No such file|nvidia-modprobe: unable to create device node|(?<!gres\.conf file )/dev/nvidia(?:ctl|\d+)\"?:? No such file|nvidia driver is not loaded|NVIDIA kernel module.*(?:not loaded|failed to load|could not be loaded)"
            r"|failed to load (?:the )?(?:NVIDIA kernel module|module \"?nvidia)|Failed to query NVIDIA devices"
            r"|nvidia-persistenced (?:failed to initialize|.*failed)|open /proc/driver/nvidia\S*: no such file"
            r"|no such file or directory.*/dev/nvidiactl|/dev/nvidiactl.*no such file|modprobe: ERROR: could not insert '?nvidia"
            r"|Failed to start NVIDIA Persistence Daemon|Failed to initialize the NVIDIA kernel module",
            text("The NVIDIA kernel module is not loaded"),
            text("After an update of kernel or driver, the module was not built or not loaded."),
            (
                text("sudo modprobe nvidia; sudo dmesg | grep -iE 'nvrm|nvidia|nouveau' | tail"),
                text("Check that the module exists for this kernel: dkms status"),
                text(
                    "If not: remove all driver packages and install the driver again, then reboot (with Secure Boot on, enrol the key)."
                ),
            ),
        ),
        Cause(
            r"Cannot access secondary GPU|Could not load GPU driver|bumblebeed.*(?:failed|error)|bbswitch.*(?:failed|error|could not)"
            r"|Module bbswitch not found",
            text("Bumblebee cannot load the driver of the laptop's second GPU"),
            text(
                "Bumblebee does not know the names of this driver's kernel modules, or the module is missing for this kernel."
            ),
            (
                text(
                    "Set Driver=nvidia and KernelDriver=nvidia in /etc/bumblebee/bumblebee.conf (with the module's name: ls /lib/modules/$(uname -r)/updates/dkms)."
                ),
                text(
                    "Better: remove Bumblebee, and use the driver's own render offload: prime-select on-demand (Ubuntu), prime-run."
                ),
            ),
        ),
    )


class DriverInstallerFailed(CauseRule):
    """NVIDIA's installer (.run) stopped before it installed the driver.

    **Why it matters.** The installer refuses to run beside a graphical session, a loaded module, or a driver from packages.
    What it leaves behind mixes with packages, and versions no longer match.

    **What to do.** Prefer the distribution's packages. If it must be the installer: remove the packages first, stop the
    graphical session, and read /var/log/nvidia-installer.log.

    **Sources.** NVIDIA driver README, "Installing the driver"; NVIDIA, Driver Installation Guide, "Conflicting installation methods".
    """

    code = "driver-installer"
    severity = "error"
    title = text("NVIDIA's installer stopped")
    while_broken = True
    not_in_wsl = True
    causes = (
        Cause(
            r"appear to be running an X server|please exit X before installing",
            text("NVIDIA's installer does not run while a graphical session does"),
            text("The session holds the driver that is to be replaced."),
            (
                text(
                    "sudo systemctl isolate multi-user.target   # then run the installer there; afterwards: sudo reboot"
                ),
            ),
        ),
        Cause(
            r"kernel module 'nvidia\S*' (?:that )?appears to (?:already )?be (?:already )?loaded|nvidia\S* is in use|rmmod: ERROR: Module nvidia",
            text("The old NVIDIA module is still in use, so the installer cannot replace it"),
            text("A program (often the display, nvidia-persistenced or a container) holds the loaded module."),
            (
                text(
                    "sudo systemctl stop nvidia-persistenced; sudo systemctl isolate multi-user.target; sudo lsof /dev/nvidia*"
                ),
                text(
                    "sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia; then run the installer again; else reboot."
                ),
            ),
        ),
        Cause(
            r"nouveau kernel driver is currently in use",
            text("nouveau uses the card, so NVIDIA's installer stops"),
            text("nouveau must be kept from loading before the driver can be installed."),
            (
                text(
                    "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf"
                ),
                text("sudo update-initramfs -u   # Fedora, openSUSE: sudo dracut --force; then reboot and install"),
            ),
        ),
        Cause(
            r"distribution-provided pre-install script failed|alternate (?:driver )?installation (?:method|has been detected)"
            r"|installed (?:by|through) (?:a |your )?(?:package|distribution).*conflict",
            text("The driver is already installed from packages, which the installer must not overwrite"),
            text("Two installations of the driver overwrite each other's libraries at the next update."),
            (
                text(
                    "Use the packages (sudo ubuntu-drivers install); or purge them first: sudo apt-get purge '*nvidia*'"
                ),
            ),
        ),
        Cause(
            r"Unable to load the kernel module 'nvidia|Unable to load the '?nvidia[-\w]*'? kernel module|not signed by a key that is trusted by the kernel|Installation has failed\.\s+Please see the file .*nvidia-installer",
            text("NVIDIA's installer built the module, but the kernel did not load it"),
            text(
                "Usual reasons: Secure Boot rejects the module, nouveau holds the card, or the card is too old or too new for this release."
            ),
            (
                text(
                    "Read the reason: tail -50 /var/log/nvidia-installer.log; sudo dmesg | grep -iE 'nvrm|nouveau|key' | tail"
                ),
                text(
                    "Secure Boot: let the installer sign the module and enrol the key (mokutil --import), or turn Secure Boot off."
                ),
            ),
        ),
    )
