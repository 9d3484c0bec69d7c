"""The text of the NanoChat recipe, its tokens, and its configurations."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning.pytorch import Trainer

from lightning_async.cli.compare.plan import known_runs
from lightning_async.cli.compare.reading import load_comparison
from lightning_async.cli.training import TrainingCLI
from lightning_async.optim import Muon
from recipes.data import load_austen
from recipes.nanochat import NanoChat, TextTokens
from recipes.nanochat.text import TokenWindows, split_text
from recipes.nanochat.tokenizer import encode, train_tokenizer

CONFIGS = Path(__file__).parents[2] / "configs"
COMPARISONS = sorted((CONFIGS / "compare").glob("ringmaster_muon_*.yaml"))
SMALL = {"vocabulary": 300, "sequence_length": 16, "max_characters": 40_000}
# LightningCLI 2.6 calls jsonargparse by names that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*was deprecated in v4:DeprecationWarning")


@pytest.fixture(scope="module")
def austen() -> str:
    return load_austen()[:200_000]


@given(st.text(max_size=2000))
def test_the_parts_of_a_text_are_the_text(text: str) -> None:
    train, validation = split_text(text)
    assert sorted("".join(train) + "".join(validation)) == sorted(text)


def test_a_tenth_of_the_text_is_for_validation_and_no_line_is_cut(austen: str) -> None:
    train, validation = split_text(austen)
    assert 0.09 < len("".join(validation)) / len(austen) < 0.11
    assert all(piece.endswith("\n") for piece in (*train, *validation)[:-1])
    lines = austen.splitlines()
    assert {line for piece in (*train, *validation) for line in piece.splitlines()} == set(lines)


def test_tokens_are_reversible_and_repeatable(austen: str) -> None:
    train, validation = split_text(austen)
    one, other = (train_tokenizer(train, 400) for _ in range(2))
    assert one.get_vocab() == other.get_vocab()
    assert one.get_vocab_size() == 400
    assert one.decode(encode(one, validation).tolist()) == "".join(validation)


@settings(max_examples=20)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=40))
def test_any_text_can_be_written_in_the_tokens(text: str) -> None:
    tokenizer = train_tokenizer(["a rose is a rose is a rose"], 270)
    assert tokenizer.decode(encode(tokenizer, [text, "."]).tolist()) == text + "."


def test_a_larger_vocabulary_makes_a_shorter_text(austen: str) -> None:
    lengths = [len(encode(train_tokenizer([austen], v), [austen])) for v in (256, 512, 1024)]
    assert len(austen.encode()) == lengths[0] > 1.5 * lengths[1] > 1.5 * 1.2 * lengths[2]


def test_windows_lie_one_behind_the_other_and_predict_every_token_once() -> None:
    windows = TokenWindows(torch.arange(21), length=5)
    tokens, following = windows.__getitems__([0, 1, 2, 3])
    assert len(windows) == 4
    assert torch.equal(tokens.flatten(), torch.arange(20))
    assert torch.equal(following.flatten(), torch.arange(1, 21))


def test_the_tokenizer_does_not_see_the_validation_part(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def spy(pieces, vocabulary):
        seen.extend(pieces)
        return train_tokenizer(pieces, vocabulary)

    monkeypatch.setattr("recipes.nanochat.text.train_tokenizer", spy)
    TextTokens(**{**SMALL, "vocabulary": 301}).setup()  # a size that no other test has read already
    assert seen == split_text(load_austen()[:40_000])[0]


def test_any_file_by_path(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Ein Fröschlein saß im Gras.\n" * 400, encoding="utf-8")
    data = TextTokens(str(file), vocabulary=280, sequence_length=8)
    data.setup()
    assert data.data_name == "notes.txt (the file, 280 BPE tokens)"
    assert next(iter(data.train_dataloader()))[0].shape == (4, 8)


def test_vocabularies_of_model_and_data_must_agree(tmp_path: Path) -> None:
    trainer = Trainer(max_steps=1, logger=False, enable_checkpointing=False, accelerator="cpu")
    with pytest.raises(ValueError, match=r"model has 64 tokens, the data 300"):
        trainer.fit(NanoChat(vocabulary=64, layers=1, width=8, heads=2), datamodule=TextTokens(**SMALL))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": 255}, "vocabulary must be at least 256"),
        ({"sequence_length": 0}, "sequence_length must be at least 1"),
        ({"max_characters": 0}, "max_characters must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_sizes_out_of_range_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextTokens(**arguments)


def test_a_missing_file_is_refused_at_once() -> None:
    with pytest.raises(FileNotFoundError, match=r"no text file nowhere\.txt"):
        TextTokens("nowhere.txt")


def test_a_text_shorter_than_a_window_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "short.txt"
    file.write_text("one line\n" * 200)
    with pytest.raises(ValueError, match="shorter than one window of 513"):
        TextTokens(str(file), vocabulary=256, sequence_length=512).setup()


@pytest.mark.parametrize("name", ["nanochat", "nanochat_small"])
def test_a_configuration_trains_with_muon(name: str, tmp_path: Path) -> None:
    cli = TrainingCLI(
        args=[
            f"--config={CONFIGS / 'recipes' / name}.yaml",
            f"--trainer.logger.init_args.save_dir={tmp_path}",
            "--trainer.max_steps=3",
            "--trainer.val_check_interval=2",
            "--trainer.enable_progress_bar=false",
            "--trainer.enable_model_summary=false",
            "--trainer.accelerator=cpu",
            "--data.max_characters=60000",
            "--data.sequence_length=32",
            "--data.val_samples=2",
            *(["--data.vocabulary=512", "--model.vocabulary=512"] if name == "nanochat" else []),
        ],
        run=False,
        save_config_kwargs={"overwrite": True},
    )
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    assert cli.trainer.global_step == 3
    assert isinstance(cli.trainer.optimizers[0], Muon)
    assert {"train/loss", "val/loss", "val/perplexity"} <= cli.trainer.callback_metrics.keys()
    assert cli.datamodule.data_name == "Austen (first 60,000 characters of six novels, 512 BPE tokens)"


def test_full_size_is_that_of_the_experiment() -> None:
    cli = TrainingCLI(
        args=[f"--config={CONFIGS / 'recipes' / 'nanochat.yaml'}", "--trainer.accelerator=cpu"], run=False
    )
    assert sum(p.numel() for p in cli.model.parameters()) == 36 * 192**2 * 2 + 2 * 8192 * 192
    assert (cli.datamodule.sequence_length, cli.datamodule.batch_size) == (2048, 4)


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_a_comparison_is_valid_and_differs_in_times_and_budget_only(path: Path) -> None:
    ours, linear = load_comparison(path), load_comparison(COMPARISONS[0])
    assert len(ours.panels[0].methods) == 5
    assert known_runs(ours, {})
    assert (ours.recipe, ours.target, ours.seeds, ours.tuning_seeds) == (
        linear.recipe,
        linear.target,
        linear.seeds,
        linear.tuning_seeds,
    )
    assert [replace(method, cluster={}) for method in ours.panels[0].methods] == [
        replace(method, cluster={}) for method in linear.panels[0].methods
    ]


def test_in_every_comparison_busy_workers_finish_as_many_gradients() -> None:
    counts = []
    for path in COMPARISONS:
        comparison = load_comparison(path)
        times = TrainingCLI.from_config(next(iter(known_runs(comparison, {}).values())).config).trainer.strategy.cluster
        counts.append(sum(comparison.budget / time for time in times.times.times.constant))
    assert len(counts) == 3
    assert max(counts) / min(counts) < 1.02
