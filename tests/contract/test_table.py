import pytest
from contract_battery.table import CONTRACTS, COVERED

from lightning_async.methods import GradientCoding
from lightning_async.strategies.registry import BASELINE_CODES, REGISTERED


def test_every_registered_method_is_in_the_table() -> None:
    listed = {name for name in CONTRACTS if "/" not in name} | {*COVERED}
    missing, unknown = {*REGISTERED} - listed, listed - {*REGISTERED}
    assert not missing, f"no entry in CONTRACTS or COVERED of tests/contract/contract_battery/table.py: {missing}"
    assert not unknown, f"in the table, but not registered: {unknown}"


@pytest.mark.parametrize(("name", "other"), COVERED.items())
def test_a_name_is_covered_by_the_same_method(name: str, other: str) -> None:
    assert type(REGISTERED[name]().method) is type(REGISTERED[other]().method)


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
