"""Situations of kernel modules and drivers: the branch, the kernel, the flavour and the system decide which fix applies."""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import WINDOWS, WSL, Situation
from ownlab.text import text

__all__ = ["DRIVERS"]

_BUILD_FAILED = r"Bad return status for module build|\*\*\* [^\n]*Error \d|bad exit status|Failed to run `?/usr/sbin/dkms|implicit declaration|has no member named|incompatible pointer type|too (?:few|many) arguments to function|\.failed\.log"
_AMD_CARD = r"(?:VGA|Display|3D)[^\n]*(?:Advanced Micro Devices|AMD/ATI|Radeon)|GPU models?[^\n]*(?:AMD|Radeon)|^fact: card amd|^fact: pci 1002|^\s*Marketing Name: +[^\n]*Radeon|^\s*Name: +gfx\d|\b(?:AMD )?Radeon (?:RX|Pro|VII|R[579])\b"
_NVIDIA_CARD = r"NVIDIA (?:Corporation|GeForce|RTX|Tesla|A\d|H\d)|\bGeForce\b|\bRTX \d|^fact: (?:driver|card nvidia|pci 10de)|\+rocm"

DRIVERS: tuple[Situation, ...] = (
    Situation(
        "module-build",
        (r"(?:g\+\+|c\+\+|cc|gcc|make): (?:command )?not found", r"nvidia-(?:modeset|drm|uvm|open)|displayport|/var/lib/dkms|\bdkms\b|NVIDIA-Linux"),
        text("A compiler is missing, so the driver's module cannot be built"),
        text("The open kernel modules from R570 on need a C++ compiler beside gcc and make."),
        (
            text("Debian, Ubuntu: sudo apt-get install -y build-essential"),
            text("Fedora, RHEL: sudo dnf install -y gcc gcc-c++ make"),
            text("Arch: sudo pacman -S --needed base-devel"),
            text("Then build again: sudo dkms autoinstall; sudo reboot"),
        ),
        ("module-build", "triton-compiler", "module-upkeep", "extension-build"),
    ),
    Situation(
        "module-flavour",
        (r"\bRTX ?(?:PRO )?50\d0|\bRTX PRO \d{4} Blackwell|\b[GB]B?200\b", r"No devices (?:were )?found|RmInitAdapter failed", r"\(proprietary|proprietary kernel modules|nvidia-driver-\d{3}(?!-open)\b|NVIDIA UNIX x86_64 Kernel Module|^fact: flavour proprietary"),
        text("This Blackwell card needs the open kernel modules, and the proprietary ones are installed"),
        text("The proprietary modules do not start GeForce 50 and other Blackwell cards: nvidia-smi then finds no device."),
        (
            text("Install the open flavour of a driver from R570 on: Ubuntu: sudo apt-get install -y nvidia-driver-580-open; Arch: sudo pacman -S --needed nvidia-open-dkms; NVIDIA's installer: -M open; others: the package whose name contains open"),
            text("Remove the proprietary package, rebuild the boot image, reboot; cat /proc/driver/nvidia/version must say Open Kernel Module."),
        ),
        ("no-device", "module-flavour"),
        unless=r"Open Kernel Module",
    ),
    Situation(
        "module-rejected",
        (
            r"SecureBoot enabled|^fact: secure boot on|\bsecure ?boot\W{1,3}(?:is )?(?:enabled|on)\b",
            r"nvidia-fallback\.service|Falling back to nouveau|NVIDIA kernel module missing",
        ),
        text("Secure Boot is on, and the NVIDIA module was not loaded; the system falls back to nouveau"),
        text("The module was built, but its key is not enrolled, so the kernel rejects it; or akmods has not built it yet."),
        (
            text("sudo dmesg | grep -iE 'key|lockdown|nvidia' | tail   # “Key was rejected”, “unsigned module”: it is Secure Boot"),
            text("Fedora: sudo kmodgenca -a   (makes the key if there is none); sudo mokutil --import /etc/pki/akmods/certs/public_key.der; sudo reboot; Ubuntu, Debian: sudo mokutil --import /var/lib/shim-signed/mok/MOK.der; sudo reboot"),
            text("At the blue screen: Enroll MOK, the password that you chose. Or turn Secure Boot off in the firmware."),
            text("If modinfo nvidia finds no module: sudo akmods --force; wait until it ends; sudo reboot"),
        ),
        ("module-load", "no-smi", "nouveau", "module-upkeep"),
    ),
    Situation(
        "module-load",
        (r"nvidia-fallback\.service|NVIDIA kernel module missing|Falling back to nouveau",),
        text("The NVIDIA module was not loaded at boot, so the system falls back to nouveau"),
        text("The module was not built for this kernel yet (akmods needs some minutes after an update), or Secure Boot rejects it."),
        (
            text("modinfo -F version nvidia; mokutil --sb-state; sudo dmesg | grep -iE 'nvidia|key' | tail"),
            text("No module: sudo akmods --force, wait until it ends, sudo reboot. Secure Boot on: enrol the key (mokutil --import), or turn it off."),
        ),
        ("no-smi", "nouveau"),
    ),
    Situation(
        "module-build",
        (r"\bnvidia(?:[/-]|-legacy-|_)(?:390|367|361|340|304)(?:xx)?[./-]", _BUILD_FAILED),
        text("This legacy driver branch has ended, and does not build on this kernel"),
        text("NVIDIA does not adapt the branches 390, 340 and 304 to new kernels any more. There is no newer release of them."),
        (
            text("Does the card need this branch? lspci -nn -d 10de:   # GTX 600 and newer do not: R470 (Kepler), R580 (Maxwell to Volta), any newer one"),
            text("Fermi and older: a kernel that the branch still builds on, held back from updates (Arch: linux-lts; Ubuntu: the release's first kernel)."),
            text("Or a package with patches for new kernels: Arch: nvidia-390xx-dkms from the AUR; Fedora: akmod-nvidia-390xx from RPM Fusion; Debian: nvidia-legacy-390xx-driver of an older release."),
            text("Or the card without CUDA: nouveau."),
        ),
        ("module-build", "module-load", "module-upkeep", "driver-installer"),
    ),
    Situation(
        "module-build",
        (r"\bnvidia(?:[/-]|-legacy-|_)(?:470|418|430|435|440|450|455|460)(?:xx)?[./-]", _BUILD_FAILED),
        text("This old driver branch does not build on this kernel: the kernel is newer than the branch"),
        text("R470 is the last branch for Kepler cards and has ended; the others were replaced by newer branches for the same cards."),
        (
            text("lspci -nn -d 10de:   # the card: Kepler (GTX 600, 700, K40, K80) needs R470; Maxwell to Volta: R580; Turing and newer: any current branch"),
            text("Not Kepler: install that newer branch. Kepler: the last R470 (470.256.02), and a kernel that it builds on (a distribution's LTS kernel), or a package with patches (Arch: nvidia-470xx-dkms from the AUR; Fedora: akmod-nvidia-470xx)."),
            text("Until then boot the previous kernel."),
        ),
        ("module-build", "module-load", "module-upkeep", "driver-installer"),
        unless=r"cannot be found at|kernel headers|compiler|unrecognized command",
    ),
    Situation(
        "driver-firmware",
        (
            r"RmInitAdapter|GSP firmware RM|kgspInitRm",
            r"nvidia-(?:kernel-)?(?:source-)?open-515|nvidia-dkms-515-open|515\.\d+[^\n]*open|Open Kernel Module[^\n]*515\.|515\.(?:43|48|57)",
        ),
        text("The first release of the open kernel modules (R515) cannot start this card"),
        text("In R515 the open modules were meant for data-centre cards; GeForce and workstation cards had faults that later releases do not have."),
        (
            text("Install the proprietary modules of the same version: sudo apt-get install -y nvidia-dkms-515   # and remove nvidia-kernel-open-515 or nvidia-dkms-515-open"),
            text("Or a newer driver (R560 and newer drive GeForce cards from Turing on with open modules). Then reboot."),
        ),
        ("no-device", "driver-firmware"),
    ),
    Situation(
        "mismatch",
        (
            r"the version (?P<loaded>\d{3}\.\d+(?:\.\d+)?)\.?\s[\s\S]*^version: +(?P=loaded)\s*$|^version: +(?P<disk>\d{3}\.\d+(?:\.\d+)?)\s*$[\s\S]*kernel module has\s+(?:NVRM: )?\s*the version (?P=disk)\b",
            r"API mismatch",
        ),
        text("The driver was upgraded, but the module on disk is still the old one: a reboot alone does not help"),
        text("modinfo shows the same version as the loaded module. The new module was not built for this kernel, so each boot loads the old one beside new libraries."),
        (
            text("dkms status; ls /usr/src | grep nvidia   # which versions there are, and which is installed"),
            text("sudo dkms remove nvidia/OLD --all; sudo dkms install nvidia/NEW -k $(uname -r)   # an error: read its make.log, and install the kernel's headers"),
            text("Rebuild the boot image: sudo mkinitcpio -P   # Debian, Ubuntu: sudo update-initramfs -u; Fedora: sudo dracut --force"),
            text("sudo reboot; modinfo -F version nvidia   # must show the new version. Or go back to the former packages."),
        ),
        ("mismatch", "driver-firmware", "module-load"),
    ),
    Situation(
        "passthrough",
        (
            r"Kernel driver in use: vfio-pci|^fact: pci 10de \S+ driver=vfio-pci|NVRM: GPU [^\n]*already bound to vfio-pci",
            r"NVIDIA-SMI has failed|No devices were found|couldn't communicate|is_available\(\)\W*False|no CUDA-capable device",
        ),
        text("The card is reserved for virtual machines (vfio-pci), so the host's driver does not get it"),
        text("vfio-pci holds the card since boot. Programs on the host see no card; a guest that gets it does."),
        (
            text("If the host should use it: remove the card's numbers from vfio-pci (grep -rs vfio /etc/modprobe.d /etc/default/grub /etc/kernel), rebuild the boot image, reboot."),
            text("Until the next boot: echo BUS > /sys/bus/pci/drivers/vfio-pci/unbind; sudo modprobe nvidia   # BUS from lspci -D -d 10de:"),
        ),
        ("no-smi", "no-driver", "no-device", "no-visible-gpu"),
        unless=r"Kernel driver in use: nvidia\b|driver=nvidia\b",
    ),
    Situation(
        "rocm-build",
        (
            _AMD_CARD,
            r"Found no NVIDIA driver|CUDA driver version is insufficient|Torch not compiled with CUDA|No CUDA GPUs are available|is_available\(\)\W*\n?\W*False",
        ),
        text("The card is AMD's, but torch is the build for NVIDIA cards or the CPU"),
        text("A plain pip install brings the CUDA build, which finds no NVIDIA driver. No NVIDIA driver or CUDA toolkit helps; AMD cards need the ROCm build."),
        (
            text("rocminfo | grep gfx   # the chip: is it on ROCm's list?"),
            text("Linux, a supported card: pip install --force-reinstall torch torchvision --index-url https://download.pytorch.org/whl/rocm6.4; an image: one whose torch is +rocm (python -c 'import torch; print(torch.version.hip)')"),
            text("RX 6600 to 6750: export HSA_OVERRIDE_GFX_VERSION=10.3.0   # before the program starts, on Linux. RX 400 and 500: no current ROCm build. Windows: DirectML, where the program has it"),
            text("Graphics in Ryzen CPUs and old cards are mostly not supported: the CPU build (index …/whl/cpu), or Vulkan and DirectML where the program has them."),
        ),
        ("driver-old", "no-driver", "cpu-build", "torch-no-gpu", "no-visible-gpu", "container-no-gpu"),
        unless=_NVIDIA_CARD,
    ),
    Situation(
        "driver-old",
        (
            WSL,
            r"Could not find cuda drivers|Found no NVIDIA driver|CUDA driver version is insufficient|driver on your system is too old|failed call to cuInit",
            r"CUDA Version: *(?:9|1[01])\.\d|^fact: cuda (?:9|1[01])\.",
        ),
        text("The NVIDIA driver of Windows is too old for this build; WSL uses that driver"),
        text("The program was built for CUDA 12 or newer, and nvidia-smi shows that the driver supports CUDA 11 at most."),
        (
            text("On Windows, not in WSL, install a current NVIDIA driver: https://www.nvidia.com/drivers; then in PowerShell: wsl --shutdown"),
            text("Do not install a Linux driver inside WSL. For TensorFlow: python -m pip install -U 'tensorflow[and-cuda]'"),
        ),
        ("no-driver", "driver-old", "wsl-libraries", "no-visible-gpu"),
    ),
    Situation(
        "module-load",
        (r"\b(?:nvidia[_-]fs|gdrdrv|nvidia[_-]peermem|nv_peer_mem)\b[^\n]*(?:GPL-only|Unknown symbol nvidia_)",),
        text("A module that works with NVIDIA's (GPUDirect) does not load: this kernel does not let it use a proprietary module's functions"),
        text("Kernels from 5.9 on forbid modules that use GPL-only functions to use functions of a proprietary module, too. The card itself works."),
        (
            text("On Turing and newer cards: the open kernel modules of the same driver version (Ubuntu: nvidia-driver-BRANCH-open), then build the module again: sudo dkms autoinstall; sudo reboot"),
            text("Older cards: a release of the module (nvidia-fs, gdrcopy, MOFED) for this kernel, or an older kernel. cat /proc/driver/nvidia/version names the flavour."),
        ),
        ("module-load", "module-build"),
        blocks=False,
    ),
    Situation(
        "mismatch",
        (r"\bLXC\b|\bproxmox\b|\bpct (?:enter|exec|start)|-pve\b|\bincus\b|\blxd\b", r"Driver/library version mismatch"),
        text("The container's copy of the driver's libraries has another version than the host's kernel module"),
        text("A system container shares the host's kernel, and has libraries of its own. Both must be of exactly the same version."),
        (
            text("On the host: cat /sys/module/nvidia/version; in the container: ls /usr/lib/x86_64-linux-gnu/libcuda.so.*"),
            text("Install exactly the host's version in the container, without a kernel module: sh NVIDIA-Linux-x86_64-VERSION.run --no-kernel-module; after a driver update of the host reboot it, and do so again."),
        ),
        ("mismatch",),
    ),
    Situation(
        "driver-old",
        (
            r"^fact: build asks for CUDA (?P<asked>\S+), driver has \S+",
            r"available\W{0,4}(?:\(\))?\W*\n?\W*False|CUDA available: *(?:no|False)|No CUDA GPUs|CPU:0|not be used|driver on your system is too old|CUDA driver version is insufficient|unknown error|initialization error|no CUDA-capable",
        ),
        text("The package was built for a newer CUDA than the driver supports"),
        text("nvidia-smi shows, top right, the newest CUDA of the driver. A build for a newer major version (before CUDA 11: for any newer one) sees no card with it."),
        (
            text("The build for the driver's CUDA: pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cuXYZ   # cu126 runs on drivers with CUDA 12, cu118 on those with CUDA 11"),
            text("conda: the same version with an older toolkit (cudatoolkit=10.1, pytorch-cuda=11.8 …), as far as there is a build for it."),
            text("Or a newer driver, where it is yours and the card allows it (Maxwell, Pascal, Volta: R580 at most; Kepler: R470, CUDA 11.4); on a cluster ask its administrators."),
        ),
        ("driver-old", "torch-no-gpu", "device-request", "no-visible-gpu", "gpu-not-found", "uvm"),
        unless=r"\+cpu\b|^fact: framework torch\S* build=cpu",
        only_without_driver=True,
    ),
    Situation(
        "driver-old",
        (
            r"driver on your system is too old|CUDA driver version is insufficient|CUDA_ERROR_UNSUPPORTED_PTX|cudaErrorInsufficientDriver",
            r"google\.colab|(?<![\w.])/content/|\bcolab\b|/kaggle/|\bKaggle\b|^fact: platform (?:colab|kaggle|sagemaker)",
        ),
        text("The installed package is for a newer CUDA than the driver of this hosted notebook supports"),
        text("The provider manages the driver; it cannot be changed from a notebook. A package that was installed over the provided one is too new for it."),
        (
            text("!nvidia-smi   # top right: the newest CUDA that this driver supports"),
            text("Keep the packages that are there: restart with a fresh runtime (Runtime → Disconnect and delete runtime), and do not install torch again; or install the build for that CUDA: pip install torch --index-url https://download.pytorch.org/whl/cuXYZ"),
            text("numba, CuPy, JAX: packages for that CUDA (for example cuda-version=12.4, 'nvidia-cuda-nvcc-cu12<12.5')."),
        ),
        ("driver-old", "ptx-toolchain", "xla-tools", "no-driver"),
    ),
    Situation(
        "gpu-not-found",
        (
            r"tf\.__version__[^\n]{0,12}\n?[^\n]{0,60}\b2\.(?:1[1-9]|2\d)\b|tensorflow(?:[ -]gpu)?[ =:v\"'(]{1,12}(?:version[: ]*)?2\.(?:1[1-9]|2\d)\b|\bTF[ :]{1,3}2\.(?:1[1-9]|2\d)\b",
            WINDOWS + r"|\bOS: *win(?:dows)? ?1[01]\b|\bWindows 1[01]\b|\[MSC v\.\d{4} \d\d bit",
            r"Available: *\[\]|device_type='CPU'|^\s*\[\]\s*$|GPUs Available:? *0|GPU(?:s)? (?:will|can)? ?not be used|not (?:find|found|detect)\w*|False|no GPU",
        ),
        text("TensorFlow after 2.10 has no GPU support on native Windows: this release uses the CPU there"),
        text("Driver, CUDA and cuDNN are not the reason, and installing them again does not help."),
        (
            text("WSL 2: wsl --install; inside it: python -m pip install 'tensorflow[and-cuda]'; the driver stays the one of Windows"),
            text("Or on Windows itself: pip install 'tensorflow<2.11' with Python 3.7 to 3.10, CUDA 11.2 and cuDNN 8.1 (conda install -c conda-forge cudatoolkit=11.2 cudnn=8.1), 'numpy<2'"),
        ),
        ("gpu-not-found", "no-driver", "cpu-build", "library-missing"),
        unless=rf"{WSL}|^fact: family linux|device_type='GPU'",
        blocks=False,
        while_working=True,
    ),
    Situation(
        "module-rejected",
        (
            r"key was rejected by service|unavailable key is rejected|Required key not available",
            r"\bsecure ?boot\W{1,3}(?:is )?(?:off|disabled|not enabled)\b",
        ),
        text("The kernel accepts only modules that were built with it, and this one was not; Secure Boot is off and not the reason"),
        text("Kernels of some distributions (Talos, images, own builds) enforce signatures always. Their key exists for one build only, so the module must come from the same build."),
        (
            text("uname -r; modinfo nvidia | grep -E 'vermagic|signer|sig_key'   # both must belong to the same build of the kernel"),
            text("Install the driver's module or system extension of exactly this release of the system (Talos: the NVIDIA extensions of the same version, in the image). Enrolling a key (MOK) does not help."),
        ),
        ("module-rejected", "module-load", "no-smi"),
    ),
    Situation(
        "mismatch",
        (
            r"Driver/library version mismatch|API mismatch",
            r"NVIDIA-Linux-\w+-(?P<run>\d{3}\.\d+(?:\.\d+)?)\.run[\s\S]*open-gpu-kernel-modules-(?!(?P=run))\d{3}\.\d|open-gpu-kernel-modules-(?P<built>\d{3}\.\d+(?:\.\d+)?)[\s\S]*NVIDIA-Linux-\w+-(?!(?P=built))\d{3}\.\d",
        ),
        text("The libraries are of one version of the driver, and the modules that were built separately of another one"),
        text("User space and kernel module must have the same version, to the last number. A reboot does not change it."),
        (
            text("Build the modules from the source of exactly the installer's version; or install the user space of the modules' version: sudo sh NVIDIA-Linux-x86_64-VERSION.run --no-kernel-modules"),
            text("Then: sudo reboot; cat /sys/module/nvidia/version; nvidia-smi"),
        ),
        ("mismatch", "driver-firmware"),
    ),
    Situation(
        "mismatch",
        (
            r"Driver/library version mismatch|API mismatch",
            r"\b(?:after|despite) (?:a |the |another |several |multiple |many )?reboot(?:s|ing)?\b|\balready (?:rebooted|restarted)",
        ),
        text("The driver's library and its module differ after a reboot, too: they are of two installations"),
        text("A reboot loads the module that is on the disk. If it still differs from the library, they come from different packages, installers or folders, and no further reboot helps."),
        (
            text("modinfo -F version nvidia; cat /sys/module/nvidia/version; ls -l /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.* /usr/lib64/libnvidia-ml.so.*; dkms status   # which two versions there are"),
            text("Make both the same, to the last number: install the user space of the module's version (NVIDIA-Linux-x86_64-VERSION.run --no-kernel-modules), or the module of the library's version."),
            text("Installer and packages mixed: sudo nvidia-uninstall, then the packages of one source alone. In a container: its libraries must have the host's version."),
        ),
        ("mismatch", "driver-firmware"),
        unless=r"after (?:a |the )?reboot(?:ing)?[^\n]{0,30}(?:works|fixed|solved|gone)|(?:works|fixed|solved|gone)\b[^\n]{0,30}after (?:a |the )?reboot|(?:not|without|before) (?:a )?reboot",
    ),
    Situation(
        "nouveau",
        (r"rd\.driver\.blacklist=\S*nouveau", r"nouveau [0-9a-f:.]+: (?:enabling device|NVIDIA \w+|DRM:|fb:)"),
        text("nouveau holds the card: rd.driver.blacklist keeps it out of the boot image only, and it is loaded afterwards"),
        text("While nouveau has the card, NVIDIA's module does not get it."),
        (
            text("Fedora: sudo grubby --update-kernel=ALL --args='rd.driver.blacklist=nouveau modprobe.blacklist=nouveau'; elsewhere: add modprobe.blacklist=nouveau to GRUB_CMDLINE_LINUX, and make GRUB's configuration again"),
            text("echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/blacklist-nouveau.conf; sudo dracut --force   # Debian, Ubuntu: sudo update-initramfs -u; then sudo reboot"),
        ),
        ("nouveau", "module-load", "no-smi"),
        unless=r"(?<!rd\.driver\.blacklist=nouveau )\bmodprobe\.blacklist=\S*nouveau",
    ),
    Situation(
        "driver-mixed",
        (r"\b(?:akmod|kmod)-nvidia-(?P<module>\d{3}\.[\d.]*\d)-[\s\S]*^(?:nvidia-driver|xorg-x11-drv-nvidia)-(?!(?P=module)-)\d{3}\.|^(?:nvidia-driver|xorg-x11-drv-nvidia)-(?P<library>\d{3}\.[\d.]*\d)-[\s\S]*\b(?:akmod|kmod)-nvidia-(?!(?P=library)-)\d{3}\.",),
        text("The module's package and the driver's package have different versions: they are of two repositories"),
        text("Both must be of exactly one version. RPM Fusion, negativo17 and NVIDIA's repository each have packages of their own, which do not go together."),
        (
            text("dnf list --installed '*nvidia*'   # the last column is the repository"),
            text("Keep one: sudo dnf config-manager --disable OTHER-REPOSITORY; sudo dnf remove '*nvidia*'; install its driver and akmod again; wait until akmods has built the module; sudo reboot"),
        ),
        ("driver-mixed", "no-smi", "module-load"),
    ),
    Situation(
        "pci-resources",
        (r"BAR\d? is 0M @ 0x0", r"probe (?:of \S+ failed|routine failed)|I/O region assigned"),
        text("The system firmware gave the card no address space (BAR is 0M), so the driver cannot start it"),
        text("The card is on the bus, but no window of memory was reserved for it. The driver and its version are not the reason, though the kernel then says that no card was initialised."),
        (
            text("In the system firmware (UEFI): turn on Above 4G Decoding (and Resizable BAR), turn CSM off; update the firmware."),
            text("Or boot with pci=realloc. A card in an external case (Thunderbolt, USB4): plug it in before the start; some laptops need a firmware that reserves space for hot-plug."),
            text("In a virtual machine: UEFI firmware (OVMF) and a larger 64-bit PCI window."),
        ),
        ("pci-resources", "card-unsupported", "module-load", "no-smi"),
    ),
    Situation(
        "nouveau",
        (r"\bnixos\b|/nix/store/", r"NVRM: (?:nouveau, rivafb|The NVIDIA probe routine was not called)|nouveau [0-9a-f:.]+: [^\n]*(?:DRM|fb:)"),
        text("nouveau uses the NVIDIA card"),
        text("The kernel's own driver was loaded first and holds the card. On NixOS the configuration decides that, not files in /etc/modprobe.d."),
        (
            text("In configuration.nix: services.xserver.videoDrivers = [ \"nvidia\" ]; boot.blacklistedKernelModules = [ \"nouveau\" ]; hardware.graphics.enable = true;"),
            text("sudo nixos-rebuild boot; sudo reboot"),
        ),
        ("nouveau", "module-load"),
    ),
    Situation(
        "module-load",
        (
            r"'dkms' is currently not installed|dkms: (?:command )?not found",
            r"Module nvidia not found|NVIDIA-SMI has failed",
        ),
        text("There is no NVIDIA module for the running kernel, and DKMS, which would build it after updates, is not installed"),
        text("The driver was installed with NVIDIA's installer, or with a module made for one kernel only. Each update of the kernel leaves it behind."),
        (
            text("uname -r; find /lib/modules -name 'nvidia*.ko*'   # for which kernels there is a module; until it is built, boot one of those"),
            text("Ubuntu, Debian: sudo apt-get install -y dkms linux-headers-$(uname -r)"),
            text("Then run the installer of the same version again: sudo sh NVIDIA-Linux-x86_64-VERSION.run --dkms; or remove it (sudo nvidia-uninstall) and take the distribution's packages"),
        ),
        ("module-load", "no-smi", "module-upkeep"),
    ),
    Situation(
        "module-build",
        (
            r"Building DKMS module: nvidia\S* *(?:FAILED|\.\.\. *FAILED)|Bad return status for module build|\bdkms\b[\s\S]{0,200}\bfail",
            r"\b(?:cc|gcc) -> \S*clang|\bcc --version[\s\S]{0,40}clang version|CC=clang",
        ),
        text("cc is clang here, and the kernel was built with gcc: the driver's module must be built with the kernel's compiler"),
        text("The options of the kernel's build files are gcc's. With another compiler the module does not build, or is refused."),
        (
            text("cat /proc/version   # names the kernel's compiler; ls -l $(command -v cc)"),
            text("Point cc to gcc again (Debian, Ubuntu: sudo update-alternatives --config cc; otherwise: sudo ln -sf gcc /usr/bin/cc), unset CC, and build the module again: sudo dkms autoinstall (Void: sudo xbps-reconfigure -f linuxX.Y)"),
        ),
        ("module-build", "module-upkeep", "unknown-message"),
        unless=r"clang version[^\n]*\bLinux version|LLVM=1",
    ),
)  # fmt: skip
