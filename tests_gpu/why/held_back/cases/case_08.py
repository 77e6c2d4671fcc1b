"""Language-model training of a small GPT-2 with the Hugging Face Trainer."""

import argparse
import os
import statistics
import tempfile
import time

import torch

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed


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


class Tokens(Dataset):
    """A long stream of token numbers, cut into pieces."""

    def __init__(self, vocabulary, length, pieces):
        generator = torch.Generator().manual_seed(0)
        self.stream = torch.randint(0, vocabulary, (length * pieces,), generator=generator)
        self.length = length

    def __len__(self):
        return len(self.stream) // self.length

    def __getitem__(self, index):
        ids = self.stream[index * self.length : (index + 1) * self.length]
        return {"input_ids": ids, "labels": ids}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--data", help="folder for what the trainer writes (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    set_seed(0)
    length = 32 if options.tiny else 512
    batch = 2 if options.tiny else 32
    config = GPT2Config(
        vocab_size=256 if options.tiny else 8192,
        n_positions=length,
        n_embd=64 if options.tiny else 768,
        n_layer=2 if options.tiny else 8,
        n_head=2 if options.tiny else 12,
        bos_token_id=0,
        eos_token_id=0,
    )
    callback = MeterCallback()
    with tempfile.TemporaryDirectory(dir=options.data) as output:
        arguments = TrainingArguments(
            output_dir=output,
            max_steps=options.steps,
            per_device_train_batch_size=batch,
            learning_rate=3e-4,
            lr_scheduler_type="cosine",
            bf16=torch.cuda.is_available(),
            dataloader_num_workers=2,
            logging_steps=20,
            save_strategy="steps",
            save_steps=10,
            save_total_limit=2,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Tokens(config.vocab_size, length, batch * 100),
            callbacks=[callback],
        )
        trainer.train()
    callback.meter.report()


if __name__ == "__main__":
    main()
