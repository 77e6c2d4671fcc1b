"""Rules about AMD cards and ROCm: chips without code, PCIe atomics, faults, and libraries of another release."""

from __future__ import annotations

import re

from ownlab.instruments.doctor.records import Case
from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.machine.facts import value_of
from ownlab.text import text

__all__ = ["AmdCardFault", "RocmAtomics", "RocmLibraries", "RocmWsl"]

_OVERRIDE = text(
    "export HSA_OVERRIDE_GFX_VERSION=10.3.0   # RDNA 2 (gfx103x); 11.0.0 for RDNA 3 (gfx110x); 9.0.0 for Vega graphics in Ryzen CPUs;"
    " 10.1.0 for gfx101x; AMD does not support this"
)

# The chips whose code another chip of the same family can run, as HSA_OVERRIDE_GFX_VERSION names that other chip.
_CHIP = re.compile(r"\bgfx\d{3,4}[a-f]?\b")
_SIBLINGS = {"gfx90c": "9.0.0", "gfx101": "10.1.0", "gfx103": "10.3.0", "gfx110": "11.0.0"}


class RocmAtomics(CauseRule):
    """The kernel leaves an AMD card out of computing, because its slot has no PCIe atomics.

    **Why it matters.** ROCm needs atomic operations over PCIe on many cards (gfx8; newer ones in some firmware). Boards with
    PCIe 2, slots behind the chipset, risers and Thunderbolt do not pass them on.

    **What to do.** Use a slot that is wired to a CPU with PCIe 3 or newer, without a riser; or a card that does not need them.

    **Sources.** ROCm documentation, "How ROCm uses PCIe atomics"; ROCm/ROCm#192, #364, #939; drivers/gpu/drm/amd/amdkfd.
    """

    code = "rocm-atomics"
    severity = "error"
    title = text("The card's slot has no PCIe atomics, which ROCm needs")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"PCI rejects atomics|PCI[eE]? atomic(?:s| ops)?[^\n]*(?:not supported|unsupported|reject)|kfd[^\n]*skipped device",
            text("The card's slot does not support PCIe atomics, so ROCm cannot use the card"),
            text(
                "The kernel's compute driver (KFD) skipped this card: between it and the CPU, something does not pass atomic operations on."
            ),
            (
                text(
                    "Put the card into a slot that is wired to the CPU (PCIe 3 or newer), without riser or extender; check: sudo lspci -vvv | grep -i atomic"
                ),
                text(
                    "If the board has no such slot: another board, or a newer card; cards from Vega 10 on need atomics less often, with current firmware and ROCm."
                ),
            ),
        ),
    )


class RocmWsl(CauseRule):
    """ROCm does not start in WSL: this distribution, card or release is not supported there.

    **Why it matters.** In WSL there is no amdgpu module and no /dev/kfd. AMD supports some Radeon cards there, with certain
    Windows drivers, ROCm releases and Ubuntu versions only.

    **What to do.** Follow AMD's list for WSL exactly, or use Linux itself.

    **Sources.** rocm.docs.amd.com, "Radeon: WSL support matrices"; ROCm/ROCm#3561, #1361.
    """

    code = "rocm-wsl"
    severity = "error"
    title = text("ROCm does not start in WSL")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"librocdxg\S*: (?:undefined symbol|cannot open)|WSL environment detected\.?\s[\s\S]{0,300}(?:hsa api call failure|HSA_STATUS_ERROR)",
            text("ROCm does not start in WSL: librocdxg, the distribution, the card or the ROCm release does not fit"),
            text(
                "AMD supports WSL only with certain Radeon cards, Windows drivers, ROCm releases and Ubuntu versions."
            ),
            (
                text(
                    "Use Ubuntu 22.04 or 24.04 in WSL, AMD's Windows driver for WSL, and the ROCm release for WSL: https://rocm.docs.amd.com/projects/radeon/en/latest/docs/compatibility/wsl/wsl_compatibility.html"
                ),
                text(
                    "librocdxg must be of the release that belongs to the ROCm runtime (also from TheRock's wheels), and its folder on the loader's path: export LD_LIBRARY_PATH=FOLDER:$LD_LIBRARY_PATH"
                ),
                text("Or use Linux itself."),
            ),
        ),
    )


class RocmLibraries(CauseRule):
    """ROCm's libraries have no code for this chip, or belong to another release.

    **Why it matters.** rocBLAS, MIOpen and the frameworks contain code for a list of chips (gfx numbers). Other Radeon cards
    and graphics in Ryzen CPUs are recognised, and then fail with "Tensile", "no binary", "invalid ISA" or a crash.

    **What to do.** Let the card run the code of its supported sibling (HSA_OVERRIDE_GFX_VERSION), use a build for the chip, or
    hide graphics that are part of the CPU with HIP_VISIBLE_DEVICES.

    **Sources.** ROCm documentation, "System requirements"; ROCm/rocBLAS#1331; ROCm/HIP#3282.
    """

    code = "rocm-libraries"
    severity = "error"
    title = text("ROCm's libraries have no code for this chip")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"(?:Tensile|rocBLAS|hip(?:BLAS|Error)|HIP error|no kernel image|not supported)[^\n]*\bgfx(?:1036|1037|902|909)\b|\bgfx(?:1036|1037|902|909)\b[^\n]*(?:Tensile|rocBLAS|not supported|not found)",
            text("ROCm takes the graphics that are part of the CPU, for which its libraries have no code"),
            text(
                "The chip in the message is the small one inside a Ryzen CPU. HIP counts it as a device, and often takes it before the Radeon card beside it."
            ),
            (
                text(
                    "With a Radeon card beside it: HIP_VISIBLE_DEVICES=1 before the program starts (0 or 1, whichever is the card; hipInfo and rocminfo list them), or turn the integrated graphics off in Windows' device manager or in the firmware."
                ),
                text(
                    "Without another card: the CPU, or a program with Vulkan; copied library files for this chip do not help beside a card."
                ),
            ),
        ),
        Cause(
            r"TensileLibrary\S*[^\n]*(?:not found|No such file|Cannot read)|rocBLAS error|Cannot read \S*TensileLibrary|No paths matched [^\n]*rocblas/library|Could not (?:load|initialize) Tensile|hipErrorNoBinaryForGpu|Unable to find code object|HSA_STATUS_ERROR_INVALID_(?:ISA|CODE_OBJECT)|device kernel image is invalid[^\n]*hip|HIP error: (?:invalid device function|no kernel image)|amdgpu(?: version)? is not supported|unsupported Radeon iGPU|gfx\d+[a-f]? (?:is )?not (?:supported|found)|LLVM ERROR: Cannot select[^\n]*gfx|unsupported AMD GPU architecture|HIP error: shared object initialization failed|hipErrorSharedObjectInitFailed|hipErrorInvalid(?:Image|DeviceFunction|KernelFile)|HIP error: the operation cannot be performed in the present state|Illegal instruction detected: Operand|\w+ not supported in kfd|kfd[^\n]*not supported in kfd|Memory access fault by GPU node[^\n]*gfx",
            text("ROCm's libraries have no code for this Radeon"),
            text(
                "The card is not on ROCm's list (or the framework was built for other chips). It must be addressed as its supported sibling, or the library be built for it."
            ),
            (
                _OVERRIDE,
                text(
                    "See the chip: rocminfo | grep gfx. Or install a build for it (TheRock's or the distribution's packages for gfx110X, gfx120X, gfx1151)."
                ),
            ),
        ),
        Cause(
            r"lib(?:amdhip64|MIOpen|rocblas|hipblas\w*|rccl|rocm_smi64|hsa-runtime64|hipfft|rocsparse|hiprtc|amd_comgr)\.so\S*: cannot open|lib(?:amdhip64|MIOpen|rocblas|hipblas\w*|rccl|rocm_smi64|hsa-runtime64)\S*: undefined symbol",
            text("A library of another ROCm release is needed"),
            text(
                "The program was built for another ROCm than is installed, or ROCm's folder is not on the loader's path."
            ),
            (
                text(
                    "ls /opt | grep rocm; cat /opt/rocm/.info/version; then install the build of the program for that ROCm (torch: index rocmX.Y)."
                ),
                text("Or: echo /opt/rocm/lib | sudo tee /etc/ld.so.conf.d/rocm.conf; sudo ldconfig"),
            ),
        ),
        Cause(
            r"(?:SIGSEGV|Segmentation fault|core dumped)[\s\S]{0,400}lib(?:amdhip64|hsa-runtime64|rocblas|MIOpen)|lib(?:amdhip64|hsa-runtime64)\.so\S*[\s\S]{0,200}(?:SIGSEGV|Segmentation fault|signal 11)",
            text(
                "ROCm crashes: usually graphics that are part of the CPU, or a chip without code, is used as a device"
            ),
            text(
                "Integrated graphics are not supported by ROCm, but are counted as a device; libraries without code for a chip crash."
            ),
            (
                text(
                    "List the devices: rocminfo | grep -E 'Marketing|gfx'; use only the supported cards: export HIP_VISIBLE_DEVICES=0   # their numbers"
                ),
                text(
                    "If the integrated chip is to be used: export HSA_OVERRIDE_GFX_VERSION=9.0.0 (Vega in Ryzen), 10.3.0 (RDNA 2), 11.0.0 (RDNA 3)"
                ),
            ),
        ),
        Cause(
            r"Failed to load module \"?amdgpu|amdgpu[^\n]*(?:Fatal error during GPU init|Failed to create process VM object|probe of \S+ failed|hw_init[^\n]*failed)|rocm-smi: command not found|rocminfo: command not found",
            text("The AMD driver or ROCm is not installed, or cannot start the card"),
            text(
                "The kernel module amdgpu is missing, fails on this card (firmware, kernel), or ROCm's tools are not installed."
            ),
            (
                text(
                    "sudo dmesg | grep -iE 'amdgpu|kfd' | tail -30; update kernel and linux-firmware; install ROCm: https://rocm.docs.amd.com"
                ),
                text("export PATH=$PATH:/opt/rocm/bin   # if it is installed"),
            ),
        ),
        Cause(
            r"AMD_COMGR_ACTION_\w+: ERROR|MIOpen\(HIP\): Error|MIOpen Error|miopenStatus\w+|Code object build failed",
            text("MIOpen, ROCm's library for neural networks, cannot compile its kernels"),
            text(
                "The chip is not supported, the compiler parts of ROCm are missing, or the cache of kernels is broken or of another release."
            ),
            (
                text(
                    "rm -rf ~/.cache/miopen ~/.config/miopen; install ROCm's miopen-hip for the installed release; an unsupported chip needs HSA_OVERRIDE_GFX_VERSION"
                ),
            ),
        ),
        Cause(
            r"hsa_init Failed|HIP_ERROR_NoDevice|failed call to hipInit|Unable to find libamdhip64|hipErrorInsufficientDriver|hipErrorNotInitialized|Incompatible kernel and userspace|No HIP GPUs are available|hipErrorNoDevice|hipErrorInvalidDevice|HSA_STATUS_ERROR_OUT_OF_RESOURCES|hsa api call failure|hipErrorInitializationError|no ROCm-capable device",
            text("ROCm finds no card that this user can open"),
            text(
                "The groups render and video are missing, /dev/kfd is not there (container), the module amdgpu is not loaded, or a variable hides the card."
            ),
            (
                text("ls -l /dev/kfd /dev/dri; groups; then: sudo usermod -aG render,video $USER, and log in again"),
                text(
                    "Container: --device=/dev/kfd --device=/dev/dri. Otherwise: sudo dmesg | grep -iE 'kfd|amdgpu'; rocminfo"
                ),
            ),
        ),
    )

    def fix_of(self, cause: Cause, case: Case) -> tuple[str, ...]:
        """Offer the override only where a supported sibling exists: not on Windows, and not for chips that have none."""
        if _OVERRIDE not in cause.fix:
            return cause.fix
        chips = {match[0] for message in case.messages for match in _CHIP.finditer(message.text)}
        siblings = {sibling for chip in chips for start, sibling in _SIBLINGS.items() if chip.startswith(start)}
        others = tuple(step for step in cause.fix if step != _OVERRIDE)
        if value_of(case.machine.host.family) == "windows" or (chips and not siblings):
            return others
        own = [
            f"export HSA_OVERRIDE_GFX_VERSION={sibling}   # before the program starts" for sibling in sorted(siblings)
        ]
        return (*(own or [_OVERRIDE]), *others)


class AmdCardFault(CauseRule):
    """An AMD card hung or was reset by its driver.

    **Why it matters.** All programs on the card end. Single events are often errors of a program or of power management;
    repeated ones are the driver, power supply or heat.

    **What to do.** Update kernel and firmware; look at power and temperature; try without overclocking and power saving.

    **Sources.** Linux, Documentation/gpu/amdgpu; ROCm issues on page faults and ring timeouts.
    """

    code = "amd-fault"
    severity = "error"
    title = text("The AMD card hung")
    causes = (
        Cause(
            r"ring \S+ timeout|amdgpu[^\n]*GPU reset (?:begin|succeeded|failed)|amdgpu[^\n]*(?:gpu hang|GPU recovery|page fault|parser|VM_L2_PROTECTION_FAULT)|Memory access fault by GPU node|HW Exception by GPU node|HSA_STATUS_ERROR_EXCEPTION|GPU Hang|HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION|aborting with error : HSA_STATUS",
            text("The AMD card hung, or a program accessed memory that does not exist"),
            text(
                "The driver stopped the program, or reset the card. On unsupported chips, a wrong HSA_OVERRIDE_GFX_VERSION does the same."
            ),
            (
                text(
                    "sudo dmesg | grep amdgpu | tail -40; update kernel, linux-firmware and ROCm; run without overclocking."
                ),
                text(
                    "Try: export HSA_ENABLE_SDMA=0; the kernel parameters amdgpu.runpm=0 and amdgpu.ppfeaturemask without overdrive; no HSA_OVERRIDE on a supported card."
                ),
            ),
        ),
    )
