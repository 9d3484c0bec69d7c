"""Worker times built from configuration, as the command line does it."""

import math
import warnings

import pytest
from jsonargparse import ArgumentParser

from lightning_async.simulation import (
    BernoulliStragglers,
    ExponentialStraggling,
    FixedTimes,
    HalfNormalNoise,
    LinearTimes,
    OutagePower,
    PowerTimes,
    RandomTimes,
    TwoSpeedTimes,
    WorkerTimes,
)


def _block(name, **arguments):
    return {"class_path": f"lightning_async.simulation.{name}", "init_args": arguments}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (_block("FixedTimes", times=[1, 2.5]), FixedTimes([1.0, 2.5])),
        (_block("TwoSpeedTimes", num_workers=16, slowdown=4), TwoSpeedTimes(16, 4.0)),
        (_block("HalfNormalNoise", times=_block("LinearTimes", num_workers=8)), HalfNormalNoise(LinearTimes(8))),
        (_block("HalfNormalNoise", times=[1.0], std=0.5), HalfNormalNoise([1.0], std=0.5)),
        (_block("RandomTimes", num_workers=2, distribution="gamma"), RandomTimes(2, "gamma")),
        (
            _block("PowerTimes", powers=[2.0, _block("OutagePower", outages=[[1, 2], [3, math.inf]])]),
            PowerTimes([2.0, OutagePower([(1.0, 2.0), (3.0, math.inf)])]),
        ),
        (_block("BernoulliStragglers", p=[0.1, 0.2]), BernoulliStragglers([0.1, 0.2])),
        (
            _block("BernoulliStragglers", p=_block("ExponentialStraggling", num_workers=5, threshold=1.1)),
            BernoulliStragglers(ExponentialStraggling(5, 1.1)),
        ),
    ],
)
def test_configuration_builds_the_same_model(block, expected):
    parser = ArgumentParser()
    parser.add_argument("--times", type=WorkerTimes)
    config = parser.parse_string(parser.dump(parser.parse_object({"times": block})))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert parser.instantiate_classes(config).times == expected
