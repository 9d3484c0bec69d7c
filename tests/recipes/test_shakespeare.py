import math

import pytest
import torch
from lightning.pytorch import Trainer

from lightning_async.data import ByGroup
from recipes.data import load_shakespeare, load_shakespeare_roles
from recipes.shakespeare_lstm import CharacterLSTM, ShakespeareRoles

LENGTH = 40


@pytest.fixture(scope="module")
def splits():
    return load_shakespeare(sequence_length=LENGTH)


def decode(windows, vocabulary):
    return ["".join(vocabulary[code] for code in window) for window in windows.tolist()]


def test_vocabulary_does_not_depend_on_the_part_that_is_used(splits):
    assert len(splits.vocabulary) == 81
    assert load_shakespeare(max_characters=50_000).vocabulary == splits.vocabulary


def test_windows_of_a_role_continue_each_other_from_the_start_of_its_text(splits):
    number = splits.train.group_names.index("hamlet/HAMLET")
    windows = splits.train.windows[splits.train.groups == number]
    text = "".join(window[:-1] for window in decode(windows, splits.vocabulary))
    assert load_shakespeare_roles()["hamlet/HAMLET"].startswith(text)


def test_validation_follows_the_training_text_of_each_role(splits):
    roles = load_shakespeare_roles()
    for number in splits.validation.groups.unique().tolist():
        text = roles[splits.validation.group_names[number]]
        cut = int(len(text) * 0.9)
        windows = splits.validation.windows[splits.validation.groups == number]
        first, *_ = decode(windows[:1], splits.vocabulary)
        trained = int((splits.train.groups == number).sum()) * LENGTH + 1
        assert text[cut:].startswith(first)
        assert trained <= cut


def test_almost_all_characters_are_in_a_window(splits):
    used = (len(splits.train) + len(splits.validation)) * LENGTH
    total = sum(len(text) for text in load_shakespeare_roles().values())
    assert 0.97 * total < used < total


def test_targets_are_the_inputs_shifted_by_one(splits):
    inputs, targets = splits.train.__getitems__([0, 7])
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_split_is_deterministic(splits):
    again = load_shakespeare(sequence_length=LENGTH)
    assert torch.equal(again.train.windows, splits.train.windows)
    assert torch.equal(again.validation.windows, splits.validation.windows)


def test_partition_by_role_never_splits_a_role(splits):
    shards = ByGroup().assign(splits.train, num_workers=16, seed=0)
    owned = [set(splits.train.groups[shard].tolist()) for shard in shards]
    assert sum(map(len, owned)) == len(set.union(*owned))


def test_name_tells_how_much_of_the_text_is_used():
    assert ShakespeareRoles().data_name == "Shakespeare (38 plays by role)"
    assert ShakespeareRoles(max_characters=50_000).data_name == "Shakespeare (first 50,000 characters)"


def test_subset_uses_no_more_than_the_characters_it_names():
    train, validation, _ = load_shakespeare(sequence_length=10, max_characters=50_000)
    assert (len(train) + len(validation)) * 10 <= 50_000


def test_validation_samples_are_spread_over_the_plays():
    module = ShakespeareRoles(val_samples=200)
    module.setup()
    assert len(module.val_set) == 200
    plays = {module.val_set.group_names[number].split("/")[0] for number in module.val_set.groups.tolist()}
    assert len(plays) == 38


@pytest.mark.parametrize("argument", ["sequence_length", "max_characters", "val_samples"])
def test_sizes_that_are_not_positive_are_refused_at_construction(argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least 1"):
        ShakespeareRoles(**{argument: 0})


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_train_fraction_without_both_parts_is_refused(fraction):
    with pytest.raises(ValueError, match="train_fraction"):
        load_shakespeare(train_fraction=fraction)


def test_text_too_short_for_a_window_is_refused():
    with pytest.raises(ValueError, match="Shorten sequence_length"):
        load_shakespeare(sequence_length=1000, max_characters=500)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_size": 0}, "hidden_size must be at least 1"),
        ({"num_layers": 0}, "num_layers must be at least 1"),
        ({"dropout": 1.0}, "dropout must be a probability"),
    ],
)
def test_impossible_networks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CharacterLSTM(**arguments)


def test_perplexity_is_the_exponential_of_the_loss_over_all_characters():
    torch.manual_seed(0)
    model = CharacterLSTM(hidden_size=8)
    data = ShakespeareRoles(max_characters=100_000, val_samples=70, val_batch_size=32)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    (metrics,) = Trainer(**quiet).validate(model, data, verbose=False)
    inputs, targets = data.val_set.__getitems__(range(70))
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model.eval()(inputs).flatten(0, 1), targets.flatten()).item()
    assert metrics["val/loss"] == pytest.approx(loss, rel=1e-5)
    assert metrics["val/perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_dropout_acts_in_training_and_not_in_evaluation(num_layers):
    model = CharacterLSTM(hidden_size=8, num_layers=num_layers)
    characters = torch.zeros(1, 5, dtype=torch.long)
    assert not torch.equal(model(characters), model(characters))
    model.eval()
    assert torch.equal(model(characters), model(characters))
