"""The battery's data, for configurations."""

from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from contract_battery.images import loader, validation_loader


class Data(LightningDataModule):
    """Training and validation images."""

    def train_dataloader(self) -> DataLoader:
        return loader()

    def val_dataloader(self) -> DataLoader:
        return validation_loader()
