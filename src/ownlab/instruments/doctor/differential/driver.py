"""Messages about NVIDIA's driver: it is not reached, does not build, does not load, does not start the card."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import (
    CONTAINER,
    HOSTED,
    NVIDIA_CARD,
    WINDOWS,
    WSL,
    Family,
    Mechanism,
)
from ownlab.text import text

__all__ = ["DRIVER"]

_NO_MODULE = Mechanism(
    text(
        "There is no module for the running kernel: the kernel was updated, its headers are missing, or the build failed"
    ),
    text(
        "dkms status; uname -r; find /lib/modules/$(uname -r) -name 'nvidia*.ko*'   # nothing: boot the previous kernel, or build the module for this one"
    ),
    sign=r"module nvidia\S* not found|dkms|headers|modprobe: FATAL",
    against=WINDOWS,
    codes=("no-smi", "wsl-no-module"),
)
_SECURE_BOOT = Mechanism(
    text("Secure Boot is on, and the module is not signed with an enrolled key"),
    text(
        "mokutil --sb-state; sudo dmesg | grep -iE 'key|signature|lockdown'   # “Key was rejected”: enrol the key that signed it (mokutil --import)"
    ),
    sign=r"secure ?boot|key was rejected|required key|lockdown|signature",
    against=rf"secure ?boot\W{{0,4}}(?:is )?(?:off|disabled)|{WINDOWS}|{WSL}",
    codes=("module-rejected",),
)
_OTHER_DRIVER = Mechanism(
    text("Another driver holds the card: nouveau, or vfio-pci, which keeps it for a virtual machine"),
    text("lspci -nnk -d 10de:   # the line “Kernel driver in use”"),
    sign=r"nouveau|vfio",
    against=rf"{WINDOWS}|{WSL}",
    codes=("nouveau", "passthrough"),
)
_NOT_REBOOTED = Mechanism(
    text(
        "Driver or kernel were installed or updated, and the machine was not restarted since; or the driver is in a bad state since a crash or a suspend"
    ),
    text(
        "uptime -s; ls -lt /boot | head -3; cat /proc/driver/nvidia/version   # older than the installed driver: sudo reboot"
    ),
)
_WRONG_BRANCH = Mechanism(
    text(
        "This driver does not drive this card: a branch too new for an old card, too old for a new one, or the other flavour of module (open ones need Turing or newer; Blackwell needs them)"
    ),
    text(
        "sudo dmesg | grep NVRM; modinfo nvidia | grep -E '^(version|license)'; lspci -nn -d 10de:   # “Dual MIT/GPL” is the open flavour"
    ),
    sign=r"legacy|open kernel module|unsupported|RmInitAdapter",
    codes=("card-unsupported", "module-flavour"),
)
_NOT_ON_BUS = Mechanism(
    text(
        "The card is not on the bus: none in this machine, node or virtual machine, or lost (power cable, slot, riser, external case, PCIe speed)"
    ),
    text(
        "lspci -nn | grep -iE '10de|3d|vga'   # no line: switch the machine off and on; then slot, power and riser, or the virtual machine's passthrough"
    ),
    sign=r"riser|eGPU|thunderbolt|\bVM\b|qemu|proxmox|No devices",
    against=WSL,
)
_SWITCHED_OFF = Mechanism(
    text("A tool for laptops keeps the card off, or a file forbids the module"),
    text(
        "prime-select query; grep -rsE '(blacklist|install|alias) +nvidia' /etc/modprobe.d /usr/lib/modprobe.d; cat /proc/cmdline"
    ),
    sign=r"prime|optimus|bumblebee|bbswitch|envycontrol|supergfx|system76-power|blacklist",
    against=rf"{WINDOWS}|{WSL}",
    codes=("hybrid",),
)
_PARTIAL = Mechanism(
    text("Only a part of the driver is installed, or packages of several versions or repositories are mixed"),
    text(
        "dpkg -l | grep -iE 'nvidia|libcuda'; rpm -qa | grep -i nvidia; ls /usr/bin/nvidia-uninstall 2>/dev/null   # a .run beside packages"
    ),
    sign=r"dpkg|apt|rpm|\.run\b",
    against=WINDOWS,
    codes=("driver-mixed",),
)
_ENVIRONMENT = Mechanism(
    text(
        "It is a container that was not given the card, a hosted notebook without a GPU runtime (Colab, Kaggle), or WSL, where the driver is the one of Windows"
    ),
    text(
        "uname -r; ls /dev/nvidia* /dev/dxg 2>/dev/null   # “microsoft”: install no driver inside; container: docker run --gpus all …"
    ),
    sign=rf"{CONTAINER}|{WSL}|{HOSTED}",
    codes=("container-no-gpu", "wsl", "wsl-no-module"),
)
_NO_NVIDIA_CARD = Mechanism(
    text(
        "The machine has no NVIDIA card (AMD, Intel, Apple, or none): the program's build for that GPU or for the CPU is needed"
    ),
    text("lspci | grep -iE 'vga|3d|display'; Windows: the Device Manager   # CPU: device='cpu', map_location='cpu'"),
    sign=r"AMD|Radeon|Intel|Apple|CPU",
    against=NVIDIA_CARD,
    codes=("rocm-build", "no-accelerator", "xpu-build"),
)
_BOOT_IMAGE = Mechanism(
    text("The boot image contains nouveau or a module of another version, which is loaded before the right one"),
    text(
        "lsinitramfs /boot/initrd.img-$(uname -r) | grep -E 'nvidia|nouveau'   # Fedora: lsinitrd; cat /sys/module/nvidia/version; modinfo -F version nvidia"
    ),
    sign=r"initramfs|dracut|mkinitcpio|initrd",
    against=rf"{WINDOWS}|{WSL}",
)
_ADDRESS_SPACE = Mechanism(
    text("The firmware gave the card no address space, or the driver's own firmware (GSP) is missing"),
    text("sudo dmesg | grep -iE 'BAR|NVRM|gsp|firmware'; lspci -vs BUS   # Memory at <unassigned>: Above 4G Decoding"),
    sign=r"\bBAR\d?\b|gsp|firmware",
    against=WSL,
    codes=("pci-resources", "driver-firmware"),
)
_FAILING = Mechanism(
    text("The card or its power fails: it fell off the bus, or does not start when it is warm"),
    text(
        "sudo dmesg | grep -iE 'xid|nvrm|pcieport|aer'   # Xid 79, 62, 119: power supply, cables, slot, heat; then the card in another machine"
    ),
    sign=r"xid|fallen off|AER:",
    codes=("card-lost", "xid"),
)

DRIVER = (
    Family(
        text("The program does not reach the NVIDIA driver"),
        r"communicate with the NVIDIA driver|NVIDIA-SMI has failed|driver (?:is )?not (?:loaded|running|installed|detected|found|available)|DRIVER_NOT_LOADED|"
        r"nvml\w*\W+[^\n]{0,40}(?:not loaded|not found|could not be (?:found|loaded|initiali[sz]ed)|unable to initiali[sz]e)|(?:fail\w*|unable|could not|cannot|can't) (?:to )?(?:initiali[sz]e|init|load|open|find|detect|locate) (?:the )?(?:nvml|nvidia(?: (?:driver|kernel module|management library|device))?)\b|"
        r"modprobe: \w+: [^\n]*nvidia|no nvidia (?:driver|kernel module)|nvidia(?: kernel)? (?:driver|module) (?:is )?(?:missing|absent|unavailable)|/dev/nvidia(?:ctl|\d|-uvm)\W[^\n]{0,60}(?:no such|not found|does(?: not|n't) exist)|is an? n?vidia driver installed",
        ("no-smi", "module-load", "no-driver", "nvml-query"),
        (_NO_MODULE, _NOT_REBOOTED, _SECURE_BOOT, _OTHER_DRIVER, _NO_NVIDIA_CARD, _ENVIRONMENT, _WRONG_BRANCH, _NOT_ON_BUS, _SWITCHED_OFF, _PARTIAL, _BOOT_IMAGE, _ADDRESS_SPACE, _FAILING),
    ),
    Family(
        text("Library and kernel module of the driver have different versions"),
        r"driver/library version mismatch|API mismatch|LIB_RM_VERSION_MISMATCH|(?:kernel module|kernel driver|NVRM)\W[^\n]{0,60}(?:does(?: not|n't) match|mismatch|differs)|system has unsupported display driver",
        ("mismatch", "combo"),
        (
            Mechanism(text("The driver was updated, and the old module is still loaded"), text("cat /sys/module/nvidia/version; modinfo -F version nvidia   # different: sudo reboot"), codes=("mismatch", "combo")),
            Mechanism(text("A container, an LXC guest, a Flatpak or an image carries its own copy of the driver's libraries, or the container was started before the host's update"), text("find / -name 'libnvidia-ml.so*' -o -name 'libcuda.so*' 2>/dev/null   # inside; the version must be that of /proc/driver/nvidia/version; start the container anew"), sign=rf"{CONTAINER}|lxc|flatpak|proxmox"),
            Mechanism(text("Two installations lie over each other (a .run file and packages, CUDA's repository and the distribution's)"), text("ldconfig -p | grep -E 'libnvidia-ml|libcuda'; ls /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.*; dpkg -l | grep -iE 'nvidia|libcuda'   # keep one"), sign=r"\.run\b|cuda-drivers|repository"),
            Mechanism(text("The module for this kernel is of the older release: DKMS did not build the new one, or the boot image contains the old one"), text("dkms status; modinfo -F version nvidia; lsinitramfs /boot/initrd.img-$(uname -r) | grep nvidia   # different: sudo dkms autoinstall; sudo update-initramfs -u"), sign=r"dkms|initramfs|dracut|reboot"),
            Mechanism(text("The distribution's mirror or package is half-way between two releases (module package behind the libraries)"), text("apt policy nvidia-driver-'*' 2>/dev/null | grep -A2 Installed; rpm -qa | grep -i nvidia; pacman -Q | grep -iE 'nvidia|^linux'   # wait for the fitting module package, or take the DKMS variant"), against=WINDOWS),
            Mechanism(text("A vGPU: host and guest, or host and container, have different releases of it"), text("nvidia-smi vgpu; modinfo -F version nvidia; cat /proc/driver/nvidia/version   # host module and guest library as NVIDIA's table pairs them"), sign=r"vgpu|grid|BEST_EFFORT|software scheduler"),
            Mechanism(text("The program loads another libcuda or libnvidia-ml first (LD_LIBRARY_PATH, CUDA's compat or stubs folder)"), text("echo $LD_LIBRARY_PATH; env -u LD_LIBRARY_PATH nvidia-smi")),
        ),
    ),
    Family(
        text("The driver's kernel module does not build"),
        r"bad return status for module build|(?:dkms|akmods?|kmod|module)\W[^\n]{0,60}(?:build|compil\w+)[^\n]{0,30}fail|fail\w* to build (?:the )?(?:nvidia|kernel|dkms)|building DKMS module[^\n]*fail|/(?:dkms|nvidia)/[^\n]*\.[ch]:\d+:\d+: error|unable to build the NVIDIA kernel module|modpost: [^\n]*(?:undefined|GPL-incompatible)",
        ("module-build", "driver-installer", "module-upkeep"),
        (
            Mechanism(text("The kernel is newer than this driver release knows: functions or structures have changed"), text("uname -r; dkms status; grep -nE 'error' /var/lib/dkms/nvidia/*/build/make.log | head   # “implicit declaration”, “has no member”: a newer release of the branch, or the previous kernel"), sign=r"implicit declaration|has no member|too (?:few|many) arguments|incompatible pointer|undeclared"),
            Mechanism(text("Headers of the running kernel are missing, or belong to another build of it"), text("ls -d /lib/modules/$(uname -r)/build; uname -r   # then linux-headers-$(uname -r), kernel-devel-$(uname -r), or reboot into the kernel that has headers"), sign=r"headers|kernel source|/build\b[^\n]*(?:no such|not found|missing)"),
            Mechanism(text("The compiler is not the one of the kernel: another gcc, clang, or none"), text("cat /proc/version; gcc --version; ls -l $(command -v cc)"), sign=r"gcc|clang|cc1|unrecogni[sz]ed command[- ]line option|compiler"),
            Mechanism(text("The legacy branch has ended, and does not build on current kernels any more (304, 340, 390, partly 470)"), text("dkms status; lspci -nn -d 10de:   # an older kernel (LTS), the distribution's patched package, or nouveau"), sign=r"\b(?:304|340|390|470)\.\d+"),
            Mechanism(text("The kernel is built so that the module cannot be: PREEMPT_RT, CONFIG_DRM off, IBT, a hardened or vendor kernel"), text("grep -E 'PREEMPT_RT|CONFIG_DRM=|X86_KERNEL_IBT' /boot/config-$(uname -r); grep -i 'GPL-incompatible' make.log"), sign=r"PREEMPT|GPL-incompatible|CONFIG_\w+|\brt\b"),
            Mechanism(text("Remains of another version stand in the way (sources, symlinks, a .run beside packages)"), text("dkms status; ls /var/lib/dkms/nvidia* /usr/src | grep -i nvidia"), sign=r"dkms\.conf|already|conflict"),
            Mechanism(text("The disk is full, memory ran out, or make, ld and objtool are missing"), text("df -h / /boot /tmp; free -g; sudo dmesg | grep -i 'killed process'; command -v make ld"), sign=r"no space|killed|not found"),
        ),
    ),
    Family(
        text("The driver is loaded, but does not start the card"),
        r"RmInitAdapter failed|rm_init_adapter failed|^No devices were found|probe (?:routine )?(?:of \S+ )?failed|NVRM: [^\n]*(?:fail|not responding|invalid)|Unable to determine the device handle|nvidia[^\n]*GPU is lost|GPU requires reset",
        ("no-device", "card-lost", "driver-firmware", "pci-resources", "power-transition", "card-unsupported", "xid", "card-fault", "fabric", "vgpu"),
        (
            _WRONG_BRANCH,
            Mechanism(text("The card lost power or its link: cable, power supply, slot, riser, external case"), text("sudo dmesg | grep -iE 'xid|fallen|pcieport|AER'; lspci -vvs BUS | grep -E 'LnkSta|rev ff'   # rev ff: off the bus; switch off completely, then check power and slot"), sign=r"fallen off|rev ff|riser|AER|lost", codes=("card-lost",)),
            Mechanism(text("The driver's firmware (GSP) is missing in the boot image or fails"), text("ls /lib/firmware/nvidia/$(cat /sys/module/nvidia/version); sudo dmesg | grep -iE 'gsp|firmware'; grep EnableGpuFirmware /proc/driver/nvidia/params"), sign=r"gsp|firmware|0x62|0x61", codes=("driver-firmware",)),
            Mechanism(text("Passed through to a virtual machine: the card was not reset, is held by the host, or the guest has no UEFI, too little address space or a hidden hypervisor"), text("systemd-detect-virt; on the host: lspci -nnk -d 10de:; shut the guest down and start it again, then the host"), sign=r"qemu|kvm|vfio|proxmox|esxi|vmware|hyper-v|passthrough", against=rf"{WSL}|virtualisation none", codes=("passthrough",)),
            Mechanism(text("The firmware gave no address space or interrupts"), text("sudo dmesg | grep -iE 'BAR|can.t (assign|claim)'; lspci -vs BUS   # Above 4G Decoding on, CSM off"), sign=r"\bBAR|resource|address space|IRQ", codes=("pci-resources",)),
            Mechanism(text("The card does not wake from a suspend or from runtime power management"), text("cat /sys/bus/pci/devices/0000:BUS/power/runtime_status; sudo dmesg | grep -iE 'D3|power'   # a reboot helps until the next time; systemctl is-enabled nvidia-suspend nvidia-resume; cat /proc/driver/nvidia/params | grep -iE 'Preserve|Dynamic'"), sign=r"D3|suspend|resume|power state|power manag", codes=("power-transition",)),
            Mechanism(text("An error of the driver or a program put the card into a state that only a restart ends"), text("sudo dmesg | grep -i xid; sudo nvidia-smi --gpu-reset -i 0 (nothing may use the card), or a reboot"), sign=r"xid|reset"),
            Mechanism(text("On NVSwitch machines Fabric Manager is not running or of another version; a vGPU has no licence or the wrong guest driver; MIG has no instances"), text("systemctl status nvidia-fabricmanager nvidia-gridd; nvidia-smi -q | grep -A2 -E 'Fabric|MIG'"), sign=r"fabric|nvswitch|vgpu|mig|HGX|SXM", codes=("fabric", "vgpu")),
            Mechanism(text("nouveau or the firmware's console had the card first"), text("lspci -nnk -d 10de:; sudo dmesg | grep -iE 'nouveau|efifb|simpledrm' | head"), sign=r"nouveau|efifb|simple-?framebuffer", codes=("nouveau",)),
            Mechanism(text("The card is faulty"), text("the same card in another machine or slot; nvidia-smi -q -d ECC,PAGE_RETIREMENT"), sign=r"ecc|infoROM|0x2[45]:|thermal"),
        ),
    ),
    Family(
        text("The driver is too old for the program, or is not the one that the program meets"),
        r"driver (?:version )?is insufficient|insufficient (?:nvidia |cuda )?driver|driver[^\n]{0,60} too old|driver version[^\n]{0,40}(?:older|lower|less) than|requires? (?:a )?(?:newer|driver)|update your (?:GPU|graphics|nvidia|display) driver|minimum required (?:nvidia )?driver|\b35 vs\. 0\b|outdated (?:nvidia |gpu |graphics )?driver|driver[^\n]{0,40}does not support (?:this )?CUDA|unsupported display driver|please (?:update|upgrade)[^\n]{0,30}driver",
        ("driver-old", "image-needs-driver", "fwd", "driver-end", "docker-desktop"),
        (
            Mechanism(text("The program's CUDA is newer than the driver's"), text("nvidia-smi   # CUDA Version, top right: take the program's build for this CUDA or an older one, or a newer driver if the card has one"), codes=("driver-old", "image-needs-driver")),
            Mechanism(text("There is no working driver here: a machine without a card, a container without it, a login node"), text("nvidia-smi; ls /dev/nvidia*   # fails: the driver or the container is the problem, not its age"), sign=rf"{CONTAINER}|slurm|login"),
            Mechanism(text("The driver was updated, and session or machine was not restarted"), text("cat /proc/driver/nvidia/version; modinfo -F version nvidia   # different: restart")),
            Mechanism(text("A libcuda of a toolkit (stubs, compat) or of an image is found before the driver's"), text("ldconfig -p | grep libcuda; echo $LD_LIBRARY_PATH; ls -l /usr/local/cuda/compat   # env -u LD_LIBRARY_PATH PROGRAM"), sign=r"compat|stubs|LD_LIBRARY_PATH", codes=("fwd",)),
            Mechanism(text("The package was replaced by one for the newest CUDA: pip install of torch, or of a dependency"), text("python -c 'import torch; print(torch.__version__, torch.version.cuda)'   # take the index of the newest CUDA that the driver runs (nvidia-smi shows it), such as …/whl/cu118"), sign=r"torch|\+cu\d+"),
            Mechanism(text("The card is too old for a newer driver (Kepler R470, Fermi R390, Tesla R340): no update helps"), text("nvidia-smi -L; lspci -nn -d 10de:   # take a build for the CUDA of that branch, or the CPU")),
            Mechanism(text("WSL: the driver of Windows counts, and WSL's own kernel must be current"), text("On Windows: nvidia-smi; in PowerShell: wsl --update; wsl -l -v   # version 2"), sign=WSL, against=r"^fact: family linux$(?![\s\S]*microsoft)"),
            Mechanism(text("The platform gives the driver (Jetson's JetPack, a hosted notebook, a cluster, vGPU's host): only a build for its CUDA helps"), text("cat /etc/nv_tegra_release 2>/dev/null; nvidia-smi -q | grep -iE 'vGPU|Driver Version'"), sign=rf"{HOSTED}|tegra|jetpack|vgpu"),
            Mechanism(text("The program reads the version wrongly: a fault of that release"), text("nvidia-smi   # new enough: update the program"), sign=r"Installed 0|version 0\b|found version 0"),
        ),
    ),
    Family(
        text("The kernel log shows an error of a graphics driver"),
        r"\b(?:i915|xe|nouveau|amdgpu|radeon|drm|nvidia-drm|nvidia-modeset)\b[^\n]{0,60}(?:\*ERROR\*|error|fail\w*|unavailable|missing|not found|denied|timed? ?out|hang|reset|fault|oops)|GPU (?:HANG|reset|fault)|ring \w+ timeout|\bfence (?:fallback|timeout)",
        ("kernel-crash", "amd-fault", "graphics-libraries"),
        (
            Mechanism(text("The firmware files of the card are missing or old, or not in the boot image"), text("sudo dmesg | grep -i firmware; update linux-firmware (FreeBSD: gpu-firmware-kmod), then rebuild the boot image"), sign=r"firmware|\bguc\b|\bhuc\b|\bdmc\b|smu|psp", codes=("driver-firmware",)),
            Mechanism(text("The kernel's driver has a fault that another kernel release does not have"), text("uname -r; boot the previous or the newest kernel and compare")),
            Mechanism(text("Clocks, power or heat: overclocking, undervolting, a weak supply"), text("sensors; sudo dmesg | grep -iE 'thermal|power|xid|AER'; default clocks, then again"), sign=r"overclock|thermal|AER"),
            Mechanism(text("A program or library sends work that the card cannot do (wrong build, override of the chip, out of memory)"), text("which program runs at that moment: journalctl -k -b; run without HSA_OVERRIDE_GFX_VERSION; watch the memory"), sign=r"page fault|VM fault|ring|OVERRIDE"),
            Mechanism(text("Suspend, runtime power management or the switch between two graphics processors"), text("does it happen after a resume or when idle? cat /sys/class/drm/card*/device/power/control"), sign=r"suspend|resume|runpm|D3"),
            Mechanism(text("The console or the desktop takes the card in another way: nvidia_drm without modeset, simpledrm or efifb, Wayland"), text("cat /sys/module/nvidia_drm/parameters/modeset; sudo dmesg | grep -iE 'simpledrm|efifb|fbdev|modeset'"), sign=r"nvidia-drm|modeset|flip|framebuffer|fbdev|wayland"),
            Mechanism(text("Two drivers want the card, or the module of another kernel build is loaded"), text("lspci -nnk | grep -A3 -iE 'vga|3d'; modinfo -F vermagic MODULE; uname -r"), sign=r"nouveau|already|busy"),
            Mechanism(text("The card or its slot is faulty"), text("the same card in another machine, another card here; lspci -vvs BUS | grep LnkSta")),
        ),
    ),
    Family(
        text("Windows stopped the graphics card, or its driver does not install"),
        r"\bcode (?:43|10|12|14|31|35|37|39|45|52)\b|nvlddmkm|display driver [^\n]*(?:stopped|crash|recover|timeout)|TDR\b|VIDEO_TDR|NVIDIA installer (?:failed|cannot)|Device Manager",
        ("windows-device", "launch-timeout", "driver-reset"),
        (
            Mechanism(text("A kernel ran longer than Windows allows (TDR), and the driver was reset"), text("event log: nvlddmkm, “display driver stopped responding”; smaller steps, or TdrDelay"), sign=r"nvlddmkm|TDR|timeout|launch"),
            Mechanism(text("Clocks, power or heat"), text("default clocks (no overclocking), temperatures under load, each card with its own power cables"), sign=r"overclock|nvlddmkm"),
            Mechanism(text("The driver is damaged, another maker's driver has left remains, or Windows replaced it"), text("Device Manager: version and date of the driver; then NVIDIA's package once more, with “clean installation”"), sign=r"43|31|39|installer"),
            Mechanism(text("Too little address space or too many devices (code 12): firmware settings"), text("Above 4G Decoding on, CSM off; other PCIe devices out to compare"), sign=r"code 12"),
            Mechanism(text("A virtual machine without passthrough, or the hypervisor is not hidden from an old driver"), text("Device Manager on the host; current GeForce drivers (465 and newer) allow virtual machines"), sign=r"vm|qemu|hyper-v|proxmox|vfio"),
            Mechanism(text("The card is faulty or not powered"), text("another machine or slot; fans and power LEDs")),
        ),
    ),
)  # fmt: skip
