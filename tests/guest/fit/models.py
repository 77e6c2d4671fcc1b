"""Models whose step is traced. Read by the interpreter that has torch, never by the tests themselves."""

from __future__ import annotations

import copy
import itertools
import time
from typing import Any

import torch  # noqa: TID251  # the interpreter that reads this has it
from torch import nn  # noqa: TID251

Made = tuple[Any, ...]


def mlp(batch: int = 64, width: int = 1024) -> Made:
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(batch, width),)


def lstm() -> Made:
    parts = nn.ModuleDict(
        {
            "embedding": nn.Embedding(10000, 512),
            "recurrent": nn.LSTM(512, 1024, num_layers=2, batch_first=True, dropout=0.2),
            "head": nn.Linear(1024, 10000),
        }
    )
    parts.forward = lambda ids: parts["head"](parts["recurrent"](parts["embedding"](ids))[0])
    ids = torch.randint(0, 10000, (64, 64))
    return parts, (ids,), lambda out: nn.functional.cross_entropy(out.flatten(0, 1), ids.flatten().to(out.device))


def encoder() -> Made:
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (torch.randn(16, 512, 768),)


def computed_widths() -> Made:
    """Its widths come out of tensors, as RegNet's do."""
    grown = torch.round(16 * torch.pow(2.0, torch.arange(4) * 0.5) / 8) * 8
    widths = [8, *grown.int().tolist()]
    widths[-1] += int((torch.linspace(0, 8, 3) >= 4).sum())
    counted = torch.zeros(3, dtype=torch.long)
    counted[1:].add_(torch.arange(2))  # seen through another view, and in what is chosen by data
    widths[-1] += int(counted.max() + counted[counted > 5].sum()) - 1
    layers = [nn.Linear(inputs, outputs, bias=False) for inputs, outputs in itertools.pairwise(widths)]

    class Net(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.norm = nn.Sequential(*layers), nn.BatchNorm1d(widths[-1])

        def forward(self, inputs: Any) -> Any:
            return self.norm(self.layers(inputs))

    return Net(), (torch.randn(32, 8),)


def made_of_numbers() -> Made:
    """Operations on small tensors made of plain numbers; none of them depends on the values."""

    class Net(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(16))
            self.scale.data = torch.ones(16)

        def forward(self, inputs: Any) -> Any:
            return inputs * self.scale + self.shift

    torch.arange(5, out=torch.empty(5))
    torch.linspace(torch.rand(()), 1, 5).sum().item()
    torch.zeros(4, pin_memory=True)
    torch.eye(4).to_sparse()
    torch.arange(4, device="cuda") * 2 + torch.rand(4, device="cuda")
    torch.zeros(4, device="meta") * 2 + torch.rand(4, device="meta")
    torch.zeros(1024).repeat(1 << 30)  # 4 TiB
    return copy.deepcopy(Net()), (torch.randn(32, 16),)


def in_half() -> Made:
    """Brought into another type by build() itself, with weights that are tied."""
    model = nn.Sequential(nn.Embedding(100, 64), nn.LayerNorm(64), nn.Linear(64, 100, bias=False))
    model[2].weight = model[0].weight
    return model.half(), (torch.randint(0, 100, (4, 8)),)


def projected() -> Made:
    layer = nn.LSTM(32, 64, num_layers=2, proj_size=16, batch_first=True)
    model = nn.Module()
    model.layer, model.head = layer, nn.Linear(16, 8)
    model.forward = lambda inputs: model.head(layer(inputs)[0])
    return model, (torch.randn(4, 10, 32),)


def attention(batch: int = 2) -> Made:
    layer = nn.TransformerEncoderLayer(128, 2, 256, batch_first=True)
    return layer, (torch.randn(batch, 64, 128),)


def convolutions() -> Made:
    return nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)), (
        torch.randn(8, 64, 256, 256),
    )


def transposed() -> Made:
    return nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False), (torch.randn(64, 128, 16, 16, requires_grad=True),)


def colours() -> Made:
    return nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), (torch.randn(64, 64, 32, 32, requires_grad=True),)


def resized() -> Made:
    return nn.Upsample(scale_factor=2.0), (torch.randn(4, 8, 32, 32),)


def turned() -> Made:
    layer = nn.Linear(256, 1024)
    layer.forward = lambda x: nn.functional.linear(x.transpose(0, 1), layer.weight, layer.bias)
    return layer, (torch.randn(64, 32, 256),)


def tied() -> Made:
    embedding, head = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False)
    head.weight = embedding.weight
    return nn.Sequential(embedding, nn.Dropout(0.5), head), (torch.zeros(4, 16, dtype=torch.long),)


def forked() -> Made:
    whole = nn.ModuleList([nn.Linear(256, 256) for _ in range(3)])

    def forward(x: torch.Tensor) -> torch.Tensor:
        middle = whole[0](x)
        return whole[1](middle) + whole[2](middle)

    whole.forward = forward
    return whole, (torch.randn(32, 256),)


def branches() -> Made:
    whole = nn.ModuleList([nn.Linear(256, 256) for _ in range(2)])

    def forward(x: torch.Tensor) -> torch.Tensor:
        if bool((x > 0).all()):
            x = whole[0](x)
        return whole[1](x) * float(x.abs().max().item())

    whole.forward = forward
    return whole, (torch.randn(32, 256),)


def experts(batch: int = 64) -> Made:
    """Four of them; each row goes to one."""
    model = nn.Module()
    model.weight = nn.Parameter(torch.randn(4, 128, 256))
    ends = torch.arange(1, 5, dtype=torch.int32) * (batch // 4)
    model.forward = lambda x: torch._grouped_mm(x, model.weight, offs=ends)
    return model, (torch.randn(batch, 128),)


class _Pair:
    """Two models with an optimizer each, and a step of their own."""

    @staticmethod
    def make() -> Made:
        parts = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
        parts.optimizers = lambda: [torch.optim.Adam(part.parameters()) for part in parts]

        def step(optimizers: list[Any], x: torch.Tensor) -> None:
            parts[1](parts[0](x)).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

        parts.step = step
        return parts, (torch.randn(8, 64),)


pair = _Pair.make


# -- builds that cannot be used


def raises() -> Made:
    raise FileNotFoundError("data/train.csv")


def on_cuda() -> Made:
    return nn.Linear(4, 4).cuda(), (torch.randn(2, 4),)


def bare() -> Any:
    return nn.Linear(4, 4)


def many_sizes() -> Made:
    model = nn.Linear(4, 4)
    return model, (torch.randn(2, 4),), lambda out: out[out > -1e9].mean()


def few_sizes() -> Made:
    return nn.Linear(4, 4), (torch.randn(2, 4),)


def too_many_sizes() -> Made:
    sizes = torch.empty(1 << 50)
    return nn.Linear(4, 4), (torch.randn(2, 4),), lambda out: out.mean() + sizes[sizes > 0].mean()


def wrong_shape() -> Made:
    return nn.Linear(4, 4), (torch.randn(2, 5),)


def frozen() -> Made:
    return nn.Linear(4, 4).requires_grad_(False), (torch.randn(2, 4),)


def leaves() -> Made:
    raise SystemExit(3)


def hangs() -> Made:
    while True:
        time.sleep(0.01)


def to_numpy() -> Made:
    return nn.Linear(4, 4), (torch.randn(2, 4),), lambda out: torch.from_numpy(out.detach().numpy()).mean()


def lazy() -> Made:
    return nn.LazyLinear(4), (torch.randn(2, 4),)


def custom() -> Made:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double = torch.library.custom_op("ownlab_tests::double", twice, mutates_args=())
    return nn.Linear(4, 4), (torch.randn(2, 4),), lambda out: double(out).mean()


class Lengths(nn.Module):  # type: ignore[misc]
    """A mask, and a shape, from values."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 64)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        longest = int(lengths.max())
        assert longest == 40, "the longest"
        padded = torch.arange(longest)[None] >= lengths[:, None]
        inner = self.enter(x[:, :longest]).masked_fill(padded[..., None], 0.0)
        return torch.stack([inner[number, :length].mean() for number, length in enumerate(lengths.tolist())]).mean()


def lengths() -> Made:
    return Lengths(), (torch.randn(4, 50, 8), torch.linspace(10, 40, 4).long())


class Counted(nn.Module):  # type: ignore[misc]
    """A shape from an activation: nothing but data tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.enter(x)
        count = int((inner < 100.0).sum())
        assert count == inner.numel(), "all of them"
        return inner.flatten()[:count].mean()


def counted() -> Made:
    return Counted(), (torch.randn(4, 8),)


def decoder(batch: int = 2, layers: int = 2) -> Made:
    """Two blocks of a language model with the names of Llama's layers: 4 × 256² + 3 × 256 × 512 weights in each."""

    class Block(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                setattr(self, name, nn.Linear(256, 256, bias=False))
            for name, sizes in (("gate_proj", (256, 512)), ("up_proj", (256, 512)), ("down_proj", (512, 256))):
                setattr(self, name, nn.Linear(*sizes, bias=False))

        def forward(self, hidden: Any) -> Any:
            q, k, v = (
                projection(hidden).unflatten(-1, (4, 64)).transpose(1, 2)
                for projection in (self.q_proj, self.k_proj, self.v_proj)
            )
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            hidden = hidden + self.o_proj(mixed.transpose(1, 2).flatten(2))
            return hidden + self.down_proj(nn.functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))

    class Decoder(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(1000, 256)
            self.layers = nn.ModuleList(Block() for _ in range(layers))
            self.lm_head = nn.Linear(256, 1000, bias=False)

        def get_output_embeddings(self) -> Any:
            return self.lm_head

        def forward(self, ids: Any) -> Any:
            hidden = self.embed_tokens(ids)
            for layer in self.layers:
                hidden = layer(hidden)
            return self.lm_head(hidden)

    ids = torch.randint(0, 1000, (batch, 128))
    return Decoder(), (ids,), lambda out: nn.functional.cross_entropy(out.flatten(0, 1).float(), ids.flatten())


def frozen_decoder() -> Made:
    model, *rest = decoder()
    return model.requires_grad_(False), *rest


def adapted_by_peft() -> Made:
    """The same with adapters of peft, which is not in every environment."""
    from peft import LoraConfig, get_peft_model

    model, *rest = decoder()
    return get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1)), *rest


def queries(batch: int = 4) -> Made:
    """Normed maps that a Transformer of torch looks at: its layers are deep copies, and the norm counts its batches."""

    class Queries(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.maps = nn.Sequential(nn.Conv2d(3, 256, 16, 16, bias=False), nn.BatchNorm2d(256))
            self.inner = nn.Transformer(256, 8, 1, 1, 512, 0.1, batch_first=True)
            self.wanted = nn.Parameter(torch.randn(100, 256))

        def forward(self, images: Any) -> Any:
            seen = self.maps(images).flatten(2).transpose(1, 2)
            return self.inner(seen, self.wanted.expand(len(images), -1, -1))

    return Queries(), (torch.randn(batch, 3, 64, 64),)


def normed() -> Made:
    return nn.Sequential(nn.Linear(64, 64), nn.RMSNorm(64)), (torch.randn(4096, 64),)


def distance() -> Made:
    truth = torch.randn(4096, 64)
    return nn.Linear(64, 64), (torch.randn(4096, 64),), lambda out: nn.functional.mse_loss(out, truth.to(out.device))


def gathered() -> Made:
    """Rows that are taken by an index, some of them twice: their gradients are sorted by place and added."""

    class Gathered(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(64, 64)

        def forward(self, rows: Any, places: Any) -> Any:
            x = self.enter(rows)
            return torch.cat([x[places[0]], x[places[1]]], 1)

    return Gathered(), (torch.randn(1000, 64), torch.randint(0, 1000, (2, 8000)))
