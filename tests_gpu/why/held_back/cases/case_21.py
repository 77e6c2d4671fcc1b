"""Fine-tuning a wide BERT classifier of six layers with the Hugging Face Trainer (weights made at random)."""

import argparse
import os
import statistics
import tempfile
import time

import torch

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


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


class MeterCallback(TrainerCallback):
    def __init__(self):
        self.meter = Meter()

    def on_step_end(self, args, state, control, **kwargs):
        self.meter.step()


class Sentences(Dataset):
    def __init__(self, count, length, vocabulary):
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(5, vocabulary, (count, length), generator=generator)
        self.labels = self.ids[:, 1] % 2

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--data", help="folder for what the trainer writes (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    set_seed(42)
    torch.set_float32_matmul_precision("high")
    length, batch = (16, 2) if options.tiny else (256, 192)
    width, layers, heads = (32, 2, 2) if options.tiny else (1024, 6, 16)
    config = BertConfig(
        num_labels=2,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        attn_implementation="sdpa",
    )
    callback = MeterCallback()
    with tempfile.TemporaryDirectory(dir=options.data) as output:
        arguments = TrainingArguments(
            output_dir=output,
            max_steps=options.steps,
            per_device_train_batch_size=batch,
            learning_rate=5e-5,
            warmup_steps=10,
            weight_decay=0.01,
            bf16=torch.cuda.is_available(),
            dataloader_num_workers=4,
            dataloader_persistent_workers=True,
            dataloader_pin_memory=torch.cuda.is_available(),
            optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
            logging_steps=50,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=Sentences(batch * 100, length, config.vocab_size),
            data_collator=default_data_collator,
            callbacks=[callback],
        )
        trainer.train()
    callback.meter.report()


if __name__ == "__main__":
    main()
