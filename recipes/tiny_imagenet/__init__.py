"""Image classification on Tiny ImageNet: 200 classes, 64 x 64 colour images."""

from recipes.tiny_imagenet.files import load_tiny_imagenet, load_tiny_imagenet_stand_in, require_tiny_imagenet
from recipes.tiny_imagenet.images import TinyImageNet

__all__ = ["TinyImageNet", "load_tiny_imagenet", "load_tiny_imagenet_stand_in", "require_tiny_imagenet"]
