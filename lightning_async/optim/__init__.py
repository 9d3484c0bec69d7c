"""Optimizers: steps that minimise a linearised loss over a norm ball (Muon and its relatives)."""

from lightning_async.optim.lmo import LMO
from lightning_async.optim.muon import Muon, param_groups

__all__ = ["LMO", "Muon", "param_groups"]
