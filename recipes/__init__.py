"""Experiments: LightningModules and DataModules that train with any strategy, and with none."""
