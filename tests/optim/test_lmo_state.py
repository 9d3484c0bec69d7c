"""The state of the optimizer: its precision, and that it is saved, loaded and copied."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from lightning_async.optim import LMO
from tests.optim.random_parameters import new_gradients, random_parameter


def test_momenta_of_bfloat16_parameters_move_by_less_than_its_rounding():
    x = random_parameter(4, 4, dtype=torch.bfloat16)
    x.grad.fill_(1.0)
    optimizer = LMO([x], momentum=0.0, norm="sign")
    optimizer.step()
    x.grad.fill_(1.5)
    optimizer.param_groups[0]["momentum"] = 0.999
    optimizer.step()
    torch.testing.assert_close(optimizer.state[x]["momentum_buffer"], torch.full((4, 4), 1.0005))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("norm", ["spectral", "euclidean"])
def test_a_saved_run_resumes_bit_for_bit(dtype, norm):
    def make() -> tuple[list[nn.Parameter], LMO]:
        torch.manual_seed(0)
        parameters = [
            random_parameter(6, 4, dtype=dtype),
            random_parameter(4, dtype=dtype),
            random_parameter(6, 4, dtype=dtype),
        ]
        return parameters, LMO(parameters, lr=0.05, norm=norm, nesterov=True)

    def run(parameters: list[nn.Parameter], optimizer: LMO, steps: range) -> None:
        for k in steps:
            new_gradients(parameters, k)
            optimizer.param_groups[0]["momentum"] = 1 - (k or 1) ** -0.5
            optimizer.step()

    whole, optimizer = make()
    run(whole, optimizer, range(8))
    first, optimizer = make()
    run(first, optimizer, range(4))
    file = io.BytesIO()
    torch.save({"x": [p.detach() for p in first], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    second, optimizer = make()
    for parameter, value in zip(second, saved["x"], strict=True):
        parameter.data.copy_(value)
    optimizer.load_state_dict(saved["optimizer"])
    run(second, optimizer, range(4, 8))
    for p, q in zip(whole, second, strict=True):
        assert torch.equal(p, q)


def test_a_loaded_state_is_not_shared_with_its_source():
    x, y = random_parameter(3, 3), random_parameter(3, 3)
    source, target = LMO([x]), LMO([y])
    source.step()
    target.load_state_dict(source.state_dict())
    before = source.state[x]["momentum_buffer"].clone()
    target.step()
    assert torch.equal(source.state[x]["momentum_buffer"], before)


def test_a_state_loads_onto_the_device_of_the_parameters():
    x = random_parameter(3, 3)
    optimizer = LMO([x])
    optimizer.step()
    elsewhere = LMO([nn.Parameter(torch.empty(3, 3, device="meta"))])
    elsewhere.load_state_dict(optimizer.state_dict())
    (state,) = elsewhere.state.values()
    assert state["momentum_buffer"].device.type == "meta"


def test_a_copied_or_pickled_optimizer_still_steps():
    x = random_parameter(3, 3)
    optimizer = LMO([x])
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (parameter,) = other.param_groups[0]["params"]
        parameter.grad = torch.full((3, 3), float("nan"))
        with pytest.warns(UserWarning, match="not finite"):
            other.step()
