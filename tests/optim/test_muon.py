"""Who gets which norm, by module type."""

import logging

import pytest
import torch
from torch import nn
from torchvision.models import resnet18

from lightning_async.optim import LMO, Muon, param_groups
from lightning_async.optim.assignment import assign_norms, format_table
from recipes.nanochat.model import Decoder, NanoChat


def _table(module: nn.Module, **options) -> dict[str, tuple[str, str]]:
    return {a.name: (a.role, a.norm) for a in assign_norms(module, **options)}


def test_roles_of_every_kind_of_parameter(small_network):
    assert _table(small_network) == {
        "0.weight": ("embedding", "row_rms"),
        "1.weight": ("hidden", "spectral"),
        "1.bias": ("vector", "bias_rms"),
        "2.weight": ("norm", "bias_rms"),
        "2.bias": ("norm", "bias_rms"),
        "4.weight": ("hidden", "spectral"),
        "4.bias": ("vector", "bias_rms"),
        "6.weight": ("head", "sign"),
        "6.bias": ("vector", "bias_rms"),
    }


def test_the_decoder_has_36_hidden_matrices_of_three_shapes():
    (hidden,) = (group for group in param_groups(Decoder()) if group["norm"] == "spectral")
    shapes = [tuple(p.shape) for p in hidden["params"]]
    assert {s: shapes.count(s) for s in shapes} == {(192, 192): 24, (768, 192): 6, (192, 768): 6}


def test_tied_weights_appear_once_and_get_no_muon():
    table = _table(Decoder(vocabulary=32, layers=1, width=8, heads=2, tied=True))
    assert table["embedding.weight"] == ("tied", "sign")
    assert "head.weight" not in table
    assert table["blocks.0.contract.weight"] == ("hidden", "spectral"), "the last untied linear layer is hidden"


def test_a_resnet_gives_muon_to_its_convolutions_only():
    table = _table(resnet18())
    assert {name for name, (_, norm) in table.items() if norm == "spectral"} == {
        name for name, p in resnet18().named_parameters() if p.ndim == 4
    }
    assert table["fc.weight"] == ("head", "sign")


@pytest.mark.parametrize("wrap", [torch.compile, lambda m: nn.ModuleDict({"net": torch.compile(m)})["net"]])
def test_a_compiled_module_gets_the_table_of_the_plain_one(small_network, wrap):
    compiled = wrap(small_network)
    assert any("_orig_mod" in name for name, _ in compiled.named_parameters())
    assert _table(compiled) == _table(small_network)
    assert _table(compiled, overrides={"1.weight": "sign"}) == _table(small_network, overrides={"1.weight": "sign"})


def test_a_compiled_submodule_gets_the_table_of_the_plain_one():
    plain, compiled = (NanoChat(vocabulary=32, layers=1, width=8, heads=2) for _ in range(2))
    compiled.decoder = torch.compile(compiled.decoder)
    assert _table(compiled) == _table(plain)


def test_multidimensional_layer_norms_are_norms():
    assert _table(nn.Sequential(nn.LayerNorm((3, 4))))["0.weight"] == ("norm", "bias_rms")


def test_a_class_token_is_a_vector_and_a_bare_matrix_is_hidden():
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 1, 4))
            self.matrix = nn.Parameter(torch.zeros(3, 4))

    assert _table(Custom()) == {"token": ("vector", "bias_rms"), "matrix": ("hidden", "spectral")}


def test_frozen_parameters_are_left_out(small_network):
    small_network[1].weight.requires_grad_(False)
    assert "1.weight" not in _table(small_network)


def test_the_first_matching_override_wins(small_network):
    table = _table(small_network, overrides={"1.*": "sign", "*.weight": "euclidean"})
    assert table["1.weight"][1] == "sign"
    assert table["4.weight"][1] == "euclidean"
    assert table["4.bias"][1] == "bias_rms"


def test_an_override_cannot_make_a_vector_spectral(small_network):
    assert _table(small_network, overrides={"*": "spectral"})["1.bias"][1] == "bias_rms"


def test_norms_by_role_replace_the_default(small_network):
    assert _table(small_network, norms={"head": "spectral"})["6.weight"] == ("head", "spectral")


def test_sign_steps_are_scaled_by_the_inputs(small_network):
    radii = {group["role"]: group["radius"] for group in param_groups(small_network)}
    assert radii["head"] == 1 / 12
    assert set(radii.values()) == {1.0, 1 / 12}


def test_every_trainable_parameter_is_in_exactly_one_group(small_network):
    grouped = [p for group in param_groups(small_network) for p in group["params"]]
    assert len(grouped) == len({id(p) for p in grouped}) == len(list(small_network.parameters()))


def test_step_sizes_are_scaled_by_role(small_network):
    lrs = {g["role"]: g["lr"] for g in Muon(small_network, lr=0.1, lr_scale={"head": 5.0}).param_groups}
    assert lrs == {"hidden": 0.1, "embedding": 0.1, "head": 0.5, "norm": 0.1, "vector": 0.1}


def test_muon_is_lmo_on_the_groups(small_network):
    optimizer = Muon(small_network)
    assert isinstance(optimizer, LMO)
    assert [g["norm"] for g in optimizer.param_groups] == [g["norm"] for g in param_groups(small_network)]


def test_the_table_is_logged_once(caplog):
    model = nn.Sequential(nn.Linear(13, 7), nn.Linear(7, 3))
    with caplog.at_level(logging.INFO, logger="lightning_async"):
        Muon(model)
        Muon(model)
    assert [record.message.count("\n") for record in caplog.records] == [5]
    assert "0.weight   7x13   1      hidden  spectral" in caplog.text


def test_repeated_layers_share_a_line_of_the_table():
    table = format_table(assign_norms(Decoder(vocabulary=16, layers=3, width=8, heads=2)))
    rows = [line.split() for line in table.splitlines()]
    assert ["blocks.*.expand.weight", "32x8", "3", "hidden", "spectral"] in rows
    assert len(rows) == 1 + 2 + 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overrides": {"nothing.*": "sign"}}, r"\['nothing.\*'\] match no trainable parameter; there are: 0.weight"),
        ({"overrides": {"0.*": "nuclear"}}, "norm 'nuclear' of '0"),
        ({"norms": {"body": "sign"}}, "unknown role 'body'; roles are hidden"),
        ({"norms": {"head": "muon"}}, "norm 'muon' of 'head'"),
        ({"lr_scale": {"body": 2.0}}, "unknown role 'body'"),
        ({"lr_scale": {"head": -2.0}}, "must be zero or positive"),
    ],
)
def test_bad_assignments_are_refused(small_network, options, message):
    with pytest.raises(ValueError, match=message):
        Muon(small_network, **options)


def test_parameters_in_place_of_the_module_are_refused_with_the_remedy(small_network):
    with pytest.raises(TypeError, match=r"need the nn\.Module, got generator; pass the module"):
        Muon(small_network.parameters())


def test_a_module_without_trainable_parameters_is_refused():
    with pytest.raises(ValueError, match="ReLU has no trainable parameter"):
        Muon(nn.ReLU())
