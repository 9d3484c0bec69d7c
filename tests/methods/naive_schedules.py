"""Every method's rule in a dozen lines: steps (index, time, jobs, discarded) on a cluster that is searched through."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt
from typing import TypeAlias

from lightning_async.simulation import WorkerTimes
from tests.simulation.naive_cluster import NaiveCluster

NaiveStep: TypeAlias = tuple[int, float, tuple[tuple[int, int, int], ...], int]


def start(times: WorkerTimes) -> NaiveCluster:
    cluster = NaiveCluster(times)
    dispatch_all(cluster, 0)
    return cluster


def dispatch_all(cluster: NaiveCluster, version: int) -> None:
    for worker in range(len(cluster.ends)):
        cluster.dispatch(worker, version)


def asgd(times: WorkerTimes, next_worker: Iterator[int] | None = None) -> Iterator[NaiveStep]:
    cluster, k = start(times), 0
    while True:
        time, job = cluster.next_arrival()
        yield k, time, (job,), 0
        k += 1
        cluster.dispatch(job[0] if next_worker is None else next(next_worker), k)


def dropping(times: WorkerTimes, concurrency: int) -> Iterator[NaiveStep]:
    cluster, k, discarded = start(times), 0, 0
    while True:
        time, job = cluster.next_arrival()
        if k - job[1] > concurrency:
            discarded += 1
        else:
            yield k, time, (job,), discarded
            k, discarded = k + 1, 0
        cluster.dispatch(job[0], k)


def adaptive_threshold(k: int) -> int:
    """The smallest delay with delay^2 >= max(1, k)."""
    return ceil(sqrt(max(1, k)))


def ringmaster(times: WorkerTimes, threshold: int | str, stops: bool) -> Iterator[NaiveStep]:
    cluster, k, discarded = start(times), 0, 0
    while True:
        limit = adaptive_threshold(k) if threshold == "adaptive" else threshold
        time, job = cluster.next_arrival()
        if k - job[1] >= limit:
            discarded += 1
            cluster.dispatch(job[0], k)
            continue
        yield k, time, (job,), discarded
        k, discarded = k + 1, 0
        cluster.dispatch(job[0], k)
        limit = adaptive_threshold(k) if threshold == "adaptive" else threshold
        for worker, line in enumerate(cluster.lines):
            if stops and k - line[0][0] >= limit:
                cluster.cancel(worker)
                cluster.dispatch(worker, k)
                discarded += 1


def rennala(times: WorkerTimes, batch: int, stops: bool) -> Iterator[NaiveStep]:
    cluster, k, discarded, jobs = start(times), 0, 0, []
    while True:
        time, job = cluster.next_arrival()
        if job[1] == k:
            jobs.append(job)
        else:
            discarded += 1
        if len(jobs) == batch:
            yield k, time, tuple(jobs), discarded
            k, discarded, jobs = k + 1, 0, []
            if stops:
                discarded = sum(cluster.cancel(worker) is not None for worker in range(times.num_workers))
                dispatch_all(cluster, k)
                continue
        cluster.dispatch(job[0], k)


def minibatch(times: WorkerTimes) -> Iterator[NaiveStep]:
    cluster, k = start(times), 0
    while True:
        arrivals = [cluster.next_arrival() for _ in cluster.ends]
        yield k, cluster.now, tuple(job for _, job in arrivals), 0
        k += 1
        dispatch_all(cluster, k)
