import pytest
import torch
from torch.utils.data import DataLoader, Subset, default_collate

from recipes.a9a import A9A
from recipes.data import ImageDataset, channel_statistics, collate_batched
from recipes.fashion_cnn import CIFAR10, FashionMNIST7000
from recipes.shakespeare_lstm import ShakespeareRoles

MODULES = {
    "fashion": FashionMNIST7000,
    "cifar": lambda **sizes: CIFAR10(augment=False, **sizes),
    "shakespeare": lambda **sizes: ShakespeareRoles(max_characters=100_000, **sizes),
    "a9a": A9A,
}


@pytest.fixture(params=MODULES)
def make_module(request):
    return MODULES[request.param]


@pytest.fixture
def train_set(make_module):
    module = make_module()
    module.setup()
    return module.train_set


def assert_same(left, right):
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_stacked_read_equals_collated_single_reads(train_set):
    indices = [5, 0, 17, 5]
    assert_same(train_set.__getitems__(indices), default_collate([train_set[index] for index in indices]))


def test_collate_accepts_single_samples(train_set):
    assert_same(collate_batched([train_set[3], train_set[4]]), train_set.__getitems__([3, 4]))


def test_subset_reads_the_stacked_samples_of_its_owner(train_set):
    shard = Subset(train_set, [9, 2, 30, 4])
    batch = next(iter(DataLoader(shard, batch_size=4, collate_fn=collate_batched)))
    assert_same(batch, train_set.__getitems__([9, 2, 30, 4]))


def test_loader_processes_give_the_same_batches(make_module):
    batches = []
    for num_workers in (0, 2):
        module = make_module(num_workers=num_workers, batch_size=500)
        module.setup()
        torch.manual_seed(0)
        batches.append(next(iter(module.train_dataloader())))
    assert_same(*batches)


def test_training_batches_are_always_full(make_module):
    module = make_module(batch_size=500)
    module.setup()
    assert {len(targets) for _, targets in module.train_dataloader()} == {500}


def test_setup_reads_the_data_once(make_module):
    module = make_module()
    module.setup("fit")
    first = module.train_set
    module.setup("validate")
    assert module.train_set is first


def test_data_before_setup_is_an_error(make_module):
    with pytest.raises(RuntimeError, match="setup"):
        make_module().train_dataloader()


@pytest.mark.parametrize("argument", ["batch_size", "val_batch_size", "num_workers"])
def test_negative_sizes_are_refused_at_construction(make_module, argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least"):
        make_module(**{argument: -1})


def test_batch_larger_than_the_training_set_is_refused(make_module):
    with pytest.raises(ValueError, match="choose a smaller batch_size"):
        make_module(batch_size=10**6).setup()


def test_channel_statistics_equal_those_of_the_floating_point_images():
    images = torch.randint(0, 256, (20, 3, 5, 4), generator=torch.manual_seed(0), dtype=torch.uint8)
    mean, std = channel_statistics(images)
    floats = images.double() / 255
    torch.testing.assert_close(torch.tensor(mean), floats.mean((0, 2, 3)).float())
    torch.testing.assert_close(torch.tensor(std), floats.std((0, 2, 3), correction=0).float())


@pytest.mark.parametrize(
    ("images", "targets", "mean", "message"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2), [0.0], "uint8"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2), [0.0], "channels"),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(3), [0.0], "3 targets"),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(2), [0.0, 0.0], "one number per channel"),
    ],
)
def test_inconsistent_images_are_refused(images, targets, mean, message):
    with pytest.raises(ValueError, match=message):
        ImageDataset(images, targets, mean, [1.0])
