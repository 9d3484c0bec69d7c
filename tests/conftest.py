import torch
from hypothesis import HealthCheck, settings


def pytest_configure() -> None:
    """One thread a process, and no test that fails because the machine is busy."""
    torch.set_num_threads(1)
    settings.register_profile("busy", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")
