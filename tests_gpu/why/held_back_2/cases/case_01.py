# ruff: noqa: N812, T201
"""Sentiment of product reviews: a transformer encoder on a stream of texts."""

import argparse
import random
import statistics
import string
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Meter:
    """Wall time of a step, over windows of steps; the device is awaited at the end of each window only."""

    def __init__(self, window=10, warmup=20):
        self.window, self.warmup = window, warmup
        self.count, self.last, self.windows = 0, time.perf_counter(), []

    def step(self):
        self.count += 1
        if self.count % self.window:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.count > self.warmup:
            self.windows.append((now - self.last) / self.window * 1000)
        self.last = now

    def report(self):
        print(f"STEP_MS {statistics.median(self.windows):.3f}", flush=True)


class WordPieces:
    """Greedy longest match of pieces, as BERT's tokenizer does it."""

    def __init__(self, pieces, length):
        self.numbers = {piece: number for number, piece in enumerate(pieces, start=3)}
        self.length = length

    def word(self, text):
        start, found = 0, []
        while start < len(text):
            end = len(text)
            while end > start:
                piece = text[start:end] if start == 0 else "##" + text[start:end]
                if piece in self.numbers:
                    found.append(self.numbers[piece])
                    break
                end -= 1
            else:
                return [1]
            start = end
        return found

    def __call__(self, text):
        ids = [2]
        for word in text.lower().split():
            ids.extend(self.word(word.strip(string.punctuation)))
        ids = ids[: self.length]
        return torch.tensor(ids + [0] * (self.length - len(ids)))


class Reviews(IterableDataset):
    """An endless stream; each worker reads its own part of it."""

    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __iter__(self):
        info = get_worker_info()
        number, step = (info.id, info.num_workers) if info else (0, 1)
        while True:
            for text, label in self.texts[number::step]:
                yield self.tokenizer(text), label


class Classifier(nn.Module):
    def __init__(self, vocabulary, width, depth, length):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids) + self.position)[:, 0])


def make_texts(count, words):
    rng = random.Random(0)
    lexicon = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 12))) for _ in range(4000)]
    pieces = list(string.ascii_lowercase) + ["##" + letter for letter in string.ascii_lowercase]
    pieces += [word[: rng.randint(2, 5)] for word in lexicon] + ["##" + word[-3:] for word in lexicon]
    texts = [(" ".join(rng.choices(lexicon, k=words)) + ".", rng.randint(0, 1)) for _ in range(count)]
    return texts, sorted(set(pieces))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, depth = (4, 32, 32, 1) if args.tiny else (96, 256, 512, 6)
    texts, pieces = make_texts(200 if args.tiny else 4000, 3 * length // 2)
    reviews = Reviews(texts, WordPieces(pieces, length))
    loader = DataLoader(reviews, batch_size=batch, pin_memory=device == "cuda")
    model = Classifier(len(pieces) + 3, width, depth, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=device == "cuda")
    meter = Meter()
    for step, (ids, labels) in enumerate(loader, start=1):
        ids, labels = ids.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(ids), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.step()
        if step == args.steps:
            break
    print(f"step {step}, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
