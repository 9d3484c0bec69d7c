"""The networks of the image experiments, as LightningModules."""

from torch import nn
from torchvision.models import resnet18

from recipes.fashion_cnn.classifier import ImageClassifier

__all__ = ["FashionCNN", "ResNet18", "TwoLayerCNN"]


class FashionCNN(ImageClassifier):
    """Two strided convolutions and a linear layer for 28 x 28 grey images: 9,226 parameters, about 1 ms a step.

    Args:
        lr: Step size of plain SGD.

    Example:
        >>> sum(parameter.numel() for parameter in FashionCNN().parameters())
        9226
    """

    def __init__(self, lr: float = 0.0625) -> None:
        network = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, kernel_size=3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 7 * 7, 10),
        )
        super().__init__(network, num_classes=10, lr=lr)
        self.save_hyperparameters()


class TwoLayerCNN(ImageClassifier):
    """The convolutional network that federated experiments share (McMahan et al. 2017, arXiv 1602.05629, section 3).

    Convolution 5 x 5 with 32 channels, 2 x 2 max-pooling, convolution 5 x 5 with 64 channels, 2 x 2 max-pooling, a
    layer of 512, and the classifier. Convolutions keep the size of their input, as in the original, which has
    1,663,370 parameters on 28 x 28 grey images.

    Args:
        in_channels: Channels of the images.
        image_size: Height and width of the images in pixels, a multiple of 4.
        num_classes: Number of classes.
        lr: Step size of plain SGD.

    Raises:
        ValueError: If ``image_size`` is not a positive multiple of 4.

    Example:
        >>> sum(parameter.numel() for parameter in TwoLayerCNN(in_channels=1, image_size=28).parameters())
        1663370
    """

    def __init__(self, in_channels: int = 3, image_size: int = 32, num_classes: int = 10, lr: float = 0.0625) -> None:
        if image_size < 4 or image_size % 4:
            raise ValueError(f"image_size must be a positive multiple of 4 (it is halved twice), got {image_size}.")
        network = nn.Sequential(
            nn.Conv2d(in_channels, 32, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (image_size // 4) ** 2, 512),
            nn.ReLU(),
            nn.Linear(512, num_classes),
        )
        super().__init__(network, num_classes, lr)
        self.save_hyperparameters()


class ResNet18(ImageClassifier):
    """torchvision's ResNet-18 with the stem for 32 x 32 images: 3 x 3 convolution, stride 1, no max-pooling.

    Args:
        num_classes: Number of classes.
        lr: Step size of plain SGD.

    Example:
        >>> sum(parameter.numel() for parameter in ResNet18().parameters())
        11173962
    """

    def __init__(self, num_classes: int = 10, lr: float = 0.0625) -> None:
        network = resnet18(num_classes=num_classes)
        network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
        # torchvision initialises inside its constructor, so the new stem has to be given the same law.
        nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        network.maxpool = nn.Identity()
        super().__init__(network, num_classes, lr)
        self.save_hyperparameters()
