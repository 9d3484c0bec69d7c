"""Small real data that travels with the recipes, read into memory. See ``README.md`` for sources and licences."""

from recipes.data.a9a import A9A_FEATURES, A9A_TRAIN_ROWS, A9ADataset, A9ASplits, load_a9a
from recipes.data.austen import load_austen
from recipes.data.cifar10 import load_cifar10, load_cifar10_stand_in, require_cifar10
from recipes.data.fashion_mnist import FASHION_MNIST_TRAIN_IMAGES, LabelledImages, load_fashion_mnist
from recipes.data.files import data_file
from recipes.data.in_memory import Batch, BatchedDataset, ImageDataset, collate_batched
from recipes.data.normalisation import IMAGENET_STATISTICS, Normalisation, channel_statistics
from recipes.data.shakespeare import CharacterWindows, ShakespeareSplits, load_shakespeare, load_shakespeare_roles

__all__ = [
    "A9A_FEATURES",
    "A9A_TRAIN_ROWS",
    "FASHION_MNIST_TRAIN_IMAGES",
    "IMAGENET_STATISTICS",
    "A9ADataset",
    "A9ASplits",
    "Batch",
    "BatchedDataset",
    "CharacterWindows",
    "ImageDataset",
    "LabelledImages",
    "Normalisation",
    "ShakespeareSplits",
    "channel_statistics",
    "collate_batched",
    "data_file",
    "load_a9a",
    "load_austen",
    "load_cifar10",
    "load_cifar10_stand_in",
    "load_fashion_mnist",
    "load_shakespeare",
    "load_shakespeare_roles",
    "require_cifar10",
]
