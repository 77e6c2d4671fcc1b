"""The models of configurations.py, as `ownlab fit` asks for them: `models.py:NAME_OF_A_CONFIGURATION`.

Read by the interpreter that has torch, torchvision and transformers, with this folder on its path.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from configurations import BY_NAME, Configuration
from torch import nn

Made = tuple[Any, ...]


def __getattr__(name: str) -> Callable[[], Made]:
    """Each configuration is a build function of this module."""
    if name not in BY_NAME:
        raise AttributeError(name)
    configuration = BY_NAME[name]
    return partial(globals()[configuration.model], configuration)


def _torchvision() -> Any:
    """Models are plain Python: they work beside a torch that torchvision's compiled part was not built for."""
    try:
        import torchvision
    except RuntimeError:  # "operator torchvision::nms does not exist"
        sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
        import torchvision
    return torchvision


def _transformers() -> Any:
    _torchvision()  # transformers imports it, too
    import transformers

    return transformers


def mlp(c: Configuration) -> Made:
    """Layers of one width."""
    width, depth = c.more.get("width", 1024), c.more.get("depth", 4)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(c.batch, width),)


def vision(c: Configuration) -> Made:
    """A classifier of torchvision."""
    model = getattr(_torchvision().models, c.more["model"])(weights=None)
    inputs = (torch.randn(c.batch, 3, 224, 224),)
    if not c.train:
        return model, inputs
    target = torch.randint(0, 1000, (c.batch,))
    return model, inputs, lambda out: nn.functional.cross_entropy(out, target.to(out.device))


def segmentation(c: Configuration) -> Made:
    """A class for each pixel."""
    models = _torchvision().models
    model = models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=21)
    target = torch.randint(0, 21, (c.batch, 256, 256))
    inputs = (torch.randn(c.batch, 3, 256, 256),)
    return model, inputs, lambda out: nn.functional.cross_entropy(out["out"], target.to(out["out"].device))


def _tokens(c: Configuration, vocabulary: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (c.batch, c.seq))


def bert(c: Configuration) -> Made:
    """A classifier of text."""
    transformers = _transformers()
    model = transformers.BertForSequenceClassification(transformers.BertConfig())
    mask = torch.ones(c.batch, c.seq, dtype=torch.long)
    inputs: dict[str, Any] = {"input_ids": _tokens(c, 30522), "attention_mask": mask}
    if c.train:
        inputs["labels"] = torch.zeros(c.batch, dtype=torch.long)
    return model, inputs


def gpt2(c: Configuration) -> Made:
    """GPT-2 small."""
    transformers = _transformers()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    ids = _tokens(c, 50257)
    return model, {"input_ids": ids, "labels": ids} if c.train else {"input_ids": ids}


def _llama_config(**more: Any) -> Any:
    return _transformers().LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        **more,
    )


def llama(c: Configuration) -> Made:
    """In the style of Llama: grouped queries, 12 layers of 1024."""
    transformers = _transformers()
    config = _llama_config(max_position_embeddings=4096, use_cache=False)
    ids = _tokens(c, 32000)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids} if c.train else {"input_ids": ids}


def t5(c: Configuration) -> Made:
    """Encoder and decoder."""
    transformers = _transformers()
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(use_cache=False, decoder_start_token_id=0))
    ids = _tokens(c, 32128)
    return model, {"input_ids": ids, "labels": ids}


def _block(inside: int, outside: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in (inside, outside):
        layers += [nn.Conv2d(width, outside, 3, padding=1), nn.GroupNorm(8, outside), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four levels."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        sizes = [width, width * 2, width * 4, width * 8]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([_block(a, b) for a, b in zip([width, *sizes[:-1]], sizes, strict=True)])
        self.up = nn.ModuleList([_block(a + b, b) for a, b in zip(sizes[:0:-1], sizes[-2::-1], strict=True)])
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        kept = []
        for number, block in enumerate(self.down):
            x = block(x)
            if number < len(self.down) - 1:
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1))
        return self.last(x)


def unet(c: Configuration) -> Made:
    """Images to images."""
    image = torch.randn(c.batch, 3, 256, 256)
    return (UNet(), (image,), lambda out: (out**2).mean()) if c.train else (UNet(), (image,))


class Recurrent(nn.Module):
    """A language model of recurrent layers."""

    def __init__(self, kind: str, both: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10000, 512)
        self.recurrent = getattr(nn, kind)(512, 1024, num_layers=2, batch_first=True, bidirectional=both, dropout=0.2)
        self.head = nn.Linear(2048 if both else 1024, 10000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embedding(ids))[0])


def recurrent(c: Configuration) -> Made:
    """LSTM and GRU."""
    ids = torch.randint(0, 10000, (c.batch, c.seq))
    model = Recurrent(c.more["kind"], c.more.get("both", False))
    return model, (ids,), lambda out: nn.functional.cross_entropy(out.flatten(0, 1), ids.flatten().to(out.device))


class Bags(nn.Module):
    """A large table."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(2_000_000, 64, mode="mean")
        self.head = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.bag(ids))


def bags(c: Configuration) -> Made:
    """Recommendations."""
    return Bags(), (torch.randint(0, 2_000_000, (c.batch, 50)),)


def _up(inside: int, outside: int, stride: int = 2, padding: int = 1) -> nn.Module:
    layer = nn.ConvTranspose2d(inside, outside, 4, stride, padding, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outside), nn.ReLU(True))


def _down(inside: int, outside: int) -> nn.Module:
    layer = nn.Conv2d(inside, outside, 4, 2, 1, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outside), nn.LeakyReLU(0.2, True))


class Gan(nn.Module):
    """Generator and discriminator with an optimizer each; the step is its own."""

    def __init__(self) -> None:
        super().__init__()
        last = (nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())
        self.generator = nn.Sequential(_up(128, 512, 1, 0), _up(512, 256), _up(256, 128), _up(128, 64), *last)
        first = (nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, True))
        self.discriminator = nn.Sequential(
            *first, _down(64, 128), _down(128, 256), _down(256, 512), nn.Conv2d(512, 1, 4)
        )

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(part.parameters(), 2e-4) for part in (self.generator, self.discriminator)]

    def step(self, optimizers: list[torch.optim.Optimizer], real: torch.Tensor, noise: torch.Tensor) -> None:
        loss = nn.functional.binary_cross_entropy_with_logits
        fake = self.generator(noise)
        for images, label in ((real, 1.0), (fake.detach(), 0.0)):
            answer = self.discriminator(images)
            loss(answer, torch.full_like(answer, label)).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        answer = self.discriminator(fake)
        loss(answer, torch.ones_like(answer)).backward()
        optimizers[0].step()
        optimizers[0].zero_grad()
        optimizers[1].zero_grad()


def gan(c: Configuration) -> Made:
    """Two optimizers."""
    return Gan(), (torch.randn(c.batch, 3, 64, 64), torch.randn(c.batch, 128, 1, 1))


def encoder(c: Configuration) -> Made:
    """torch's own layers of attention."""
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (torch.randn(c.batch, c.seq, 768),)


# -- not among the configurations: what other tests ask for


def grows(batch: int = 64) -> Made:
    """Little goes in, and 640 KiB are kept for each sample: a card is soon full."""
    layers: list[nn.Module] = [nn.Linear(16, 8192)]
    layers += [nn.Sigmoid() for _ in range(20)]
    return nn.Sequential(*layers), (torch.randn(batch, 16),)


def speaks(batch: int = 4, seq: int = 512) -> Made:
    """A model that decodes."""
    transformers = _transformers()
    config = _llama_config()
    return transformers.LlamaForCausalLM(config), {"input_ids": torch.randint(0, 32000, (batch, seq))}
