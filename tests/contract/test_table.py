import pytest
from contract_battery.table import CONTRACTS, REGISTERED_ONES

from lightning_async.strategies.registry import REGISTERED


def test_every_registered_method_is_in_the_table() -> None:
    assert set(REGISTERED_ONES) == set(REGISTERED)


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
