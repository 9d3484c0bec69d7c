from pathlib import Path

import pytest

from lightning_async.cli.main import main


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # WandbLogger(offline=True) leaves this behind in the environment.
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setattr("sys.argv", ["lightning-async"])


def arguments(configs: Path, command: str) -> list[str]:
    return [
        *(command, "--config", str(configs / "recipe.yaml"), "--config", str(configs / "methods/clipped_asgd.yaml")),
        *("--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"),
    ]


def saving(configs: Path, every: int, max_steps: int) -> list[str]:
    """A fit that validates, and so saves, after every so many steps."""
    return [
        *arguments(configs, "fit"),
        *("--trainer.logger=CSVLogger", "--trainer.logger.save_dir=logs", "--trainer.enable_checkpointing=true"),
        *(f"--trainer.val_check_interval={every}", f"--trainer.max_steps={max_steps}", "--trainer.max_epochs=-1"),
    ]


def test_a_recipe_with_a_method_overlay_is_fitted_and_its_configuration_saved(configs: Path, tmp_path: Path) -> None:
    csv = ["--trainer.logger=CSVLogger", "--trainer.logger.save_dir=logs", "--trainer.max_steps=5"]
    assert main([*arguments(configs, "fit"), *csv, "--trainer.max_epochs=-1"]) == 0
    saved = next(tmp_path.rglob("config.yaml")).read_text()
    assert "lightning_async.methods.ClippedASGD" in saved


def test_logical_time_is_logged_without_asking(configs: Path, tmp_path: Path) -> None:
    csv = ["--trainer.logger=CSVLogger", "--trainer.logger.save_dir=logs", "--trainer.log_every_n_steps=1"]
    assert main([*arguments(configs, "fit"), *csv, "--trainer.max_steps=3", "--trainer.max_epochs=-1"]) == 0
    assert "logical_time" in next(tmp_path.rglob("metrics.csv")).read_text()


def test_a_fit_ends_with_how_far_it_came_and_where_its_files_are(
    configs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(saving(configs, every=2, max_steps=5)) == 0
    steps, *places = capsys.readouterr().out.splitlines()[-3:]
    assert steps.startswith("5 steps in logical time ")
    assert "; val/loss " in steps
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    places[0] = places[0].removesuffix(" (the last step is in none)")
    assert [Path(place.split(": ")[1]).resolve() for place in places] == [checkpoint, checkpoint.parents[1]]


@pytest.mark.parametrize("command", ["validate", "test"])
def test_a_model_is_evaluated(configs: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(configs, command)) == 0
    assert "/loss" in capsys.readouterr().out


def test_registered_strategy_names_work_on_the_command_line(configs: Path) -> None:
    words = ["fit", "--config", str(configs / "recipe.yaml"), "--trainer.strategy=clipped_asgd"]
    assert main([*words, "--trainer.max_steps=3", "--trainer.enable_progress_bar=false"]) == 0


def test_wandb_offline_works_twice_in_the_same_folder(
    configs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "config.yaml"
    own.write_text("# written by the user\n")
    wandb = ["--trainer.logger=WandbLogger", "--trainer.logger.offline=true", "--trainer.max_steps=3"]
    kept = ["--trainer.enable_checkpointing=true", "--trainer.callbacks+=LogicalTimeMonitor"]
    for _ in range(2):
        assert main([*arguments(configs, "fit"), *wandb, *kept]) == 0
        import wandb as client

        client.finish()
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 2
    saved = [path for path in tmp_path.rglob("config.yaml") if path != own and "wandb" not in path.parts]
    assert sorted(path.parent for path in saved) == sorted(path.parents[1] for path in tmp_path.rglob("*.ckpt"))
    assert len(saved) == 2
    assert own.read_text() == "# written by the user\n"
    config, log = capsys.readouterr().out.splitlines()[-2:]
    assert Path(config.removeprefix("Configuration: ")).resolve() in saved
    assert len(list(Path(log.removeprefix("Log: ")).glob("run-*.wandb"))) == 1
    assert log.startswith("Log: wandb/offline-run-")


def test_without_a_logger_nothing_is_written(configs: Path, tmp_path: Path) -> None:
    own = tmp_path / "config.yaml"
    own.write_text("# written by the user\n")
    assert main([*arguments(configs, "fit"), "--trainer.logger=false", "--trainer.max_steps=3"]) == 0
    assert own.read_text() == "# written by the user\n"
    assert [path for path in tmp_path.rglob("*.yaml") if not path.is_relative_to(configs)] == [own]


@pytest.mark.parametrize("words", [[], ["--help"], ["compare", "--help"], ["fit", "--help"]])
def test_help_is_shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(words)
    except SystemExit as error:
        status = error.code
    assert status == 0
    assert "lightning-async" in capsys.readouterr().out


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compair"]) == 2
    assert "no command 'compair'; did you mean 'compare'?" in capsys.readouterr().err


def test_a_mistyped_strategy_is_told_with_the_nearest_name(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        main(["fit", "--config", str(configs / "recipe.yaml"), "--trainer.strategy=cliped_asgd"])
    assert status.value.code == 2
    told = capsys.readouterr().err.partition("lightning-async fit: ")[2]
    assert told.startswith("there is no strategy 'cliped_asgd'; did you mean 'clipped_asgd'? (known: asgd, ")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("lightning-async 0.")


STRATEGY = "--trainer.strategy.init_args"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            f"{STRATEGY}.method.init_args.nope=1",
            "lightning-async fit: method: ClippedASGD takes no 'nope'; known: clip, dispatch\n",
        ),
        (
            f"{STRATEGY}.cluster.init_args.times.init_args.slowdwn=1",
            "lightning-async fit: cluster.times: TwoSpeedTimes takes no 'slowdwn'; did you mean 'slowdown'? (known: "
            "num_workers, slow_fraction, slowdown)\n",
        ),
        (
            "--optimizer.init_args.momentm=0.9",
            "lightning-async fit: optimizer: SGD takes no 'momentm'; did you mean 'momentum'? (known: dampening, ",
        ),
        ("--model.init_args.factor=long", "lightning-async fit: model.factor: expected float, got 'long'\n"),
    ],
)
def test_a_mistake_in_an_argument_is_told_in_a_line(
    configs: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    with pytest.raises(SystemExit) as status:
        main([*arguments(configs, "fit"), argument])
    assert status.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(message)
    assert told.count("\n") == 1


METHODS = [
    "ASGD", "ClippedASGD", "DelayAdaptiveASGD", "FedBuff", "GradientCoding", "IASGD", "MaleniaSGD", "MinibatchSGD",
    "ParameterAgnosticRingmaster", "RennalaSGD", "RingleaderASGD", "RingmasterASGD",
]  # fmt: skip
PARTITIONS = ["ByGroup", "Dirichlet", "IID", "QuantitySkew", "Shards"]


@pytest.mark.parametrize(
    ("argument", "message", "names"),
    [
        (f"{STRATEGY}.method=ASDG", "method: there is no Method 'ASDG'; did you mean 'ASGD'? (known: ", METHODS),
        (
            f"{STRATEGY}.method=lightning_async.methods.ASDG",
            "method: there is no Method 'lightning_async.methods.ASDG'; did you mean 'ASGD'? (known: ",
            METHODS,
        ),
        (
            f"{STRATEGY}.partition=Dirichle",
            "partition: there is no Partition 'Dirichle'; did you mean 'Dirichlet'? (known: ",
            PARTITIONS,
        ),
        (
            f"{STRATEGY}.method=LocalSGD",
            "method: 'LocalSGD' is no Method: LocalSGDStrategy takes it, ParameterServerStrategy one of ",
            METHODS,
        ),
        (
            f"{STRATEGY}.method=lightning_async.methods.LocalSGD",
            "method: 'lightning_async.methods.LocalSGD' is no Method: LocalSGDStrategy takes it, "
            "ParameterServerStrategy one of ",
            METHODS,
        ),
        (f"{STRATEGY}.partition=ASGD", "partition: 'ASGD' is no Partition; known: ", PARTITIONS),
    ],
)
def test_a_class_that_does_not_belong_there_is_named_with_those_that_do(
    configs: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str, names: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*arguments(configs, "fit"), argument])
    told = capsys.readouterr().err
    assert told.startswith(f"lightning-async fit: {message}")
    # Classes that other tests define are known as well.
    assert set(names) <= set(told.removeprefix(f"lightning-async fit: {message}").rstrip(")\n").split(", "))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            f"{STRATEGY}.cluster.init_args.times.class_path=TwoSpeedTime",
            "cluster.times: there is no WorkerTimes 'TwoSpeedTime'; did you mean 'TwoSpeedTimes'? (known: ",
        ),
        ("--optimizer=SDG", "optimizer: there is no Optimizer 'SDG'; did you mean 'SGD'? (known: "),
        ("--model=TinyModul", "model: there is no LightningModule 'TinyModul'; "),
        (
            "--trainer.callbacks+=LogicalTimeMonitr",
            "trainer.callbacks: there is no Callback 'LogicalTimeMonitr'; did you mean 'LogicalTimeMonitor'? (known: ",
        ),
        (
            "--trainer.strategy.class_path=ParameterServerStrateg",
            "trainer.strategy: there is no Strategy 'ParameterServerStrateg'; did you mean 'ParameterServerStrategy'? ",
        ),
        (
            "--model=no_such_module.Model",
            "model: No module named 'no_such_module': classes are looked for in the current folder and in installed "
            "packages\n",
        ),
    ],
)
def test_a_mistyped_class_is_named_with_the_nearest_wherever_it_stands(
    configs: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    with pytest.raises(SystemExit):
        main([*arguments(configs, "fit"), argument])
    assert capsys.readouterr().err.startswith(f"lightning-async fit: {message}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [f"{STRATEGY}.cluster.init_args.times.init_args.num_workers=0"],
            "cluster.times.num_workers must be at least 1, got 0",
        ),
        ([f"{STRATEGY}.method.init_args.clip=-1"], "method.clip must be a number above 0, got -1"),
        (["--trainer.accumulate_grad_batches=2"], "accumulate_grad_batches=2 cannot be combined with ClippedASGD"),
        (["--ckpt_path=nowhere.ckpt"], "Checkpoint file not found: nowhere.ckpt"),
        (
            ["--optimizer=null", "--lr_scheduler=ExponentialLR", "--lr_scheduler.gamma=0.9"],
            "lr_scheduler is given",
        ),
        (["--lr_scheduler=StepLR"], "lr_scheduler: the following arguments are required: step_size"),
        (
            [f"{STRATEGY}.method={{class_path: DelayAdaptiveASGD, init_args: {{rule: skip}}}}"],
            "method.rule: expected one of 'scale', 'drop', got 'skip'",
        ),
    ],
)
def test_what_cannot_be_trained_is_told_in_a_line(
    configs: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as status:
        main([*arguments(configs, "fit"), *words])
    assert status.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"lightning-async fit: {message}")


def test_an_error_of_the_module_keeps_its_traceback(configs: Path) -> None:
    with pytest.raises(RuntimeError, match="no luck today"):
        main([*arguments(configs, "fit"), "--model.init_args.fail_at=0", "--trainer.max_steps=3"])


def test_arguments_of_a_strategy_by_name_are_where_its_configuration_is(
    configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "--config", str(configs / "recipe.yaml"), "--trainer.strategy=loscar"]
    with pytest.raises(SystemExit):
        main([*words, "--trainer.strategy.method.sparsity=0.5"])
    assert "'loscar' is a strategy by name" in (told := capsys.readouterr().err)
    assert "--config configs/methods/loscar.yaml" in told


def test_a_fit_that_is_interrupted_ends_with_how_to_go_on(
    configs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*saving(configs, every=2, max_steps=9), "--model=tiny_recipe.Interrupted"])
    ended, place, log, hint = capsys.readouterr().out.splitlines()[-4:]
    (checkpoint,) = tmp_path.rglob("*.ckpt")
    assert ended.startswith("Interrupted after 4 steps in logical time ")
    assert Path(place.removeprefix("Checkpoint: ")).resolve() == checkpoint
    assert log.startswith("Log: ")
    assert "--ckpt_path" in hint


def test_steps_that_are_in_no_checkpoint_are_counted(configs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(saving(configs, every=3, max_steps=5)) == 0
    assert ".ckpt (the last 2 steps are in none)\n" in capsys.readouterr().out
