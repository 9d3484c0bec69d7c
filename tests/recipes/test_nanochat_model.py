"""The NanoChat decoder and its module."""

import math

import pytest
import torch

from recipes.nanochat.model import Decoder, NanoChat

SMALL = {"vocabulary": 32, "layers": 2, "width": 24, "heads": 3}


def _trained_decoder(**options) -> Decoder:
    """With branches that do not end in zeros, as after training."""
    torch.manual_seed(0)
    decoder = Decoder(**{**SMALL, **options})
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(std=0.3)
    return decoder


def test_full_size_has_the_parameters_of_the_experiment():
    hidden, table = 6 * (4 * 192**2 + 2 * 4 * 192**2), 8192 * 192
    assert sum(p.numel() for p in Decoder().parameters()) == hidden + 2 * table
    assert sum(p.numel() for p in Decoder(tied=True).parameters()) == hidden + table


@pytest.mark.parametrize("tied", [False, True])
def test_an_untrained_decoder_predicts_every_token_alike(tied):
    torch.manual_seed(0)
    windows = torch.randint(0, 32, (4, 17))
    loss = NanoChat(**SMALL, tied=tied).loss((windows[:, :-1], windows[:, 1:]))
    assert loss.item() == pytest.approx(math.log(32), abs=0.05)


def test_logits_do_not_depend_on_later_tokens():
    decoder = _trained_decoder()
    tokens = torch.randint(0, 32, (2, 12))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 32
    before, after = decoder(tokens), decoder(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_logits_depend_on_the_order_of_earlier_tokens():
    decoder = _trained_decoder()
    one, other = decoder(torch.tensor([[3, 5, 7, 9]])), decoder(torch.tensor([[5, 3, 7, 9]]))
    assert not torch.allclose(one[:, -1], other[:, -1])


def test_attention_sees_relative_positions_only():
    """A longer sequence of one repeated token looks alike from every place but for the count of what came before."""
    decoder = _trained_decoder()
    logits = decoder(torch.full((1, 9), 4))
    torch.testing.assert_close(logits[:, 1:], logits[:, :1].expand(-1, 8, -1), rtol=1e-4, atol=1e-4)


def test_logits_are_capped():
    decoder = _trained_decoder(softcap=2.0)
    with torch.no_grad():
        decoder.head.weight.mul_(100)
    assert decoder(torch.randint(0, 32, (1, 5))).abs().amax() <= 2.0


def test_tied_weights_are_one_parameter():
    decoder = Decoder(**SMALL, tied=True)
    assert decoder.head.weight is decoder.embedding.weight


def test_a_few_steps_of_its_own_optimizer_learn_a_repeating_text():
    torch.manual_seed(0)
    module = NanoChat(**SMALL, lr=0.05)
    optimizer = module.configure_optimizers()
    windows = torch.randint(0, 32, (32, 8)).repeat(1, 4)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = module.loss((windows[:, :-1], windows[:, 1:]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.75 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"), [({"width": 25}, "width=25 must be"), ({"softcap": 0.0}, "softcap=0.0")]
)
def test_impossible_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Decoder(**{**SMALL, **options})
