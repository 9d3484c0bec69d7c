"""Data of heterogeneous workers: who owns which sample, and how skewed that is."""

from lightning_async.data.partition import IID, IndexArray, Partition
from lightning_async.data.partition_by_group import ByGroup
from lightning_async.data.partition_dirichlet import Dirichlet, QuantitySkew
from lightning_async.data.partition_labels import read_labels
from lightning_async.data.partition_report import PartitionReport, partition_report
from lightning_async.data.partition_shards import Shards

__all__ = [
    "IID",
    "ByGroup",
    "Dirichlet",
    "IndexArray",
    "Partition",
    "PartitionReport",
    "QuantitySkew",
    "Shards",
    "partition_report",
    "read_labels",
]
