import pytest
import torch

from lightning_async.data import Dirichlet
from recipes.data import FASHION_MNIST_TRAIN_IMAGES
from recipes.fashion_cnn import FashionCNN, FashionMNIST7000, ResNet18, TwoLayerCNN


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(scope="module")
def data():
    module = FashionMNIST7000()
    module.setup()
    return module


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (FashionCNN, 9_226),
        (lambda: TwoLayerCNN(in_channels=1, image_size=28), 1_663_370),  # the number that McMahan et al. state
        (TwoLayerCNN, 2_156_490),
        (ResNet18, 11_173_962),
    ],
    ids=["FashionCNN", "TwoLayerCNN-28", "TwoLayerCNN-32", "ResNet18"],
)
def test_network_has_the_published_number_of_parameters(build, parameters):
    assert count(build()) == parameters


@pytest.mark.parametrize(("build", "shape"), [(TwoLayerCNN, (3, 32, 32)), (ResNet18, (3, 32, 32))])
def test_cifar_networks_map_images_to_ten_logits(build, shape):
    assert build()(torch.zeros(2, *shape)).shape == (2, 10)


def test_resnet_keeps_the_resolution_in_its_stem():
    network = ResNet18().network
    assert network.maxpool(network.conv1(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 32, 32)


def test_resnet_stem_is_initialised_like_the_other_convolutions():
    torch.manual_seed(0)
    weight = ResNet18().network.conv1.weight
    # Kaiming, fan out: variance 2 / (64 * 9); 1,728 normal draws, so the relative standard error is sqrt(2 / 1728).
    assert weight.var().item() == pytest.approx(2 / (64 * 9), rel=4 * (2 / 1728) ** 0.5)


def test_image_size_that_cannot_be_halved_twice_is_refused():
    with pytest.raises(ValueError, match="multiple of 4"):
        TwoLayerCNN(image_size=30)


def test_shapes_and_sizes_of_the_splits(data):
    assert (len(data.train_set), len(data.val_set)) == (FASHION_MNIST_TRAIN_IMAGES, 1_000)
    image, label = data.train_set[0]
    assert image.shape == (1, 28, 28)
    assert label.shape == ()


def test_every_class_has_the_same_number_of_images(data):
    assert torch.bincount(data.train_set.targets).tolist() == [600] * 10
    assert torch.bincount(data.val_set.targets).tolist() == [100] * 10


def test_no_test_image_is_trained_on(data):
    training = {image.numpy().tobytes() for image in data.train_set.images}
    assert not any(image.numpy().tobytes() in training for image in data.val_set.images)


def test_training_images_are_normalised(data):
    images, _ = data.train_set.__getitems__(range(6_000))
    assert images.mean().item() == pytest.approx(0, abs=1e-4)
    assert images.std().item() == pytest.approx(1, abs=1e-4)


def test_validation_is_one_batch(data):
    assert len(data.val_dataloader()) == 1


def test_label_skew_partition_reads_the_labels(data):
    shards = Dirichlet(alpha=0.5).assign(data.train_set, num_workers=16, seed=0)
    assert sum(len(shard) for shard in shards) == 6_000
