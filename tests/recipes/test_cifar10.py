import hashlib
import pickle

import numpy as np
import pytest
import torch
from torchvision import datasets

from recipes.data import ImageDataset
from recipes.fashion_cnn import CIFAR10, FashionMNIST7000

TRAIN, TEST = 30, 10


@pytest.fixture
def cifar_root(tmp_path, monkeypatch):
    """A folder of CIFAR-10's format, with the MD5 sums that torchvision compares set to those of its small files."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)

    def write(name, content):
        (folder / name).write_bytes(pickle.dumps(content))
        return name, hashlib.md5((folder / name).read_bytes()).hexdigest()

    def batch(size):
        pixels = rng.integers(0, 256, (size, 3 * 32 * 32), dtype=np.uint8)
        return {"data": pixels, "labels": [row % 10 for row in range(size)]}

    monkeypatch.setattr(datasets.CIFAR10, "train_list", [write("data_batch_1", batch(TRAIN))])
    monkeypatch.setattr(datasets.CIFAR10, "test_list", [write("test_batch", batch(TEST))])
    name, md5 = write("batches.meta", {"label_names": [str(number) for number in range(10)]})
    monkeypatch.setattr(datasets.CIFAR10, "meta", {"filename": name, "key": "label_names", "md5": md5})
    return tmp_path


def set_up(**arguments):
    module = CIFAR10(**arguments)
    module.setup()
    return module


def test_genuine_images_keep_their_pixels_and_labels(cifar_root):
    module = set_up(root=str(cifar_root), batch_size=8)
    stored = pickle.loads((cifar_root / "cifar-10-batches-py" / "data_batch_1").read_bytes())
    assert np.array_equal(module.train_set.images.numpy().reshape(TRAIN, -1), stored["data"])
    assert module.train_set.targets.tolist() == stored["labels"]
    assert len(module.val_set) == TEST


def test_genuine_data_is_called_cifar10(cifar_root):
    assert CIFAR10(root=str(cifar_root)).data_name == "CIFAR-10"


def test_stand_in_is_never_called_cifar10():
    assert CIFAR10(root=None).data_name == "Fashion-MNIST stand-in for CIFAR-10"


def test_root_without_cifar10_is_refused_at_construction(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-py.*root=None"):
        CIFAR10(root=str(tmp_path))


def test_damaged_file_is_refused_instead_of_replaced_by_the_stand_in(cifar_root):
    (cifar_root / "cifar-10-batches-py" / "test_batch").write_bytes(b"damaged")
    with pytest.raises(FileNotFoundError, match="incomplete or damaged"):
        CIFAR10(root=str(cifar_root)).setup()


def test_stand_in_is_padded_fashion_mnist_in_three_equal_channels():
    stand_in = set_up().train_set.images
    fashion = FashionMNIST7000()
    fashion.setup()
    assert stand_in.shape == (6_000, 3, 32, 32)
    for channel in range(3):
        assert torch.equal(stand_in[:, channel, 2:-2, 2:-2], fashion.train_set.images[:, 0])
    assert stand_in.sum() == 3 * fashion.train_set.images.sum()


def test_augmentation_touches_training_images_only():
    module = set_up(augment=True)
    assert module.val_set.transform is None
    torch.manual_seed(0)
    first, _ = module.train_set.__getitems__(range(64))
    second, _ = module.train_set.__getitems__(range(64))
    assert not torch.equal(first, second)


def test_augmentation_is_reproduced_by_the_seed():
    module = set_up(augment=True)
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append(module.train_set.__getitems__(range(64))[0])
    assert torch.equal(*draws)


def test_augmentation_pads_with_black_before_normalising():
    transform = set_up(augment=True).train_set.transform
    white = torch.full((64, 3, 32, 32), 255, dtype=torch.uint8)
    torch.manual_seed(0)
    images, _ = ImageDataset(white, torch.zeros(64), [0.5] * 3, [0.5] * 3, transform).__getitems__(range(64))
    assert images.unique().tolist() == pytest.approx([-1.0, 1.0])
