"""Models and settings whose memory is predicted and measured: chosen before anything was tuned.

Every third one is held back: nobody looks at its figures while the prediction is worked on. Without torch, so that a test can
read it; models.py builds what is named here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ALL", "BY_NAME", "Configuration"]


@dataclass(frozen=True)
class Configuration:
    """One step of one model."""

    name: str
    model: str  # a function of models.py
    batch: int
    seq: int = 0
    train: bool = True
    optimizer: str = "adamw"
    fused: bool = False
    precision: str = "fp32"
    checkpointing: bool = False
    channels_last: bool = False
    accumulate: int = 1
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def held_back(self) -> bool:
        """Whether it was looked at once, when the rules had been made."""
        return self.look != "open"

    @property
    def look(self) -> str:
        """open: rules were made with it in view. once: held back, one of three. later: chosen after the look at those."""
        place = ALL.index(self)
        if place >= LATER:
            return "later"
        return "once" if place % 3 == 2 else "open"

    @property
    def request(self) -> dict[str, Any]:
        """As a Request has it; sizes are the model's own."""
        names = ("train", "optimizer", "fused", "precision", "checkpointing", "channels_last", "accumulate")
        return {name: getattr(self, name) for name in names}


def _vision(name: str, model: str, batch: int, **more: Any) -> Configuration:
    return Configuration(name, "vision", batch, more={"model": model}, **more)


C = Configuration
# The order decides which are held back: new ones come at the end.
ALL = [
    C("mlp_fp32_b64_sgdm", "mlp", 64, optimizer="sgd:momentum=0.9"),
    _vision("resnet50_fp32_b32_sgdm", "resnet50", 32, optimizer="sgd:momentum=0.9"),
    C("bert_fp32_b16_s128_adamw", "bert", 16, 128),
    C("gpt2_amp_b8_s1024_adamw", "gpt2", 8, 1024, precision="amp-bf16"),
    C("unet_fp32_b8_adam", "unet", 8, optimizer="adam"),
    C("llama_amp_ckpt_b4_s2048_adamw", "llama", 4, 2048, precision="amp-bf16", checkpointing=True),
    C("lstm_fp32_b64_s64_sgd", "recurrent", 64, 64, optimizer="sgd:momentum=0.9", more={"kind": "LSTM"}),
    _vision("vit_amp_b64_adamw_fused", "vit_b_16", 64, fused=True, precision="amp-bf16"),
    _vision("resnet18_fp32_b128_infer", "resnet18", 128, train=False),
    C("llama_bf16_b4_s2048_adamw", "llama", 4, 2048, precision="bf16"),
    C("gan_fp32_b64_adam", "gan", 64, optimizer="adam"),
    C("unet_fp32_b16_infer", "unet", 16, train=False),
    C("gpt2_amp_ckpt_b8_s1024_adamw", "gpt2", 8, 1024, precision="amp-bf16", checkpointing=True),
    _vision("mobilenet_amp_b128_rmsprop", "mobilenet_v3_large", 128, optimizer="rmsprop", precision="amp-bf16"),
    C("t5_amp_b16_s256_adamw", "t5", 16, 256, precision="amp-bf16"),
    C("t5_fp32_b16_s256_adafactor", "t5", 16, 256, optimizer="adafactor"),
    C("bags_fp32_b4096_sgd", "bags", 4096, optimizer="sgd:momentum=0.9"),
    C("gru_bi_fp32_b32_s128_adam", "recurrent", 32, 128, optimizer="adam", more={"kind": "GRU", "both": True}),
    _vision(
        "resnet50_amp_cl_b128_sgdm",
        "resnet50",
        128,
        optimizer="sgd:momentum=0.9",
        precision="amp-bf16",
        channels_last=True,
    ),
    C("llama_bf16_b8_s1024_infer", "llama", 8, 1024, train=False, precision="bf16"),
    _vision("resnet50_ampfp16_b64_adam", "resnet50", 64, optimizer="adam", precision="amp-fp16"),
    _vision("densenet121_fp32_b32_sgdm", "densenet121", 32, optimizer="sgd:momentum=0.9"),
    C("gpt2_fp32_b4_s1024_adamw", "gpt2", 4, 1024),
    _vision("convnext_amp_b64_adamw", "convnext_tiny", 64, precision="amp-bf16"),
    C("gpt2_amp_acc4_b2_s1024_adamw", "gpt2", 2, 1024, precision="amp-bf16", accumulate=4),
    _vision("efficientnet_fp32_b64_adam", "efficientnet_b0", 64, optimizer="adam"),
    C("unet_amp_b8_adamw", "unet", 8, precision="amp-bf16"),
    C("bert_bf16_b32_s512_infer", "bert", 32, 512, train=False, precision="bf16"),
    C("lstm_amp_b64_s64_adamw", "recurrent", 64, 64, precision="amp-bf16", more={"kind": "LSTM"}),
    C("mlp_wide_bf16_b4096_adamw", "mlp", 4096, precision="bf16", more={"width": 4096, "depth": 8}),
    _vision("swin_amp_b32_adamw", "swin_t", 32, precision="amp-bf16"),
    C("bert_amp_b32_s512_adamw", "bert", 32, 512, precision="amp-bf16"),
    _vision("vit_fp32_b32_adam", "vit_b_16", 32, optimizer="adam"),
    C("encoder_fp32_b16_s512_adamw", "encoder", 16, 512),
    C("fcn_fp32_b8_sgdm", "segmentation", 8, optimizer="sgd:momentum=0.9"),
    _vision("vit_bf16_b256_infer", "vit_b_16", 256, train=False, precision="bf16"),
    _vision("vgg16_fp32_b32_sgdm", "vgg16", 32, optimizer="sgd:momentum=0.9"),
    _vision("resnet50_tf32_b64_adamw", "resnet50", 64, precision="tf32"),
    C("llama_amp_b2_s1024_adamw", "llama", 2, 1024, precision="amp-bf16"),
    # Chosen after the first look at those that were held back, and before any of these was measured.
    C("gru_fp32_b64_s96_adamw", "recurrent", 64, 96, more={"kind": "GRU"}),
    C("lstm_bi_fp32_b16_s200_adam", "recurrent", 16, 200, optimizer="adam", more={"kind": "LSTM", "both": True}),
    C("gru_bi_amp_b64_s64_adamw", "recurrent", 64, 64, precision="amp-bf16", more={"kind": "GRU", "both": True}),
    _vision("resnet34_ampfp16_b96_sgdm", "resnet34", 96, optimizer="sgd:momentum=0.9", precision="amp-fp16"),
    C("bert_ampfp16_b16_s256_adamw", "bert", 16, 256, precision="amp-fp16"),
    _vision("swin_bf16_b64_infer", "swin_t", 64, train=False, precision="bf16"),
    C("llama_fp32_b2_s512_sgd", "llama", 2, 512, optimizer="sgd:momentum=0.9"),
    _vision("mobilenet_fp32_b64_infer", "mobilenet_v3_large", 64, train=False),
    _vision("regnet_amp_b64_sgdm", "regnet_y_1_6gf", 64, optimizer="sgd:momentum=0.9", precision="amp-bf16"),
]
LATER = 39  # the first of those
BY_NAME = {configuration.name: configuration for configuration in ALL}
