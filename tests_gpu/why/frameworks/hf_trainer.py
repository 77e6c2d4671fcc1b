"""transformers.Trainer on a small GPT-2 with random words."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = torch.randint(8000, (128,))
        return {"input_ids": words, "labels": words}


if __name__ == "__main__":
    model = GPT2LMHeadModel(GPT2Config(vocab_size=8000, n_embd=256, n_layer=4, n_head=4))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=80,
            per_device_train_batch_size=16,
            bf16=True,
            report_to=[],
            save_strategy="no",
            logging_steps=10,
        )
        Trainer(model=model, args=arguments, train_dataset=Words()).train()
