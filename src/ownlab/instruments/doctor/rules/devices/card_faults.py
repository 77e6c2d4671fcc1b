"""The rule about signs of failing hardware that the driver's own error numbers do not cover."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["CardFault"]


class CardFault(CauseRule):
    """Signs of failing hardware: errors on the PCIe bus or NVLink, a damaged information memory, readings that fail.

    **Why it matters.** A card may work for hours and then disappear. Corrected bus errors, "ERR!" readings and a corrupted
    infoROM announce it, or show a bad riser, cable or power supply.

    **What to do.** Reseat the card, go without a riser, check power cables and temperature; then replace the part.

    **Sources.** Linux, Documentation/PCI/pcieaer-howto; NVIDIA, "GPU debug guidelines"; nvidia-smi(1), infoROM.
    """

    code = "card-fault"
    severity = "error"
    title = text("The hardware shows signs of failure")
    causes = (
        Cause(
            r"infoROM is corrupted|InfoROM (?:corrupt|checksum)|Xid[^\n]*: 93\b",
            text("The card's information memory (infoROM) is corrupted"),
            text(
                "Serial numbers, ECC counters and settings of the card are unreliable. The card often works nevertheless."
            ),
            (
                text("Power the machine off completely, start it, and look again: nvidia-smi"),
                text(
                    "If it stays: have the card flashed or replaced by its manufacturer. ECC settings may not be kept."
                ),
            ),
        ),
        Cause(
            r"power cables? connected|connect the PCIe power|does not have the necessary power|auxiliary power[^\n]*not connected|insufficient power",
            text("The card's power cables are not connected, or give too little power"),
            text(
                "The card needs its own cables from the power supply; without them it does not start or drops off the bus."
            ),
            (
                text(
                    "Power the machine off; connect every power socket of the card with its own cable (no splitters), check that the power supply is strong enough."
                ),
            ),
        ),
        Cause(
            r"Retired Pages[\s\S]{0,300}Pending\s*: Yes|Detected Critical Xid Error|GPU requires reset|Pending Page Blacklist\s*: Yes|Remapping Failure Occurred\s*: Yes|row[- ]remap\w* (?:fail|pending)|GPU \d+ is (?:currently )?in (?:an )?error state|GPU Reset Required|GPU \d+: FAULTY|dcgmi?[^\n]*Fail[^\n]*|page retirements|Double Bit ECC\s*:\s*[1-9]",
            text("The card must be reset, and may have defective memory"),
            text(
                "The driver has taken memory cells out of use, or the card stopped after an error; it works again after a reset."
            ),
            (
                text("Stop all programs on it; sudo nvidia-smi -r -i N; or reboot."),
                text("nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER; if the numbers grow, have the card replaced."),
            ),
        ),
        Cause(
            r"uncorrectable NVLink error|NVLink[^\n]*(?:fatal|uncorrectable)[^\n]*|cudaErrorNvlinkUncorrectable|SXid \(PCI|nvidia-nvswitch[^\n]*(?:[Ff]atal|LTSSM|error)",
            text("An NVLink between the cards has uncorrectable errors"),
            text("The link, its bridge or one of the cards is defective, or the fabric is in a bad state."),
            (
                text(
                    "nvidia-smi nvlink -e; sudo nvidia-smi -r (or reboot); reseat the bridge; then contact the manufacturer."
                ),
                text("To work without it: export NCCL_P2P_DISABLE=1"),
            ),
        ),
        Cause(
            r"DIMM\w*[^\n]*(?:Assertion|[Uu]ncorrectable|ECC)|uncorrectable memory error @|mce: \[Hardware Error\]|EDAC \w+: \d+ (?:CE|UE)|CPUs not responding to MCE|Fatal Machine check|Uncorrected hardware memory error|Machine check events logged|\[Hardware Error\]: ",
            text("The machine's own memory or processor reports errors"),
            text("These are errors of RAM, CPU or bus, not of the card; they crash programs and whole machines."),
            (
                text("sudo apt-get install -y rasdaemon; sudo ras-mc-ctl --errors   # names the memory module"),
                text("Test the memory (memtest86+), go without overclocking (XMP), and have the part replaced."),
            ),
        ),
        Cause(
            r"(?<!npm )\bERR!\s",
            text("nvidia-smi cannot read the card's sensors (ERR!): the card has hung or is losing its connection"),
            text(
                "The card no longer answers some questions: it overheated, hung, or has a bad connection or too little power."
            ),
            (
                text(
                    "Power the machine off completely, wait, and start it again; sudo dmesg | grep -iE 'xid|nvrm' shows the reason."
                ),
                text("If it happens again: check power cables, riser, slot and cooling."),
            ),
        ),
        Cause(
            r"PCIe Bus Error: severity=|AER: (?:Multiple )?(?:Corrected|Uncorrected)|AER:[^\n]*error[^\n]*received|RxErr|BadTLP|BadDLLP|Replay Timer Timeout|LnkSta:[^\n]*downgraded",
            text("The PCIe connection of a device has errors: slot, riser or power saving"),
            text(
                "The bus repeats damaged packets. Corrected errors cost speed; many of them announce that a card will drop off the bus."
            ),
            (
                text(
                    "See which device it is: lspci -s BUS (the number in the message). Reseat it, go without a riser or extender."
                ),
                text(
                    "Set the slot to a lower PCIe generation in the firmware; try the kernel parameter pcie_aspm=off. Do not only hide the messages (pci=noaer)."
                ),
            ),
        ),
    )
