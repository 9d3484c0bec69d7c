"""Composed scenes, the reader of COCO, and the two models of the coco recipe."""

import json

import pytest
import torch
from PIL import Image

from recipes.coco import GPT2, CaptionModel, Captions, MultiLabelClassifier, MultiLabelImages, errors
from recipes.coco.annotations import read_captions, read_labels
from recipes.coco.captions import GPT2_VOCABULARY, CaptionTokens
from recipes.coco.scenes import COLOURS, GARMENTS, compose_scenes
from recipes.data import load_fashion_mnist
from recipes.language_modelling import IGNORED

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def scenes():
    garments = load_fashion_mnist()
    return compose_scenes(garments.test_images, garments.test_targets, 200, seed=0)


def test_a_caption_names_what_the_labels_say_and_nothing_else(scenes) -> None:
    for labels, caption in zip(scenes.labels, scenes.captions, strict=True):
        things = caption.replace(" and ", ", ").split(", ")
        named = {GARMENTS.index(thing.split(" at the ")[0].split(" ", 2)[2]) for thing in things}
        assert named == set(labels.nonzero().flatten().tolist())
        assert all(thing.split(" ")[1] in COLOURS for thing in things)
        assert 1 <= len(things) <= 4


def test_garments_are_where_the_caption_puts_them(scenes) -> None:
    for image, caption in zip(scenes.images, scenes.captions, strict=True):
        background = image[:, 31:33, 31:33].amin(dim=(1, 2), keepdim=True)
        for number, place in enumerate(("top left", "top right", "bottom left", "bottom right")):
            row, column = divmod(number, 2)
            quarter = image[:, 32 * row : 32 * row + 32, 32 * column : 32 * column + 32]
            assert bool((quarter != background).any()) == (place in caption)


def test_the_same_seed_gives_the_same_scenes_and_another_one_others(scenes) -> None:
    garments = load_fashion_mnist()
    same, other = (compose_scenes(garments.test_images, garments.test_targets, 200, seed) for seed in (0, 1))
    assert torch.equal(same.images, scenes.images)
    assert same.captions == scenes.captions
    assert other.captions != scenes.captions


def test_garments_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="28, 28"):
        compose_scenes(torch.zeros(1, 3, 32, 32, dtype=torch.uint8), torch.zeros(1), 1, seed=0)


@pytest.fixture
def coco(tmp_path):
    """A folder in COCO's format: 80 categories with gaps in their ids, three images, one without annotation."""
    ids = [2 * number + 5 for number in range(80)]
    categories = [{"id": i, "name": f"thing {i}"} for i in reversed(ids)]
    (tmp_path / "annotations").mkdir()
    for split in ("train", "val"):
        (tmp_path / f"{split}2017").mkdir()
        images = [{"id": 100 + n, "file_name": f"{n}.png"} for n in range(3)]
        for n in range(3):
            Image.new("RGB", (30, 20), (40 * n,) * 3).save(tmp_path / f"{split}2017" / f"{n}.png")
        annotations = [{"image_id": 102, "category_id": ids[3]}, {"image_id": 100, "category_id": ids[79]}] * 2
        content = {"images": images, "categories": categories, "annotations": annotations}
        (tmp_path / f"annotations/instances_{split}2017.json").write_text(json.dumps(content))
        captions = [{"image_id": 100, "caption": " A cat\nsits. "}, {"image_id": 101, "caption": "Two dogs."}]
        (tmp_path / f"annotations/captions_{split}2017.json").write_text(json.dumps({"annotations": captions}))
    return tmp_path


def test_labels_of_coco_are_numbered_by_the_order_of_their_ids(coco) -> None:
    split = read_labels(coco, "train")
    assert split.labels.nonzero().tolist() == [[0, 79], [2, 3]]
    assert split.names[3] == "thing 11"
    assert [path.name for path in split.paths] == ["0.png", "1.png", "2.png"]


def test_images_of_coco_are_read_squeezed_and_normalised(coco) -> None:
    data = MultiLabelImages(str(coco), size=8, batch_size=3, val_images=2)
    data.setup()
    images, labels = data.train_set.__getitems__([2, 0])
    assert (data.data_name, len(data.train_set), len(data.val_set)) == ("COCO 2017", 3, 2)
    assert images.shape == (2, 3, 8, 8)
    assert labels.argmax(dim=1).tolist() == [3, 79]
    torch.testing.assert_close(images[0, 0], torch.full((8, 8), (80 / 255 - 0.485) / 0.229))


def test_captions_of_coco_are_read_with_single_spaces(coco) -> None:
    assert read_captions(coco, "val") == ["A cat sits.", "Two dogs."]
    data = Captions(str(coco), vocabulary=260, batch_size=2)
    data.setup()
    assert data.data_name == "COCO 2017 captions (260 BPE tokens)"
    assert len(data.train_set) == 2


@pytest.mark.parametrize("kind", [MultiLabelImages, Captions])
def test_a_folder_without_coco_is_refused_at_once(kind, tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="root=None for the composed scenes"):
        kind(root=str(tmp_path))


@pytest.mark.parametrize(
    "content", ["[", "[]", '{"images": [], "annotations": []}', '{"images": [{}], "categories": [], "annotations": []}']
)
def test_annotations_that_are_something_else_are_refused(coco, content: str) -> None:
    path = coco / "annotations/instances_train2017.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="COCO annotations"):
        read_labels(coco, "train")


def test_a_missing_and_a_damaged_image_are_refused(coco) -> None:
    data = MultiLabelImages(str(coco), size=8, batch_size=1)
    data.setup()
    (coco / "train2017/1.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match="unpack the images again"):
        data.train_set[1]
    (coco / "val2017/0.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"Unpack val2017\.zip"):
        read_labels(coco, "val")


def test_tokens_follow_each_other_up_to_the_end() -> None:
    data = CaptionTokens([[5, 6], [1, 2, 3, 4]], length=4, end=9)
    tokens, following = data.__getitems__([0, 1])
    assert tokens.tolist() == [[9, 5, 6, 9], [9, 1, 2, 3]]
    assert following.tolist() == [[5, 6, 9, IGNORED], [1, 2, 3, 4]]


def test_captions_of_scenes_fit_the_default_length() -> None:
    data = Captions(train_scenes=400, val_scenes=50)
    data.setup()
    assert (data.train_set.targets != IGNORED).sum(dim=1).max() < data.length


def test_the_vocabulary_of_gpt2_is_used_where_it_is_given(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"vocab\.json, merges\.txt"):
        Captions(gpt2=str(tmp_path), vocabulary=GPT2_VOCABULARY)
    with pytest.raises(ValueError, match="GPT-2 has 50257"):
        Captions(gpt2=str(tmp_path), vocabulary=320)
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    words = {token: number for number, token in enumerate(letters)}
    words |= {f"unused{number}": number for number in range(len(letters), GPT2_VOCABULARY - 1)}
    words["<|endoftext|>"] = GPT2_VOCABULARY - 1
    (tmp_path / "vocab.json").write_text(json.dumps(words))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    data = Captions(gpt2=str(tmp_path), vocabulary=GPT2_VOCABULARY, train_scenes=40, val_scenes=4)
    data.setup()
    assert "GPT-2 BPE tokens" in data.data_name
    first = Captions(train_scenes=40, val_scenes=4)._texts()[0][0]
    assert data.train_set[0][0][1] == words[first[0]]
    assert data.train_set[0][0][0] == GPT2_VOCABULARY - 1


def test_the_decoder_does_not_look_ahead() -> None:
    torch.manual_seed(0)
    decoder = GPT2(vocabulary=20, context=8, layers=2, width=16, heads=4)
    one, other = torch.randint(20, (2, 1, 8))
    other[:, :5] = one[:, :5]
    same = (decoder(one) - decoder(other)).abs().amax(dim=(0, 2))
    assert same[:5].max() < 1e-5
    assert same[5:].min() > 1e-4


def test_the_architecture_has_the_size_of_gpt2() -> None:
    with torch.device("meta"):
        decoder = GPT2(vocabulary=GPT2_VOCABULARY, context=1024, layers=12, width=768, heads=12)
    assert sum(p.numel() for p in decoder.parameters()) == 124_439_808


def test_padding_does_not_enter_the_loss() -> None:
    torch.manual_seed(0)
    module = CaptionModel(vocabulary=10, context=6, layers=1, width=8, heads=2)
    short, long = (CaptionTokens([[1, 2]], length=length, end=9).__getitems__([0]) for length in (3, 6))
    torch.testing.assert_close(module.loss(short), module.loss(long))


@pytest.mark.parametrize("network", ["scene_cnn", "mobilenet_v3_small", "resnet50"])
def test_a_classifier_has_one_logit_for_each_label(network: str) -> None:
    module = MultiLabelClassifier(network, num_labels=7).eval()
    assert module(torch.zeros(1, 3, 64, 64)).shape == (1, 7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiLabelClassifier("alexnet"), "scene_cnn, mobilenet_v3_small, resnet50"),
        (lambda: MultiLabelClassifier(num_labels=0), "num_labels"),
        (lambda: GPT2(8, 8, 1, width=10, heads=4), "multiple of heads"),
        (lambda: MultiLabelImages(train_scenes=0), "train_scenes"),
        (lambda: MultiLabelImages(val_images=0), "val_images"),
        (lambda: Captions(vocabulary=256), "vocabulary"),
        (lambda: Captions(length=0), "length"),
    ],
)
def test_wrong_arguments_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("module", "data", "message"),
    [
        (lambda: MultiLabelClassifier(num_labels=80), lambda: MultiLabelImages(train_scenes=40), "num_labels to 10"),
        (lambda: CaptionModel(vocabulary=300), lambda: Captions(train_scenes=40), "same vocabulary"),
        (lambda: CaptionModel(context=20), lambda: Captions(train_scenes=40), "raise its context"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(module, data, message: str) -> None:
    from lightning.pytorch import Trainer

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(accelerator="cpu", max_steps=1, enable_model_summary=False, **quiet)
    with pytest.raises(ValueError, match=message):
        trainer.fit(module(), datamodule=data())


@pytest.fixture(scope="module")
def start() -> errors.Point:
    torch.set_num_threads(1)
    return errors.Point(updates=0, batch=2, lr=1.0, scenes=40)


def test_measured_errors_are_those_of_a_code_that_loses_little_and_of_one_that_loses_much(start: errors.Point) -> None:
    proposed, uncoded = errors.measured_errors(start, 10, 12, ["Proposed", "Uncoded"])
    assert (proposed.scheme, uncoded.scheme) == ("Proposed", "Uncoded")
    assert proposed.mean + 4 * proposed.error < uncoded.mean - 4 * uncoded.error


def test_the_gradient_of_a_place_is_the_same_whenever_it_is_asked_for(start: errors.Point) -> None:
    first, again, other = start.gradient(3), start.gradient(3), start.gradient(4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert 0.0 < start.correlation(6) < 1.0


def test_training_goes_before_the_measurement() -> None:
    point = errors.Point(updates=3, batch=2, lr=0.1, scenes=40)
    assert 0.0 < point.loss < 1.0


def test_the_command_prints_a_column_for_every_budget(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--updates", "[0]", "--bits", "[10, 20]", "--rounds", "2", "--batch", "1", "--scenes", "20"]
    assert errors.main(words) == 0
    text = capsys.readouterr().out
    assert "After 0 updates" in text
    assert "10 bits" in text
    assert "20 bits" in text
