"""A LightningModule under pytorch_lightning.Trainer."""

import pytorch_lightning as lightning
import torch
from torch import nn


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 10))

    def training_step(self, batch, number):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.randn(20_000, 512), torch.randint(10, (20_000,)))
    loader = torch.utils.data.DataLoader(data, 64, num_workers=2, persistent_workers=True)
    trainer = lightning.Trainer(
        max_steps=80, precision="bf16-mixed", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(Module(), loader)
