import torch


def pytest_configure() -> None:
    """One thread a process: for the same sums everywhere, and because there are several processes."""
    torch.set_num_threads(1)
