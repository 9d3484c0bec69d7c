"""Labels and groups are found where datasets keep them, and samples are read only as the last resort."""

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from lightning_async.data import read_labels

LABELS = [3, 1, 2, 1, 3, 0]


class Unreadable(Dataset[Any]):
    """Keeps per-sample values in one attribute, and fails when a sample is loaded."""

    def __init__(self, **attributes: object) -> None:
        vars(self).update(attributes)

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was loaded although the values are stored")


class Samples(Dataset[Any]):
    """Only samples, nothing stored."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Table(Unreadable):
    """Like a table of the `datasets` library: columns by name."""

    column_names = ("text", "label", "writer")

    def __getitem__(self, index: int | str) -> Any:
        return {"label": LABELS, "writer": [f"w{label}" for label in LABELS]}[index]


class RandomSamples(Samples):
    """Draws from every global generator, as an augmentation does."""

    def __getitem__(self, index: int) -> Any:
        return torch.rand(1) + np.random.rand() + random.random(), int(torch.randint(5, (1,)))


@pytest.mark.parametrize(
    "dataset",
    [
        Unreadable(targets=LABELS),
        Unreadable(targets=torch.tensor(LABELS)),
        Unreadable(targets=[torch.tensor(label) for label in LABELS]),
        Unreadable(targets=torch.tensor(LABELS).reshape(-1, 1)),
        Unreadable(labels=np.array(LABELS)),
        Unreadable(labels=["one", "two"], targets=LABELS),
        TensorDataset(torch.zeros(6, 2), torch.tensor(LABELS)),
        Table(),
        Subset(Unreadable(targets=LABELS * 1), range(6)),
        ConcatDataset(
            [Subset(Unreadable(targets=LABELS), [0, 1]), TensorDataset(torch.zeros(4), torch.tensor(LABELS[2:]))]
        ),
    ],
    ids=lambda dataset: f"{type(dataset).__name__}-{','.join(vars(dataset))}",
)
def test_stored_labels_are_found_without_a_warning(dataset: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_labels(dataset).tolist() == LABELS


def test_subset_of_subset_follows_both_index_lists() -> None:
    dataset = Subset(Subset(Unreadable(targets=LABELS), [5, 4, 2, 0]), [3, 0])
    assert read_labels(dataset).tolist() == [LABELS[0], LABELS[5]]


def test_torchvision_dataset_keeps_its_images_unloaded() -> None:
    from torchvision.datasets import VisionDataset

    class Vision(Unreadable, VisionDataset):
        pass

    assert read_labels(Subset(Vision(targets=LABELS), [1, 0])).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("dataset", "by"),
    [
        (Unreadable(groups=["a", "b", "a", "c", "b", "a"]), "groups"),
        (Samples([{"role": name} for name in "abacba"]), "role"),
        (Samples([(0, 1, name) for name in "abacba"]), 2),
        (Samples(list("abacba")), str.lower),
    ],
    ids=["attribute", "key", "position", "function"],
)
@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_groups_are_found_by_name_position_or_function(dataset: Any, by: Any) -> None:
    assert read_labels(dataset, by).tolist() == list("abacba")


def test_column_is_found_by_name() -> None:
    assert read_labels(Table(), "writer").tolist() == [f"w{label}" for label in LABELS]


@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_function_can_be_named_as_text() -> None:
    assert read_labels(Samples([[1], [1, 2]]), "builtins:len").tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_tuples_can_be_groups() -> None:
    assert list(read_labels(Samples([1, 2, 3]), lambda sample: ("parity", sample % 2))) == [
        ("parity", 1),
        ("parity", 0),
        ("parity", 1),
    ]


@pytest.mark.parametrize(
    "samples",
    [
        [(None, label) for label in LABELS],
        [{"image": None, "label": label} for label in LABELS],
        [(None, torch.tensor(label)) for label in LABELS],
    ],
    ids=["pair", "mapping", "tensor"],
)
def test_unstored_labels_are_read_from_the_samples_with_a_warning(samples: list[Any]) -> None:
    with pytest.warns(UserWarning, match="labels of Samples are not stored: reading all 6 samples"):
        assert read_labels(Samples(samples)).tolist() == LABELS


def test_the_warning_names_the_function_of_the_samples() -> None:
    with pytest.warns(UserWarning, match=r"by=\S*test_the_warning_names\S*<lambda> \w{16} of Samples are not stored"):
        read_labels(Samples([1, 2, 3]), lambda sample: sample % 2)


@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_reading_samples_that_draw_at_random_is_repeatable_and_leaves_the_random_states() -> None:
    dataset = RandomSamples(LABELS)
    first = read_labels(dataset)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    second = read_labels(dataset)
    assert first.tolist() == second.tolist()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    np.testing.assert_array_equal(before[2], np.random.get_state()[1])


@pytest.mark.parametrize(
    ("dataset", "by"),
    [
        (Samples([1, 2]), None),
        (Samples([(1,), (2,)]), None),
        (Samples([{"x": 1}]), None),
        (Samples([{"x": 1}]), "role"),
        (Samples([(1, 2)]), "role"),
        (TensorDataset(torch.zeros(3)), None),
        (TensorDataset(torch.zeros(3)), 4),
    ],
)
def test_nothing_to_be_found_is_a_type_error_naming_dataset_and_sample(dataset: Any, by: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"of {type(dataset).__name__} cannot be found.*is a (int|tuple|dict)\. Pass by="
    ):
        read_labels(dataset, by)


def test_continuous_targets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"continuous values \(0\.5"):
        read_labels(TensorDataset(torch.zeros(2), torch.tensor([1.0, 0.5])))


def test_one_hot_targets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 3\).*one value per sample"):
        read_labels(TensorDataset(torch.zeros(3), torch.eye(3)))


@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_values_that_cannot_be_hashed_are_refused() -> None:
    with pytest.raises(TypeError, match="holds a dict, which cannot be hashed"):
        read_labels(Samples([1, 2]), lambda sample: {"boxes": sample})


@pytest.mark.filterwarnings("ignore:.*are not stored")
def test_an_error_inside_the_users_function_is_not_hidden() -> None:
    with pytest.raises(KeyError, match="missing"):
        read_labels(Samples([{}]), lambda sample: sample["missing"])
