"""Optimizers: steps that minimise a linearised loss over a norm ball (Muon and its relatives), and two-track Adam."""

from lightning_async.optim.lmo import LMO
from lightning_async.optim.muon import Muon, param_groups
from lightning_async.optim.two_track_adam import TwoTrackAdam

__all__ = ["LMO", "Muon", "TwoTrackAdam", "param_groups"]
