"""Asynchronous, coded and communication-sparse distributed training for any LightningModule."""
