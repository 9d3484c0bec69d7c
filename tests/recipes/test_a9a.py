import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from scipy.optimize import minimize

from recipes.a9a import A9A, LogisticRegression
from recipes.a9a.objective import MINIMUM, minimiser, objective

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def data():
    module = A9A()
    module.setup()
    return module


@pytest.fixture(scope="module")
def optimum(data):
    """The minimiser found by L-BFGS on the module's own objective in double precision, and its value."""
    model = LogisticRegression().double()
    features, labels = data.train_set.features.double(), data.train_set.targets.double()

    def value_and_gradient(weight):
        model.weight.data = torch.from_numpy(np.array(weight))
        value = model.objective(features, labels)
        (gradient,) = torch.autograd.grad(value, [model.weight])
        return value.item(), gradient.numpy()

    result = minimize(
        value_and_gradient,
        np.zeros(123),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-10, "gtol": 1e-6},
    )
    return torch.from_numpy(result.x), result.fun


def test_rows_are_those_of_libsvm(data):
    train, test = data.train_set, data.val_set
    assert (train.features.shape, test.features.shape) == ((32_561, 123), (16_281, 123))
    assert (train.features.sum(), test.features.sum()) == (451_592, 225_731)
    assert ((train.targets > 0).sum(), (test.targets > 0).sum()) == (7_841, 3_846)


def test_rows_are_multi_hot_with_signed_labels(data):
    for split in (data.train_set, data.val_set):
        assert set(split.features.unique().tolist()) == {0.0, 1.0}
        assert set(split.targets.unique().tolist()) == {-1.0, 1.0}


def test_minimum_of_the_objective_is_the_known_one(optimum):
    assert optimum[1] == pytest.approx(MINIMUM, abs=5e-6)


def test_minimum_of_newton_is_that_of_lbfgs(data, optimum):
    signed = data.train_set.signed.double()
    w = minimiser(signed, 1 / len(signed))
    value = objective(signed @ w, w, 1 / len(signed)).item()
    assert value == pytest.approx(optimum[1], abs=1e-8)
    assert round(value, 5) == MINIMUM


def test_validation_reports_objective_and_test_accuracy_at_the_optimum(data, optimum):
    model = LogisticRegression()
    model.weight.data = optimum[0].float()
    metrics = {}
    for values in Trainer(**QUIET).validate(model, data, verbose=False):
        metrics |= values
    assert metrics["val/objective"] == pytest.approx(MINIMUM, abs=1e-5)
    assert metrics["val/acc"] == pytest.approx(0.850, abs=5e-4)


def test_mean_of_minibatch_gradients_is_the_gradient_of_the_objective(data):
    model = LogisticRegression(l2=0.1)
    torch.manual_seed(0)
    model.weight.data = torch.randn(123)
    rows = data.train_set.__getitems__(range(320))

    def gradient(features, labels):
        return torch.autograd.grad(model.objective(features, labels), [model.weight])[0]

    parts = [gradient(*(tensor[start : start + 32] for tensor in rows)) for start in range(0, 320, 32)]
    torch.testing.assert_close(torch.stack(parts).mean(0), gradient(*rows))


@pytest.mark.parametrize(("arguments", "message"), [({"l2": -1.0}, "l2"), ({"num_features": 0}, "num_features")])
def test_impossible_problems_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"{message} must"):
        LogisticRegression(**arguments)
