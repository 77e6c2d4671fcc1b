"""Situations of cards that no current driver serves: the generations before Kepler, and code that was never made for them.

The last branches are NVIDIA's: R304 for GeForce 6 and 7, R340 for the first CUDA cards (GeForce 8 to 300, Quadro FX; CUDA up to
6.5), R390 for Fermi (GeForce 400 and 500; CUDA up to 8.0). Source: NVIDIA, "Unix Legacy GPU"; CUDA release notes.
"""

from __future__ import annotations

from ownlab.instruments.doctor.situations.situation import Situation
from ownlab.text import text

__all__ = ["LEGACY_CARDS"]

# GeForce 8 and 9, 100 to 300, Quadro FX, NVS and the first Tesla cards: compute capability 1.x.
_FIRST_CUDA = (
    r"\bGeForce (?:GT |GTS |GTX |G)?(?:8[2-8]00|9[1-8]00)\b|\bGeForce (?:G ?1\d\d|GT ?[123][1-4]0|GTS ?(?:[123][1-6]0)|GTX ?2[6-9][05]|2[01]0|3[012]\d)M?\b"
    r"|\bQuadro FX ?\d{3,4}|\bNVS (?:1\d\d|2\d\d|300|4[245]0)M?\b|\bQuadro CX\b|\bTesla [CMS](?:870|10[67]0)\b|\bcapability[^\n]{0,12}\b1[., ]{1,2}[0-3]\b"
)
_FERMI = (
    r"\bGeForce (?:GTS? ?4[0-5]0M?|GTX? ?4[6-8]\dM?|GTX? ?5[0-9][05]M?|4\d\dM|GT ?(?:6[1-3][05]|7[12]0)M)\b|\bQuadro (?:600|[24567]000)\b|\bTesla [CMS]20[5-9]0\b"
    r"|get_device_capability[\s\S]{0,80}\(2, ?[01]\)|\bcapability\W{1,3}2\.[01]\b"
)
_NEWER = r"\bRTX\b|\bGTX ?(?:[679][5-9]0|6[5-9]0|10\d0|16\d0)\b|\bTesla [KMPVT]\d|\bTITAN\b|\b(?:A100|A40|H100|H200|L40S?|V100|P100|T4)\b"
_FAILS = r"insufficient|unsatisfied condition|not (?:supported|compatible)|will ignore\b|no (?:supported )?CUDA|no kernel image|invalid device function|unsupported gpu|too old|is_available\(\)\W*\n?\W*False|CUDA (?:driver )?error|has failed|No devices were found"
_REPLACED = (
    "image-needs-driver", "driver-old", "card-unsupported", "module-load", "device-request", "no-kernel", "harmless", "no-smi",
    "persistence", "driver-end", "no-driver", "card-too-old", "container-toolkit", "unknown-message", "no-visible-gpu", "torch-no-gpu",
)  # fmt: skip

LEGACY_CARDS: tuple[Situation, ...] = (
    Situation(
        "card-unsupported",
        (r"supported through the NVIDIA (?:71|96|173|304|340)\.\S+ Legacy",),
        text("This card is served by a legacy branch that has ended (R340 or older): no current driver and no current CUDA runs on it"),
        text("The kernel log names the branch. Neither R470 nor R390 nor a newer one knows the card, and the branch itself does not build on current kernels."),
        (
            text("For the screen: nouveau, the kernel's own driver. Remove NVIDIA's packages, and what blacklists nouveau (grep -rs nouveau /etc/modprobe.d)."),
            text("CUDA (up to 6.5) only with an old system whose kernel the branch builds on. For today's frameworks: the CPU, or another card."),
        ),
        _REPLACED,
    ),
    Situation(
        "card-too-old",
        (_FIRST_CUDA, _FAILS),
        text("The card is of a generation that no driver after R340 serves: it cannot run today's CUDA"),
        text("Its last driver is R340, with CUDA up to 6.5. Containers, toolkits and frameworks that ask for a newer driver never run on it: there is no newer driver."),
        (
            text("Do not update the driver: a newer branch ignores the card. Run on the CPU, or use another card (Turing or newer for current builds)."),
        ),
        _REPLACED,
        unless=_NEWER,
        while_working=True,
    ),
    Situation(
        "toolkit-arch",
        (r"Unsupported gpu architecture 'compute_21'",),
        text("There is no compute_21: code for sm_21 is made from compute_20"),
        text("Cards of capability 2.1 (Fermi) run code for sm_21, which nvcc makes from the architecture compute_20. The build asks for a pair that no toolkit has."),
        (
            text("Compile with: -gencode=arch=compute_20,code=sm_21   # or -arch=sm_20; CUDA 3.2 to 8.0 can; 9.0 and newer have no Fermi"),
            text("Where the build takes the number from the card (2.1), give it 2.0. A newer CUDA does not help."),
        ),
        ("toolkit-arch", "extension-build", *_REPLACED),
        blocks=False,
    ),
    Situation(
        "card-too-old",
        (_FERMI, _FAILS),
        text("The card is of the Fermi generation (capability 2.x): today's frameworks and CUDA have no code for it"),
        text("Its last driver is R390, its last toolkit CUDA 8.0. torch needs 3.5 and newer builds more, though it says that the card is there; TensorFlow needs 3.5."),
        (
            text("Run on the CPU, or use another card (Turing or newer for current builds). Installing driver, CUDA or the framework again does not help."),
        ),
        (*_REPLACED, "module-build"),
        unless=_NEWER + r"|compute_2[01]|sm_2[01]|Bad return status|\bdkms\b",
        while_working=True,
    ),
)  # fmt: skip
