"""Rules about cards that this driver does not drive, cannot map, or must not touch."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = [
    "CardUnsupportedByDriver",
    "DriverFirmware",
    "Passthrough",
    "PciResources",
    "PowerTransitions",
    "WindowsDeviceError",
]


class CardUnsupportedByDriver(CauseRule):
    """The installed driver does not support this card: the card is too old for it, or too new.

    **Why it matters.** Each driver branch ends the support of old generations: Fermi with R390, Kepler with R470, Maxwell,
    Pascal and Volta with R580; the open kernel modules begin with Turing. A card that is newer than the driver is not known
    to it either. nvidia-smi then finds no device, whatever is reinstalled.

    **What to do.** Install the branch for this card; keep the package manager from leaving that branch.

    **Sources.** NVIDIA, "Legacy GPUs" and the driver README's list of supported products; the driver's lines in the kernel log.
    """

    code = "card-unsupported"
    severity = "error"
    title = text("The installed driver does not support this card")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"supported through the NVIDIA \d{3}\.xx legacy|NVIDIA (?:\d{3})\.\S+ legacy driver|NVRM: *\d{3}\.xx Legacy",
            text("This card needs a legacy driver branch, which the kernel log names"),
            text("The installed driver is newer than the last branch that supports this card."),
            (
                text(
                    "Remove the driver, and install the legacy branch in the message (Debian, Ubuntu: nvidia-driver-470 or -390; Arch: nvidia-470xx-dkms; Fedora: akmod-nvidia-470xx)."
                ),
                text("Do not install a newer driver: it cannot drive this card."),
            ),
        ),
        Cause(
            r"does not include the required GPU|required GPU\s*(?:System Processor|\(?GSP)|not supported by (?:the )?open (?:nvidia|kernel|gpu)",
            text("The open kernel modules do not support this card: it is older than Turing"),
            text(
                "The open modules need the GSP processor, which cards have since Turing (GTX 16, RTX 20). Maxwell, Pascal and Volta need the proprietary modules of a branch up to R580."
            ),
            (
                text("Ubuntu: sudo apt-get install -y nvidia-driver-580   # without -open"),
                text("Arch: sudo pacman -S --needed nvidia-580xx-dkms   # from the AUR"),
                text("Fedora: sudo dnf install -y akmod-nvidia-580xx   # from RPM Fusion"),
                text("On an image-based system: roll back, or rebase to the image for older cards (legacy or 580)."),
                text("sudo reboot"),
            ),
        ),
        Cause(
            r"Open nvidia\.ko is only ready for use on Data Center GPUs|OpenRmEnableUnsupportedGpus",
            text("The open kernel modules of this release do not drive GeForce and workstation cards by themselves"),
            text(
                "Before R560 the open modules were meant for data-centre cards; others must be enabled, or use the proprietary modules."
            ),
            (
                text(
                    "Install the proprietary modules, or a driver from R560 on; or: echo 'options nvidia NVreg_OpenRmEnableUnsupportedGpus=1' | sudo tee /etc/modprobe.d/nvidia-open.conf; then rebuild the boot image and reboot"
                ),
            ),
        ),
        Cause(
            r"installed in this system is not supported by (?:the|this)|is not supported by the \d{3}\.[\d.]+ NVIDIA driver"
            r"|driver is not compatible with this NVIDIA GPU|probe (?:routine|with driver nvidia|of \S+) failed with error -(?:1|12|22|19)\b"
            r"|NVRM: (?:GPU|The NVIDIA GPU) [^\n]*(?:is )?not supported",
            text("The installed driver does not support this card"),
            text("The card is older than this driver's branch supports, or newer than this release."),
            (
                text("Find the card's number: lspci -nn -d 10de:; look it up: https://www.nvidia.com/drivers"),
                text(
                    "Older than Turing: the proprietary R580 branch (Kepler: R470, Fermi: R390). A new card: the newest driver with open kernel modules."
                ),
                text("sudo reboot"),
            ),
        ),
        Cause(
            r"nouveau \S+: (?:\w+: )?unknown chipset|Unknown chipset: NV\w+",
            text("The kernel's own driver, nouveau, does not know this card"),
            text("The card is newer than this kernel. CUDA needs NVIDIA's driver anyway."),
            (
                text(
                    "Install NVIDIA's newest driver (open kernel modules), and blacklist nouveau; or boot the installer with nomodeset."
                ),
            ),
        ),
    )


class PciResources(CauseRule):
    """The system firmware gave the card no address space: a BAR is missing, too small, or taken.

    **Why it matters.** The driver maps the card's memory through PCI windows (BARs). Large cards need windows above 4 GiB.
    Old firmware, many cards, hot-plugged cards and virtual machines often leave none.

    **What to do.** Turn "Above 4G Decoding" (and Resizable BAR) on in the firmware, update it, boot in UEFI mode; else the
    kernel parameter `pci=realloc`. In a virtual machine: give it a larger 64-bit window.

    **Sources.** NVIDIA driver README, "BAR" messages; Linux, Documentation/admin-guide/kernel-parameters (pci=); open-gpu-kernel-modules issues.
    """

    code = "pci-resources"
    severity = "error"
    title = text("The card got no address space on the PCI bus")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"BAR\d? (?:is )?0M @ 0x0|PCI I/O region assigned to your NVIDIA device is invalid|NVRM: BAR\d|can't (?:assign|claim) mem|no space for \[mem [^\n]*(?:pref|64bit)|BAR \d+: (?:failed to assign|no space)"
            r"|not enough (?:MMIO|PCI|BAR) (?:space|resources)|resizable bar.*(?:fail|error)|BAR1? (?:size|memory).*(?:too small|insufficient)",
            text("The system firmware gave the card no address space (BAR): Above 4G Decoding is off"),
            text(
                "The card is on the bus, but the firmware reserved no memory window for it, so the driver cannot map it."
            ),
            (
                text(
                    "In the system firmware (UEFI): turn on Above 4G Decoding (and Resizable BAR), turn CSM off; update the firmware."
                ),
                text("Or add pci=realloc to the kernel's command line, and reboot."),
                text("In a virtual machine: UEFI firmware (OVMF) and a larger 64-bit PCI window."),
            ),
        ),
        Cause(
            r"NVRM: request_mem_region failed|request_mem_region failed for",
            text("Another driver has taken the card's memory window"),
            text(
                "A framebuffer driver (efifb, vesafb, simplefb, nouveau) holds the window that the NVIDIA driver asks for."
            ),
            (
                text("See who: grep -iE 'efifb|vesafb|simple|nouveau' /proc/iomem"),
                text(
                    "Add video=efifb:off (or nomodeset) to the kernel's command line, blacklist nouveau and nvidiafb, and reboot."
                ),
            ),
        ),
        Cause(
            r"Can't find an IRQ for your NVIDIA card|NVRM: [^\n]*(?:msi|interrupt)[^\n]*fail",
            text("The card got no interrupt from the system firmware"),
            text("The driver cannot use the card without an interrupt line."),
            (
                text(
                    "In the system firmware: assign an IRQ, or turn 'Plug and Play OS' off; try the kernel parameter pci=nomsi or irqpoll."
                ),
            ),
        ),
    )


class DriverFirmware(CauseRule):
    """The driver does not find the firmware of the card's GSP processor, or finds another version.

    **Why it matters.** Since Turing the driver uploads firmware (gsp_*.bin) whose version must equal the driver's. A package
    without it, an image with mixed versions, or a boot image without the file leaves the card unusable.

    **What to do.** Install the firmware package of exactly the driver's version, rebuild the boot image, reboot.

    **Sources.** NVIDIA driver README, "GSP firmware"; Debian's firmware-nvidia-gsp; Linux firmware API.
    """

    code = "driver-firmware"
    severity = "error"
    title = text("The driver's firmware (GSP) is missing")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"Direct firmware load for nvidia/[^\n]*gsp[^\n]*failed|RmFetchGspRmImages: No firmware image|gsp_\S+\.bin[^\n]*(?:fail|not found)"
            r"|Failed to (?:load|fetch) GSP|firmware(?!: +nvidia/)[^\n]*nvidia/\S*gsp",
            text("The firmware of exactly this driver version is missing"),
            text(
                "The kernel module looks for the GSP firmware of its own version. It is not installed, or module and user-space packages have different versions."
            ),
            (
                text("Compare: cat /sys/module/nvidia/version; ls /lib/firmware/nvidia"),
                text(
                    "Install the firmware package of that version (Debian: firmware-nvidia-gsp; Ubuntu: nvidia-firmware-BRANCH-VERSION), rebuild the boot image, reboot."
                ),
                text(
                    "On an image-based system the versions are mixed inside the image: roll back to the previous image (rpm-ostree rollback)."
                ),
            ),
        ),
        Cause(
            r"unexpected WPR2 already up|Timeout (?:after \d+s of )?waiting for RPC|_kgspBootGspRm|kgspBootstrap|GspRm(?:Boot)?[^\n]*fail"
            r"|Cannot initialize GSP firmware RM|GSP (?:task )?(?:timeout|crash|lockdown)|Xid[^\n]*: (?:119|120)\b",
            text("The card's management processor (GSP) does not answer"),
            text(
                "After a crash, a hot reset or in a virtual machine the GSP is left in a state from which the driver cannot start it."
            ),
            (
                text("Power the machine off completely (not only a reboot), wait, and start it again."),
                text(
                    "If it happens again: update the driver; or without the GSP where the card allows it (Turing to Ada, proprietary modules): options nvidia NVreg_EnableGpuFirmware=0"
                ),
            ),
        ),
    )


class Passthrough(CauseRule):
    """A card cannot be given to a virtual machine, or does not start inside it.

    **Why it matters.** VFIO gives a whole IOMMU group to a guest, and only if no driver of the host holds any part of it.

    **What to do.** Bind the card and its audio function to vfio-pci before the host's driver loads, and reboot.

    **Sources.** Linux, Documentation/driver-api/vfio; Arch Wiki, "PCI passthrough via OVMF".
    """

    code = "passthrough"
    severity = "error"
    title = text("The card cannot be passed to a virtual machine")
    causes = (
        Cause(
            r"vfio[^\n]*group \d+ is not viable|Please ensure all devices within the iommu_group are bound",
            text("The host's driver holds the card, so vfio-pci cannot pass it on"),
            text(
                "All devices of the card's IOMMU group must be bound to vfio-pci, but a driver of the host claimed one first."
            ),
            (
                text(
                    "See the group: for d in /sys/kernel/iommu_groups/*/devices/*; do echo $d; done; lspci -nnk -d 10de:"
                ),
                text(
                    "printf 'options vfio-pci ids=10de:XXXX,10de:YYYY\\nsoftdep nvidia pre: vfio-pci\\nsoftdep nouveau pre: vfio-pci\\n' | sudo tee /etc/modprobe.d/vfio.conf"
                ),
                text("sudo update-initramfs -u   # Fedora: sudo dracut --force; then reboot"),
            ),
        ),
        Cause(
            r"vfio[^\n]*(?:Device or resource busy|can't reserve|failed to setup|No such device|Unknown PCI header type|unable to reset|Failed to (?:mmap|set up))"
            r"|BAR \d: can't reserve \[mem|(?:IOMMU|DMAR)[^\n]*(?:not (?:found|enabled)|disabled)[^\n]*|vfio[^\n]*error getting device from group|vfio[^\n]*Invalid argument|No IOMMU",
            text("vfio-pci cannot take the card from the host"),
            text("The host's console or a driver still uses the card, IOMMU is off, or the card cannot be reset."),
            (
                text("Turn VT-d or AMD-Vi on in the firmware, and boot with intel_iommu=on iommu=pt (AMD: iommu=pt)."),
                text(
                    "Let the host use another card for its console: video=efifb:off; bind the card to vfio-pci at boot."
                ),
            ),
        ),
    )


class PowerTransitions(CauseRule):
    """The card does not come back after it was powered down: suspend, runtime power management, Optimus laptops.

    **Why it matters.** The card works after a cold start, and is lost after it slept. It looks like a hardware fault, and is
    usually an error of firmware, kernel or driver.

    **What to do.** Keep the card awake, or turn the power-saving feature off; update kernel, firmware and driver.

    **Sources.** Bumblebee-Project/Bumblebee#628 and #764; NVIDIA driver README, "PCI-Express runtime D3 power management".
    """

    code = "power-transition"
    severity = "error"
    title = text("The card does not come back after it was powered down")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"failed to copy vbios to system memory|minor \d+, module->open\(\) failed, error -5",
            text("The card does not wake up: the driver cannot read its firmware (VBIOS)"),
            text(
                "On Optimus laptops, the card is powered up by the kernel too late or not completely. The card itself is not defective."
            ),
            (
                text(
                    'Kernels 3.10 to 3.19: boot with rcutree.rcu_idle_gp_delay=1. Newer laptops: acpi_osi=! acpi_osi="Windows 2009", or pcie_port_pm=off.'
                ),
                text(
                    "Keep the card powered: turn bbswitch and runtime power management off (options nvidia NVreg_DynamicPowerManagement=0x00)."
                ),
            ),
        ),
        Cause(
            r"PreserveVideoMemoryAllocations module parameter is set|nv_pmops_(?:suspend|freeze)\S* returns -5|System Power Management attempted without driver procfs",
            text("The machine cannot suspend: the driver's suspend services are not switched on"),
            text("With NVreg_PreserveVideoMemoryAllocations=1 the driver must be told of a suspend by its services."),
            (text("sudo systemctl enable nvidia-suspend nvidia-hibernate nvidia-resume; then reboot"),),
        ),
        Cause(
            r"Unable to change power state from D3(?:cold|hot)? to D0|can't change power state from D3|pci_pm_runtime_suspend[^\n]*nv_pmops"
            r"|Refused to change power state[^\n]*",
            text("The card does not wake up from its power-saving state"),
            text("The card or its slot stayed in D3: an error of firmware or of runtime power management."),
            (
                text("Power the machine off completely, and start it again."),
                text(
                    "Keep it awake: boot with pcie_port_pm=off (or pcie_aspm=off); options nvidia NVreg_DynamicPowerManagement=0x00; update the firmware."
                ),
            ),
        ),
    )


class WindowsDeviceError(CauseRule):
    """Windows stopped the graphics card: Code 43, 10, 31 or 12 in the Device Manager.

    **Why it matters.** Windows gives the card to no program while its driver is stopped.

    **What to do.** Read the code in the Device Manager; each has its own cause. A damaged driver is installed once more with the option
    “clean installation”. In a virtual machine, drivers before R465 must not see the hypervisor.

    **Sources.** Microsoft, "Error codes in Device Manager"; NVIDIA, GeForce passthrough (R465 and newer).
    """

    code = "windows-device"
    severity = "error"
    title = text("Windows stopped the graphics card")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"\(Code (?:43|10|31|12|28|14|52)\)|\bCode 43\b|Windows has stopped this device because it has reported problems|NVIDIA [Ii]nstaller cannot continue|not compatible with this version of Windows|could not find compatible graphics hardware|standard NVIDIA graphics driver is not compatible",
            text("Windows stopped the graphics card, and its driver does not run"),
            text(
                "The driver is broken or does not fit the card; in a virtual machine, an older GeForce driver refuses to start (Code 43)."
            ),
            (
                text(
                    "Remove the driver completely (Display Driver Uninstaller in safe mode), then install the newest one: https://www.nvidia.com/drivers"
                ),
                text(
                    "In a virtual machine: use driver 465 or newer, or hide the hypervisor (kvm hidden state, vendor_id)."
                ),
            ),
        ),
    )
