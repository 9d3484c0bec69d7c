import pytest
from contract_battery.table import CONTRACTS

from lightning_async.methods import GradientCoding
from lightning_async.strategies.registry import BASELINE_CODES, REGISTERED

# The same method with other codes and decoders; the table has one of them, and variants.
FAMILY = {name for name in REGISTERED if name.startswith("gradient_coding_")}


def test_every_registered_method_is_in_the_table() -> None:
    assert {name for name in CONTRACTS if "/" not in name} == set(REGISTERED) - FAMILY


def test_baselines_of_gradient_coding_are_its_other_codes() -> None:
    registered = {name: REGISTERED[name]().method for name in ("gradient_coding", *BASELINE_CODES)}
    assert all(type(method) is GradientCoding for method in registered.values())
    assert len({method.code for method in registered.values()}) == len(registered)


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_table_is_about_the_method_that_is_registered(name: str) -> None:
    contract = CONTRACTS[name]
    registered = REGISTERED[name.partition("/")[0]]()
    assert type(registered) is contract.strategy
    assert type(registered.method) is type(contract.method())


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_point_without_meaning_has_a_reason(name: str) -> None:
    contract = CONTRACTS[name]
    assert (contract.alone is None) == bool(contract.why_not_alone)
