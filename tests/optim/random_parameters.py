"""Parameters with random gradients."""

import torch
from torch import nn


def random_parameter(*shape: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    parameter = nn.Parameter(torch.randn(shape).to(dtype))
    parameter.grad = torch.randn(shape).to(dtype)
    return parameter


def new_gradients(parameters: list[nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
