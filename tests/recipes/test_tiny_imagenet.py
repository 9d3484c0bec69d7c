import numpy as np
import pytest
import torch
from PIL import Image

from recipes.fashion_cnn import ResNet18
from recipes.tiny_imagenet import TinyImageNet

CLASSES = ("n02124075", "n01443537", "n04067472")
TRAIN, VAL = 4, 5


@pytest.fixture
def root(tmp_path):
    """A folder of Tiny ImageNet's layout: every image has one grey level, which says what it is."""
    folder = tmp_path / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "test" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(CLASSES) + "\n")
    (folder / "words.txt").write_text("".join(f"{name}\tsomething\n" for name in CLASSES))
    for number, name in enumerate(CLASSES):
        images = folder / "train" / name / "images"
        images.mkdir(parents=True)
        (images.parent / f"{name}_boxes.txt").write_text("")
        for i in range(TRAIN):
            write(images / f"{name}_{i}.JPEG", level(number, i), mode="L" if i == 0 else "RGB")
    rows = []
    for i in range(VAL):
        name = CLASSES[i % len(CLASSES)]
        write(folder / "val" / "images" / f"val_{i}.JPEG", 200 + i)
        rows.append(f"val_{i}.JPEG\t{name}\t0\t32\t44\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(rows))
    return tmp_path


def level(number, i):
    return 40 * number + 8 * i


def write(path, value, size=64, mode="RGB"):
    pixels = np.full((size, size), value, dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path, format="JPEG", quality=100)


def set_up(**arguments):
    module = TinyImageNet(batch_size=2, **arguments)
    module.setup()
    return module


def test_images_have_the_class_of_their_folder_in_the_order_of_the_list(root):
    data = set_up(root=str(root)).train_set
    assert data.images.shape == (len(CLASSES) * TRAIN, 3, 64, 64)
    assert data.targets.tolist() == [number for number in range(len(CLASSES)) for _ in range(TRAIN)]
    expected = [level(number, i) for number in range(len(CLASSES)) for i in range(TRAIN)]
    levels = data.images.float()
    assert torch.allclose(levels.mean((1, 2, 3)), torch.tensor(expected).float(), atol=1.0)
    assert levels.flatten(1).std(1).max() < 1.0  # grey files as well: three equal channels


def test_validation_labels_come_from_the_annotations(root):
    data = set_up(root=str(root)).val_set
    assert data.targets.tolist() == [0, 1, 2, 0, 1]
    assert torch.allclose(data.images.float().mean((1, 2, 3)), 200.0 + torch.arange(VAL), atol=1.0)


def test_augmentation_touches_training_images_only(root):
    module = set_up(root=str(root))
    assert (module.train_set.transform is None, module.val_set.transform is None) == (False, True)
    assert set_up(root=str(root), augment=False).train_set.transform is None


def test_the_data_are_called_what_they_are(root):
    assert TinyImageNet(root=str(root)).data_name == "Tiny ImageNet"
    assert TinyImageNet(root=None).data_name == "Fashion-MNIST stand-in for Tiny ImageNet"


def test_the_stand_in_has_the_shapes_of_tiny_imagenet():
    module = set_up()
    images, targets = module.val_set.__getitems__(range(4))
    assert images.shape == (4, 3, 64, 64)
    assert targets.max() < 200
    assert len(module.train_set) == 6_000


def test_the_network_has_a_logit_for_every_class():
    assert ResNet18(num_classes=200)(torch.zeros(1, 3, 64, 64)).shape == (1, 200)


def test_a_root_without_tiny_imagenet_is_refused_at_construction(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tiny-imagenet-200/wnids.txt.*root=None"):
        TinyImageNet(root=str(tmp_path))


def damaged(folder):
    (folder / "train" / CLASSES[1] / "images" / f"{CLASSES[1]}_0.JPEG").write_bytes(b"not an image")


def missing(folder):
    (folder / "val" / "images" / "val_2.JPEG").unlink()


def empty(folder):
    for path in (folder / "train" / CLASSES[2] / "images").iterdir():
        path.unlink()


def unknown(folder):
    (folder / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn00000000\t0\t0\t1\t1\n")


def large(folder):
    write(folder / "val" / "images" / "val_0.JPEG", 0, size=32)


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (damaged, FileNotFoundError, r"n01443537_0.JPEG is missing or damaged.*root=None"),
        (missing, FileNotFoundError, r"val_2.JPEG is missing or damaged"),
        (empty, FileNotFoundError, r"n04067472/images holds no \*.JPEG"),
        (unknown, ValueError, r"class 'n00000000', which wnids.txt does not list"),
        (large, ValueError, r"val_0.JPEG is 32 x 32 pixels"),
    ],
)
def test_an_incomplete_copy_is_refused_and_not_replaced_by_the_stand_in(root, spoil, error, message):
    spoil(root / "tiny-imagenet-200")
    with pytest.raises(error, match=message):
        set_up(root=str(root))
