"""Every kind of training data that a Trainer takes."""

import warnings
from itertools import cycle, islice

import pytest
import torch
from contract_battery.classifier import Classifier
from contract_battery.images import CLASSES, Images, loader
from contract_battery.running import differences, outcome, progress, quiet
from contract_battery.table import OWN, REGISTERED_OWN, SHAPES
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, WeightedRandomSampler

from lightning_async import Link, LocalSGDStrategy, ParameterServerStrategy, SimulatedCluster
from lightning_async.data import Dirichlet, Shards
from lightning_async.methods import ASGD, LocalSGD
from lightning_async.simulation import FixedTimes

every_shape = pytest.mark.parametrize("name", SHAPES)
PLAIN = Images()


class Stream(IterableDataset):
    def __iter__(self):
        return iter([PLAIN[index] for index in range(len(PLAIN))])


class SizedStream(Stream):
    def __len__(self) -> int:
        return len(PLAIN)


class Batches:
    """Mini-batches that are there already, as a loader of one's own."""

    def __init__(self) -> None:
        self.batches = list(loader())

    def __iter__(self):
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class Ready(Dataset):
    """A dataset whose samples are whole mini-batches."""

    def __init__(self) -> None:
        self.batches = list(loader())

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int):
        return self.batches[index]


class Drawn:
    """A batch sampler without a length."""

    def __iter__(self):
        return iter([[2 * i, 2 * i + 1] for i in range(6)] + [[12]])


KINDS = {
    "stream": lambda: DataLoader(Stream(), batch_size=2),
    "stream-with-length": lambda: DataLoader(SizedStream(), batch_size=2),
    "iterable-of-batches": Batches,
    "batch-sampler": lambda: DataLoader(PLAIN, batch_sampler=BatchSampler(range(len(PLAIN)), 2, drop_last=False)),
    "batch-sampler-without-length": lambda: DataLoader(PLAIN, batch_sampler=Drawn()),
    "ready-batches": lambda: DataLoader(Ready(), batch_size=None),
}


class Seeing(Classifier):
    """Writes down the mini-batches it is given."""

    def __init__(self) -> None:
        super().__init__("momentum", dropout=0.3)
        self.seen: list[float] = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch[0].sum().item())
        return super().training_step(batch, batch_idx)


def train(name: str, data, module=None, max_steps: int = 9, ckpt_path=None, partition=None, **arguments):
    contract = OWN[name]
    strategy = contract.build(partition=partition)
    trainer = quiet(strategy=strategy, max_steps=max_steps, **arguments)
    module = module if module is not None else Seeing()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, data, ckpt_path=ckpt_path)
    return trainer


@pytest.mark.parametrize("kind", KINDS)
@every_shape
def test_all_kinds_give_the_same_mini_batches(name: str, kind: str) -> None:
    expected = train(name, loader())
    ours = train(name, KINDS[kind]())
    assert ours.lightning_module.seen == expected.lightning_module.seen
    assert differences(outcome(expected), outcome(ours)) == []


@pytest.mark.parametrize("kind", ["stream", "stream-with-length", "iterable-of-batches"])
def test_data_that_can_only_be_read_in_order_say_what_resuming_means(kind: str) -> None:
    contract = REGISTERED_OWN["asgd"]
    trainer = quiet(strategy=contract.build(), max_steps=1)
    with pytest.warns(UserWarning, match="map-style dataset to have it continue"):
        trainer.fit(Seeing(), KINDS[kind]())


@pytest.mark.parametrize("kind", ["batch-sampler", "batch-sampler-without-length", "ready-batches"])
@pytest.mark.parametrize("name", ["asgd", "rennala_sgd"])
def test_map_style_kinds_are_resumed(name: str, kind: str) -> None:
    whole = train(name, KINDS[kind]())
    for step in (1, 2, 3, 7):
        train(name, KINDS[kind](), max_steps=step).save_checkpoint("a.ckpt")
        resumed = train(name, KINDS[kind](), ckpt_path="a.ckpt")
        assert differences(outcome(whole), outcome(resumed)) == []


@pytest.mark.parametrize("kind", ["stream", "stream-with-length", "iterable-of-batches"])
def test_a_resumed_stream_begins_again(kind: str) -> None:
    train("asgd", KINDS[kind](), max_steps=3).save_checkpoint("a.ckpt")
    resumed = train("asgd", KINDS[kind](), max_steps=6, ckpt_path="a.ckpt")
    beginning = train("asgd", loader(), max_steps=3)
    assert resumed.lightning_module.seen == beginning.lightning_module.seen
    assert resumed.global_step == progress(resumed.strategy)["progress"][1] == 6


@every_shape
def test_mini_batches_may_be_dictionaries(name: str) -> None:
    class Named(Dataset):
        def __len__(self) -> int:
            return len(PLAIN)

        def __getitem__(self, index: int):
            x, y = PLAIN[index]
            return {"image": x, "more": {"label": y}}

    class TakesDictionaries(Seeing):
        def training_step(self, batch, batch_idx):
            return super().training_step([batch["image"], batch["more"]["label"]], batch_idx)

    ours = train(name, DataLoader(Named(), batch_size=2), TakesDictionaries())
    assert differences(outcome(train(name, loader())), outcome(ours)) == []


@every_shape
def test_a_step_may_leave_the_index_of_its_batch_out(name: str) -> None:
    class Short(Classifier):
        def training_step(self, batch):
            return self.loss(batch)

    ours = train(name, loader(), Short("momentum", dropout=0.3))
    assert differences(outcome(train(name, loader())), outcome(ours)) == []


SAMPLERS = {
    "shuffled": lambda: loader(shuffle=True),
    "shuffled-with-a-generator": lambda: loader(shuffle=True, generator=torch.Generator().manual_seed(8)),
    "weighted": lambda: loader(sampler=WeightedRandomSampler([1.0] * 13, 13), shuffle=None),
    "random-batches": lambda: DataLoader(PLAIN, batch_sampler=BatchSampler(RandomSampler(PLAIN), 2, drop_last=True)),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_order_depends_on_the_seed_and_on_nothing_else(sampler: str) -> None:
    runs = []
    for surroundings, method in ((1, "asgd"), (2, "rennala_sgd"), (3, "clipped_asgd")):
        torch.manual_seed(surroundings)
        runs.append(train(method, SAMPLERS[sampler](), max_steps=9).lightning_module.seen[:9])
    assert runs[0] == runs[1] == runs[2]
    assert runs[0] != train("asgd", loader(), max_steps=9).lightning_module.seen


@every_shape
def test_loading_processes_change_nothing(name: str) -> None:
    runs = [train(name, loader(shuffle=True, augment=True, num_workers=n), max_steps=8) for n in (0, 2)]
    assert runs[0].lightning_module.seen == runs[1].lightning_module.seen
    assert differences(*map(outcome, runs)) == []


@pytest.mark.parametrize("partition", [Shards(per_worker=1), Dirichlet(alpha=0.5)], ids=["shards", "dirichlet"])
@pytest.mark.parametrize("name", OWN)
def test_an_owner_of_data_draws_from_its_own_shard_in_the_order_of_its_jobs(name: str, partition) -> None:
    class Owners(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.drawn: list[set[int]] = []

        def training_step(self, batch, batch_idx):
            self.drawn.append({int((PLAIN.x == x).flatten(1).all(1).nonzero()) for x in batch[0]})
            return super().training_step(batch, batch_idx)

    module = Owners()
    train(name, loader(), module, max_steps=12, partition=partition)
    shards = [shard.tolist() for shard in partition.assign(PLAIN, 4, 0)]
    batches = [[set(shard[i : i + 2]) for i in range(0, len(shard), 2)] for shard in shards]
    schedule = OWN[name].method().steps(OWN[name].cluster().start(sharded=True))
    owners = [job.shard for step in islice(schedule, 12) for job in step.jobs for _ in range(OWN[name].local_steps)]
    assert len(module.drawn) == len(owners)
    streams = [cycle(own) for own in batches]
    assert module.drawn == [next(streams[owner]) for owner in owners]


def test_labels_of_the_battery_are_skewed_by_shards() -> None:
    owned = Shards(per_worker=1).assign(PLAIN, 4, 0)
    assert min(len({int(PLAIN.targets[i]) for i in shard}) for shard in owned) < CLASSES


@pytest.mark.parametrize("replicas", [False, True], ids=["server", "replicas"])
def test_owners_draw_on_a_link_that_messages_of_the_size_of_the_model_take_time_on(replicas: bool) -> None:
    cluster = SimulatedCluster(FixedTimes([1.0, 1.5, 2.3]), Link(bandwidth=1e4))
    arguments = {"cluster": cluster, "partition": Shards(per_worker=1)}
    strategy = (
        LocalSGDStrategy(LocalSGD(compute_window=4.0), **arguments)
        if replicas
        else ParameterServerStrategy(ASGD(), **arguments)
    )
    quiet(strategy=strategy, max_steps=12).fit(Classifier(), loader())
    assert strategy.last_step.index == 11
