"""Faults that the driver reports by a number (Xid), errors of PCIe and the IOMMU, and OpenCL's errors while a program computes."""

from __future__ import annotations

from ownlab.instruments.doctor.differential.mechanism import MINING, WINDOWS, Family, Mechanism
from ownlab.text import text

__all__ = ["FAULTS"]

_CLOCKS = Mechanism(
    text("Clocks, voltage or heat: overclocked or undervolted, also by the maker's tool or a profile that is applied at the start"),
    text("nvidia-smi -q -d CLOCK,TEMPERATURE,PERFORMANCE; default clocks and power limit: does it still happen?"),
    sign=rf"{MINING}|overclock|undervolt|afterburner|coolbits|\bpl\b|thermal",
)  # fmt: skip
_POWER_AND_LINK = Mechanism(
    text("Power or link: power supply, cables, riser, slot, external case, PCIe power saving (ASPM)"),
    text("sudo dmesg | grep -iE 'aer|pcie bus error'; another slot and cable without riser; under load with a lower power limit (nvidia-smi -pl)"),
    sign=r"riser|\bAER\b|PCIe|egpu|thunderbolt|ASPM|fallen off",
    codes=("card-lost", "power-transition"),
)  # fmt: skip
_FAULTY_CARD = Mechanism(
    text("The card is faulty: it fails alone, in other machines and with other programs, too"),
    text("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT; swap two cards: does the fault move with the card? dcgmi diag -r 3"),
    sign=r"ECC|remap|retire|DBE|double.bit|again|every",
    codes=("card-fault", "ecc"),
)  # fmt: skip
_DRIVER_FAULT = Mechanism(
    text("A fault of this driver release or of its firmware (GSP), which another release of the branch does not have"),
    text("nvidia-smi (release), the release notes of newer ones; did it begin with an update of driver or kernel?"),
    sign=r"GSP|RPC|firmware|after (?:the )?(?:update|upgrade)",
    codes=("driver-firmware",),
)  # fmt: skip
_AFTER_SUSPEND = Mechanism(
    text("The card came back from a suspend or from power saving in a wrong state"),
    text("sudo dmesg | grep -iE 'suspend|resume|PM:' | tail; nvidia-suspend and nvidia-resume services; NVreg_DynamicPowerManagement"),
    sign=r"suspend|resume|sleep|D3|laptop|notebook",
    codes=("power-transition",),
)  # fmt: skip
_GUEST = Mechanism(
    text("A virtual machine or a vGPU: reset, memory window or licence of the passed-through card"),
    text("the hypervisor's log; does it happen on the host itself? nvidia-smi -q | grep -iE 'vgpu|license'"),
    sign=r"vfio|qemu|kvm|vgpu|proxmox|hypervisor|virtual|VMware|xen",
    codes=("passthrough", "vgpu"),
)  # fmt: skip

FAULTS = (
    Family(
        text("The driver stopped a program on the card (Xid)"),
        r"Xid \([^)]*\): (?:8|13|31|32|37|43|45|69|109)\b",
        ("xid",),
        (
            Mechanism(text("A kernel of the program reads or writes outside its memory, or does what the card cannot do"), text("compute-sanitizer PROGRAM; export CUDA_LAUNCH_BLOCKING=1; does another program run without it?"), sign=r"name=python|compute|MMU Fault|FAULT_PDE", codes=("xid",)),
            _CLOCKS,
            Mechanism(text("An extension or library was built for another CUDA, torch or card, or has a fault in this release"), text("pip list | grep -iE 'torch|flash|xformers|triton|cuda'; the same job without the extension"), sign=r"python|torch"),
            _DRIVER_FAULT,
            _AFTER_SUSPEND,
            Mechanism(text("It only follows another error: an earlier Xid, a killed program, memory that ran out"), text("sudo dmesg | grep -iE 'xid|oom' | head -20   # the first one counts"), sign=r"\): (?:43|45)\b"),
            Mechanism(text("The kernel ran too long on a card with a display"), text("a smaller step; a card without a display"), sign=r"\): 8\b|timeout|Xorg|compositor", codes=("launch-timeout",)),
            Mechanism(text("Memory of the host is faulty or overclocked (XMP), or the IOMMU disturbs transfers"), text("memtest; sudo dmesg | grep -iE 'mce|IO_PAGE_FAULT|DMAR'"), sign=r"IO_PAGE_FAULT|DMAR|mce"),
            _FAULTY_CARD,
        ),
        stands_alone=False,
    ),
    Family(
        text("The driver reports a fault of the card or of its connection (Xid)"),
        r"Xid \([^)]*\): (?:38|48|54|56|57|58|6[0-8]|74|79|9[2-5]|1[0-9]\d)\b",
        ("xid", "card-lost", "driver-firmware"),
        (
            _POWER_AND_LINK,
            _CLOCKS,
            _FAULTY_CARD,
            _DRIVER_FAULT,
            _AFTER_SUSPEND,
            _GUEST,
            Mechanism(text("NVLink or NVSwitch: a bridge that is loose, a link that fails, Fabric Manager of another version"), text("nvidia-smi nvlink -s; nvidia-smi nvlink -e; systemctl status nvidia-fabricmanager"), sign=r"NVLink|\): 74\b|fabric", codes=("fabric",)),
            Mechanism(text("A program with a fault: only one program brings it about"), text("does another program run without it for as long? compute-sanitizer PROGRAM"), sign=r"name=\w+"),
        ),
        stands_alone=False,
    ),
    Family(
        text("The IOMMU or PCIe rejected a transfer of the card"),
        r"IO_PAGE_FAULT|\bDMAR: \[|AMD-Vi: Event|DMAR:[^\n]*(?:fault|error)|\bswiotlb\b[^\n]*(?:full|overflow)|NVRM:[^\n]*(?:DMA|dma)[^\n]*(?:fail|error|mask)",
        ("pcie-topology",),
        (
            Mechanism(text("The IOMMU does not let the cards write into each other's memory (peer to peer), so jobs on several cards hang or compute wrongly"), text("NCCL_P2P_DISABLE=1 in front: does the job run then? sudo dmesg | grep -iE 'iommu|AMD-Vi|DMAR' | head   # the remedy: iommu=pt, or the IOMMU off in the firmware, where no virtual machine needs it"), sign=r"nvidia|nccl|AMD-Vi"),
            Mechanism(text("The firmware (BIOS) or the kernel has a fault in this: an update is needed"), text("sudo dmidecode -s bios-version; the board maker's notes; another kernel"), sign=r"DMAR|BIOS"),
            Mechanism(text("A virtual machine: the card's memory is not mapped completely, or the card was not reset"), text("the hypervisor's log; does it happen on the host itself?"), sign=r"vfio|kvm|qemu"),
            _POWER_AND_LINK,
            _FAULTY_CARD,
        ),
    ),
    Family(
        text("OpenCL failed while a program computed"),
        r"CL_(?:OUT_OF_RESOURCES|OUT_OF_HOST_MEMORY|MEM_OBJECT_ALLOCATION_FAILURE|BUILD_PROGRAM_FAILURE|INVALID_(?:COMMAND_QUEUE|PROGRAM\w*|KERNEL\w*|WORK_GROUP_SIZE|WORK_ITEM_SIZE|BUFFER_SIZE|BINARY)|COMPILER_NOT_AVAILABLE|EXEC_STATUS\w*)|clBuildProgram\w*[^\n]*|clEnqueue\w+[^\n]*|clFinish[^\n]*|clCreateBuffer[^\n]*|clWaitForEvents[^\n]*|self-?test failed",
        ("opencl",),
        (
            Mechanism(text("The card's memory is full, or one piece is larger than the driver gives (a quarter of it on many cards)"), text("clinfo | grep -E 'Global memory size|Max memory allocation'; other programs: nvidia-smi, radeontop; a smaller batch, tile or DAG"), sign=r"ALLOCATION|OUT_OF|clCreateBuffer|-4\b|-5\b|-6\b|-61\b", codes=("out-of-memory",)),
            Mechanism(text("The kernel needs more registers, local memory or work items than this card has"), text("clinfo | grep -E 'Max work group|Local memory size'; the program's setting for worksize or intensity"), sign=r"OUT_OF_RESOURCES|WORK_GROUP|WORK_ITEM|-5\b|-54\b"),
            Mechanism(text("The driver's compiler does not accept the kernel: another driver release, or a setting of the program for this card"), text("the build log above the error; did it begin with a driver update? another release of the driver"), sign=r"BUILD_PROGRAM|clBuildProgram|-11\b|-3\b|COMPILER|error:"),
            Mechanism(text("The kernel ran too long and the driver was reset (Windows: TDR), or it wrote outside its memory"), text("Windows: event log (Display, nvlddmkm, amdkmdag); smaller steps; dmesg"), sign=rf"COMMAND_QUEUE|-36\b|-9999|{WINDOWS}"),
            Mechanism(text("A binary or cache of another driver or card is used"), text("delete the program's kernel cache (*.bin, *.kernel), ~/.nv/ComputeCache, ~/.cache/pocl, ~/.cache/neo_compiler_cache"), sign=r"BINARY|PROGRAM_EXECUTABLE|-42\b|-45\b|-46\b"),
            Mechanism(text("OpenCL takes another device than is meant: the processor's graphics or the processor itself"), text("clinfo -l; the program's option for platform and device"), sign=r"Intel|pocl|iGPU|CPU"),
            _CLOCKS,
            Mechanism(text("The driver's OpenCL part is damaged or of another version than the kernel module"), text("clinfo fails, too? ls /etc/OpenCL/vendors; Windows: install the driver cleanly"), sign=r"clinfo|self-?test"),
        ),
    ),
)  # fmt: skip
