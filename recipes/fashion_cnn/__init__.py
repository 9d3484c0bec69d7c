"""Image classification: a small CNN on Fashion-MNIST, and CIFAR-10 with a two-layer CNN or ResNet-18."""

from recipes.fashion_cnn.classifier import ImageClassifier
from recipes.fashion_cnn.images import CIFAR10, FashionMNIST7000
from recipes.fashion_cnn.networks import FashionCNN, ResNet18, TwoLayerCNN

__all__ = ["CIFAR10", "FashionCNN", "FashionMNIST7000", "ImageClassifier", "ResNet18", "TwoLayerCNN"]
