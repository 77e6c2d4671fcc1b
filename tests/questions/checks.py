"""What the answers to the sixty questions must show, as patterns over what the commands print.

The questions, the hand-worked figures with their ranges, and the sentences are in held.json and stay as they were written. Here
stands, for each of them, where its figures are found in an answer (`figures`, by the name that held.json gives them), which words
say what must be said, and which would say what must not be said. A number before a pattern is that of the command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Place = tuple[int, str]


class Checks(NamedTuple):
    """The checks of one question. A figure is the first group of its pattern; a second group is its unit."""

    figures: Mapping[str, Place] = MappingProxyType({})
    says: tuple[Place, ...] = ()
    never: tuple[Place, ...] = ()
    further: tuple[str, ...] = ()  # commands in addition to those of held.json, with the next numbers
    without: frozenset[str] = frozenset()  # figures of held.json that no command of the question prints


_QLORA = "--weights nf4 --lora r=16 --checkpointing"
_SIZE = r"([\d.]+) ([GM]iB)"
ALLOCATED, RESERVED, ON_CARD = _SIZE + " allocated", _SIZE + " reserved", _SIZE + " on the card"
PARAMETERS = r"parameters +([\d.]+)"


def speed(card: str) -> str:
    """The speed of a card in a ladder."""
    return rf"(?m)^  {card} +\d+ GB .*?█\S* +([\d.]+) [●○]"


def fits(card: str, verdict: str) -> str:
    """The verdict for a card."""
    words = re.sub(r"\bno\b(?=$|[|)])", "does not fit", verdict)
    return rf"(?m)^  {card}  .*?(?:GiB|MiB)  +{words}\b"


CHECKS: dict[str, Checks] = {
    "F01": Checks(
        {
            "peak allocated GiB": (0, ALLOCATED),
            "peak reserved GiB": (0, RESERVED),
            "usable memory of T4 GiB": (0, r"T4 +" + _SIZE),
        },
        ((0, fits("T4", "(tight|no)")), (1, fits("T4", "(tight|no)")), (1, "no bf16 units: use amp-fp16")),
        ((0, fits("T4", "fits")), (1, fits("T4", "fits"))),
    ),
    "F02": Checks(
        {"peak allocated GiB": (0, ALLOCATED), "on the card GiB": (0, ON_CARD)},
        (
            (0, fits("T4", "no")),
            (0, fits("RTX 3090", "fits")),
            (1, r"any with 24 GiB .*fits"),
            (1, r"sold with 16 GB they can use 14\.6 to"),
        ),
        ((0, fits("T4", "fits")),),
    ),
    "F03": Checks(
        {
            "fp32 allocated GiB": (0, ALLOCATED),
            "fp32 reserved GiB": (0, RESERVED),
            "amp allocated GiB": (1, ALLOCATED),
            "amp reserved GiB": (1, RESERVED),
        },
        ((0, fits("RTX 3080 Ti", "(tight|no)")), (0, fits("RTX 3090", "fits")), (1, fits("RTX 3080 Ti", "fits"))),
    ),
    "F04": Checks(
        {
            "pure bf16, default AdamW: peak allocated GiB": (0, ALLOCATED),
            "pure bf16, fused: peak allocated GiB": (2, ALLOCATED),
            "amp-bf16, default AdamW: peak allocated GiB": (1, ALLOCATED),
        },
        (
            (0, r"parameters +8\.03 G"),
            (0, r"A100 80GB SXM4 .*(tight|fits +\d+ MiB left)"),
            (1, fits("A100 80GB SXM4", "no")),
            (2, fits("A100 80GB SXM4", "fits")),
        ),
    ),
    "F05": Checks(
        {
            "weights GiB": (0, r"weights +" + _SIZE),
            "KV cache for 4096 tokens GiB": (0, _SIZE + r" for 2048 \+ 2048 tokens"),
            "total on the card GiB": (0, ON_CARD),
        },
        ((0, fits("RTX 4090", "fits")), (0, fits("T4", "no")), (0, fits("V100 SXM2 16GB", "no"))),
    ),
    "F06": Checks(
        {"naive peak allocated GiB": (0, ALLOCATED), "fused peak allocated GiB": (1, ALLOCATED)},
        ((0, fits("RTX 3090", "no")), (1, fits("RTX 3090", "fits")), (0, fits("A100 80GB SXM4", "fits"))),
    ),
    "F07": Checks(
        {"QLoRA total GiB incl. context": (2, ON_CARD)},
        (
            (0, fits("T4", "fits")),
            (0, fits("RTX 3070", "too small")),
            (1, fits("RTX 3070", "too small")),
            (2, fits("T4", "fits")),
            (2, "computed from the rules of its library; nothing was quantized"),
        ),
        ((0, r"to buy +RTX 3070"), (1, "bf16")),
        (f"ownlab fit hf:llama3_8b.json {_QLORA} --precision fp16 --batch 1 --seq 512 --cards T4,3070 --python TORCH",),
    ),
    "F08": Checks(
        {
            "trainable parameters": (0, r"([\d.]+ M) of them are trained"),
            "peak allocated GiB": (0, ALLOCATED),
            "optimizer state + gradients GiB": (0, r"optimizer +" + _SIZE),
        },
        ((0, fits("RTX 4090", "fits")), (0, fits("T4", "no"))),
    ),
    "F09": Checks(
        {"AdamW peak allocated GiB": (0, ALLOCATED), "8-bit AdamW peak allocated GiB": (1, ALLOCATED)},
        ((0, fits("RTX 4090", "no")), (1, fits("RTX 4090", "fits"))),
    ),
    "F10": Checks(
        {
            "batch 32 peak allocated GiB": (0, ALLOCATED),
            "largest batch on 2080 Ti": (1, r"The biggest batch that fits is (\d+) on the RTX 2080 Ti"),
        },
        ((0, fits("RTX 2080 Ti", "no")), (0, fits("RTX 3090", "fits"))),
    ),
    "F11": Checks(
        {"fp32 peak allocated GiB": (0, ALLOCATED), "amp peak allocated GiB": (1, ALLOCATED)},
        ((0, fits("RTX 3070", "no")), (1, fits("RTX 3070", "fits"))),
    ),
    "F12": Checks(
        {
            "AdamW peak allocated GiB (default foreach)": (0, ALLOCATED),
            "SGD without momentum peak GiB": (1, ALLOCATED),
        },
        (
            (0, fits("A100 40GB SXM4", "no")),
            (0, fits("A100 80GB SXM4", "fits")),
            (1, fits("RTX 3090", "fits")),
            (1, "sgd without momentum"),
        ),
        without=frozenset({"SGD with momentum peak GiB, if that is what is assumed"}),
    ),
    "F13": Checks(
        {"checkpointed peak allocated GiB": (0, ALLOCATED)},
        (
            (0, fits("RTX 2080 Ti", "fits")),
            (0, r"8\.855 T FLOPs"),  # 24 % more than without
            (2, r"7\.154 T FLOPs"),
            (0, fits("RTX 3070", "(no|tight)")),
            (2, fits("RTX 2080 Ti", "no")),
        ),
        further=("ownlab fit gpt2.py:build --precision amp-fp16 --cards 2080ti --python TORCH",),
        without=frozenset({"extra arithmetic %"}),
    ),
    "F14": Checks(
        {"per-card GiB under DDP": (0, ALLOCATED)},
        ((0, fits("RTX 3090", "no")), (1, fits("RTX 3090", "too small"))),
        ((0, "48 GB"), (1, "48 GB")),
        without=frozenset({"states per card under FSDP over 2 GiB"}),
    ),
    "F15": Checks(
        {"peak allocated GiB, default AdamW": (0, ALLOCATED), "fused GiB": (1, ALLOCATED)},
        ((0, fits("A100 40GB SXM4", "no")), (0, fits("A100 80GB SXM4", "no")), (0, fits("B200 SXM", "fits"))),
        without=frozenset({"states per card with FSDP over 8 GiB"}),
    ),
    "F16": Checks(
        {"reserved but unallocated GiB": (0, r"unused: " + _SIZE), "requested GiB": (0, r"requested: " + _SIZE)},
        ((0, "in pieces that are too small"), (0, "expandable_segments:True")),
        ((0, "(?i)larger card|other processes hold"),),
    ),
    "F17": Checks(
        {"other process GiB": (0, r"process 18842 holds " + _SIZE)},
        ((0, r"Other processes hold 11\.3 GiB"), (0, "end your own processes")),
        ((0, "pkill|killall|pieces that are too small"),),
    ),
    "F18": Checks({"biggest batch": (0, r"The biggest batch that fits is (\d+) on the RTX 4090")}),
    "F19": Checks(
        {"peak allocated GiB": (0, ALLOCATED), "on the card GiB": (0, ON_CARD)},
        ((0, fits("T4", "fits")), (0, "no bf16 units: use fp16"), (1, "bf16 tensor +no units for it")),
    ),
    "A01": Checks(
        {
            "sessions": (0, r"(\d+) sessions"),
            "weeks of quota touched": (0, r"over (\d+) weeks"),
            "earliest end in days": (0, r"\(([\d.]+) days from start to end\)"),
        },
        ((0, "It is free"), (0, "must write checkpoints"), (1, "free +Kaggle GPU T4"), (1, "leaves the other idle")),
        ((1, "free +Kaggle GPU P100"),),
        without=frozenset({"cost USD"}),
    ),
    "A02": Checks(
        {"sessions": (0, r"(\d+) sessions"), "earliest end in days": (0, r"over ([\d.]+) days")},
        ((1, "SageMaker Studio Lab +4 h per session, 4 h per day"),),
    ),
    "A03": Checks(
        {"cost of 30 T4 hours USD": (1, r"Colab units, T4\. It costs \$([\d.]+)")},
        (
            (0, r"T4 .*2026-03-10\n.*1\.19 units per hour"),  # 84 hours for 100 units
            (0, r"A100 40GB .*2026-03-10\n.*5\.4 units per hour"),  # 18.5 hours
            (1, "3 sessions"),
        ),
        without=frozenset({"T4 hours per 100 units", "A100 hours per 100 units"}),
    ),
    "A04": Checks(
        {"sessions at least": (0, r"free +Colab free, T4\..* (\d+) sessions")},
        ((0, "must write checkpoints"), (0, "not guaranteed"), (0, "not published")),
    ),
    "A05": Checks(
        {
            "tensor TFLOP/s L40": (1, r"bf16 tensor +([\d.]+)"),
            "tensor TFLOP/s L40S": (1, r"(?s)L40S\n.*?bf16 tensor +([\d.]+)"),
        },
        ((0, r"(?s)L40S .*L40  "),),
        without=frozenset({"speed ratio L40S/L40"}),
    ),
    "A06": Checks(
        {"B200 cost USD": (1, r"B200 SXM\. It costs \$([\d.]+)")},
        ((0, r"(?s)B200 SXM .*MI300X "), (0, r"MI300X .*○"), (2, "computed from the measured H200")),
        without=frozenset({"B200/MI300X speed in transformer training"}),
    ),
    "A07": Checks(says=((1, r"(?s)RTX 3090  .*RTX 3090 Ti"),), without=frozenset({"speed ratio"})),
    "A08": Checks(
        {"NVLink GB/s": (1, r"NVLink +([\d.]+) GB/s")},
        ((1, "as fast as an A100"), (1, "as fast as an H100"), (1, r"(?s)H800 SXM.*NVLink +400 GB/s"), (1, "FP64")),
        without=frozenset({"A800/A100 SXM speed", "H800/H100 SXM speed"}),
    ),
    "A09": Checks(
        says=((0, r"(?s)T4 .*Tesla P40"), (2, "No tensor cores"), (2, r"(?s)T4.*memory +16 GB.*P40.*memory +24 GB")),
        never=((2, r"(?s)Tesla P40.*bf16 tensor +\d"),),
        without=frozenset({"T4/P40 transformer training fp16", "P40/T4 decoding"}),
    ),
    "A10": Checks(
        {
            "H100 SXM": (0, speed("H100 SXM5")),
            "A100 80 SXM": (0, speed("A100 80GB SXM4")),
            "RTX 4090": (0, speed("RTX 4090")),
            "RTX 3090": (0, speed("RTX 3090")),
        },
        ((0, r"(?s)H100 SXM5 .*●.*A100 80GB SXM4 .*●.*RTX 4090 .*●.*RTX 3090 .*●"),),
    ),
    "A11": Checks(
        {
            "4090 cost USD": (0, r"cheapest +RunPod secure, RTX 4090\. It costs \$(\d+) to"),
            "3090 cost USD": (0, r"RTX 3090 .*h +\$(\d+) to"),
            "H100 SXM cost USD": (0, r"RunPod secure +H100 SXM5 .*h +\$(\d+) to"),
            "H100 SXM hours": (0, r"H100 SXM5 .*/h +(\d+) to"),
        },
        ((0, "fastest +RunPod .*, H100 SXM5"), (0, r"RTX 4090 .*2026-\d\d-\d\d")),
    ),
    "A12": Checks(
        {
            "v5e bf16 TFLOP/s per chip": (0, r"bf16 tensor +(\d+) TFLOP/s"),
            "memory GB per chip": (0, r"memory +(\d+) GB"),
            "Kaggle TPU h/week": (1, r"TPUs have 9 hours per session and (\d+) per week"),
            "session h": (1, r"TPUs have (\d+) hours per session"),
        },
        ((2, "Not ranked: TPU v5e"),),
    ),
    "A13": Checks(
        says=((0, "public figures conflict"), (1, "Not ranked: Ascend 910B")),
        without=frozenset({"memory GB (most sources)"}),
    ),
    "A14": Checks(
        {"launch price 4090 USD": (0, r"RTX 4090  .*?\$([\d,]+)")},
        ((0, "to buy +RTX 4090"), (0, "the price at launch")),
        ((0, r"to buy +RTX (5090|A6000)"),),
    ),
    "A15": Checks(
        {"cheapest A100 80 USD/h": (0, r"A100 80GB SXM4 .*\$([\d.]+)/h")},
        ((0, fits("A100 80GB SXM4", "fits")), (0, fits("H100 SXM5", "fits"))),
        ((0, fits("RTX 4090", "fits")), (0, fits("A100 40GB SXM4", "fits")), (0, fits("L40S", "fits"))),
    ),
    "A16": Checks(
        {
            "AWS p4d USD": (0, r"p4d\.24xlarge, A100 40GB SXM4\. It costs \$(\d+)"),
            "Lambda USD": (0, r"gpu_1x_a100, .*costs \$(\d+)"),
        },
        ((0, "AWS p4d.24xlarge +8 × A100"), (0, "all of them are paid")),
    ),
    "A17": Checks(
        {"cost on NC24ads_A100_v4 USD (transformer)": (1, r"NC24ads_A100_v4 .*h +\$(\d+) to")},
        ((0, r"NC6s_v3(?s:.*?)no longer offered"), (1, "Azure no longer offers NC6s_v3")),
        ((1, r"(?m)^  Azure NC6s_v3"),),
    ),
    "A18": Checks(says=((0, r"(?s)A100 80GB SXM4 .*RTX 3090"),), without=frozenset({"A100 80 SXM / 3090, vision"})),
    "A19": Checks(
        {
            "days on 3090": (0, r"RTX 3090 .*30 h, (\d+) days"),
            "hours on 4090": (0, r"RTX 4090 .* (\d+) to \d+ h"),
            "days on 4090": (0, r"RTX 4090 .*h, (\d+) to \d+ days"),
        },
    ),
    "A20": Checks(
        says=((0, r"(?s)A100 80GB PCIe .*RTX 4090 .*RTX 3090"),), without=frozenset({"4090/3090", "A100/4090"})
    ),
    "C01": Checks(
        says=((0, "GPU work will run"), (0, "CUDA up to 12.2 and any later 12.x")),
        never=((0, "too old|pip install"),),
        without=frozenset({"minimum driver for 12.x"}),
    ),
    "C02": Checks(
        {"driver needed for CUDA 13": (0, r"it needs driver (\d+)")},
        ((0, "driver is too old"), (0, r"index-url https://download.pytorch.org/whl/cu12")),
        ((0, r"whl/cu13"),),
    ),
    "C03": Checks(
        {
            "last driver branch": (0, r"already of R(\d+), the last branch"),
            "compute capability": (0, r"compute capability ([\d.]+)"),
        },
        ((0, "whl/cu11"),),
        ((0, "whl/cu1[23]"), (0, r"torch==2\.[7-9]"), (0, "nvidia-driver-5")),
        without=frozenset({"memory per device GB"}),
    ),
    "C04": Checks(says=((0, "whl/cu126"), (0, "no code for")), never=((0, "whl/cu(128|13)"), (0, "nvidia-driver-59"))),
    "C05": Checks(
        {"last torch for Pascal wheels": (0, r"torch==([\d.]+)\.\*")}, ((0, "whl/cu126"),), ((0, "whl/cu(128|13)"),)
    ),
    "C06": Checks(says=((0, "whl/cu126"),), never=((0, "whl/cu(128|13)"),)),
    "C07": Checks(
        says=((0, "whl/cu12[89]"),), never=((0, "whl/cu13"),), without=frozenset({"first torch with sm_120"})
    ),
    "C08": Checks(
        {
            "compute capability of B200": (1, r"compute capability ([\d.]+)"),
            "compute capability of 5090": (1, r"(?s)RTX 5090\n.*?compute capability ([\d.]+)"),
        },
        ((0, "whl/cu12[89]"),),
        ((0, "whl/cu126"),),
    ),
    "C09": Checks(says=((0, "GPU work will run"),), never=((0, "no-kernel|pip install"),)),
    "C10": Checks(
        says=((0, "float16"), (1, "it\nmeans emulation"), (2, "bf16 tensor +no units")),
        never=((0, "apt-get|ubuntu-drivers"),),
    ),
    "C11": Checks(
        says=tuple((0, fits(card, "no fp8 units")) for card in ("A100 80GB SXM4", "RTX 3090", "T4"))
        + tuple((0, fits(card, "fits")) for card in ("RTX 4090", "L40S", "H100 SXM5", "RTX 5090", "MI300X"))
    ),
    "C12": Checks(
        {
            "P40 INT8 TOPS (DP4A)": (1, r"int8 tensor +([\d.]+)"),
            "T4 INT8 TOPS": (1, r"(?s)\nT4\n.*?int8 tensor +([\d.]+)"),
        },
        ((1, r"(?s)V100 SXM2 16GB\n.*?int8 tensor +no units"),),
        ((0, "(?i)pip install|toolkit"),),
    ),
    "C13": Checks(says=((0, "sdpa"), (0, "8.0 or newer")), never=((0, "pip install|apt-get"),)),
    "C14": Checks(says=((0, "GPU work will run"), (0, "harmless"))),
    "C15": Checks(
        {"decoded CUDA version": (0, r"newest CUDA version that this driver supports is ([\d.]+);")},
        ((0, "not a driver version"), (0, "whl/cu118")),
    ),
    "C16": Checks(says=((0, "CPU build"), (0, "whl/cu12")), never=((0, "whl/cu13"),)),
    "C17": Checks(says=((0, "LD_LIBRARY_PATH"), (0, "data-centre cards only"))),
    "C18": Checks(
        says=((0, "needs the open kernel modules"), (0, r"-open"), (0, "reboot")), never=((0, "nouveau|pip install"),)
    ),
    "C19": Checks(says=((0, "whl/rocm"),), never=((0, "nvidia-driver|whl/cu12"),)),
    "C20": Checks(
        {"P100 compute capability": (0, r"compute capability ([\d.]+)")}, ((0, "whl/cu126"),), ((0, "whl/cu(128|13)"),)
    ),
    "C21": Checks(says=((0, "PTX"), (0, "Update the driver")), without=frozenset({"driver that ships with 12.8"})),
}

# Figures that are the ratio of two speeds: the number of the command, and the cards.
RATIOS = {
    ("A05", "speed ratio L40S/L40"): (0, "L40S", "L40"),
    ("A06", "B200/MI300X speed in transformer training"): (0, "B200 SXM", "MI300X"),
    ("A07", "speed ratio"): (0, "RTX 3090 Ti", "RTX 3090"),
    ("A08", "A800/A100 SXM speed"): (0, "A800 80GB SXM", "A100 80GB SXM4"),
    ("A08", "H800/H100 SXM speed"): (0, "H800 SXM", "H100 SXM5"),
    ("A09", "T4/P40 transformer training fp16"): (0, "T4", "Tesla P40"),
    ("A09", "P40/T4 decoding"): (1, "Tesla P40", "T4"),
    ("A18", "A100 80 SXM / 3090, vision"): (0, "A100 80GB SXM4", "RTX 3090"),
    ("A20", "4090/3090"): (0, "RTX 4090", "RTX 3090"),
    ("A20", "A100/4090"): (0, "A100 80GB PCIe", "RTX 4090"),
}

# Figures of held.json that we hold to be wrong, with the range that is tested instead, and why.
DISPUTED = {
    ("F06", "naive peak allocated GiB"): (
        24.0,
        30.5,
        # 3 GiB beside the two tensors that the derivation counts
        "On a card the backward pass of softmax multiplies gradient and output into a tensor of its own (torch, SoftMax.cu).",
    ),
}

# Questions that are still answered wrong, and why.
MISSED: dict[str, str] = {}
