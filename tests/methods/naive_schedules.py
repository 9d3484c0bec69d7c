"""Every method's rule in a dozen lines: steps (index, time, jobs, discarded) on a cluster that is searched through."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, sqrt
from typing import TypeAlias

from lightning_async.simulation import WorkerTimes
from tests.simulation.naive_cluster import CyclicTimes, NaiveCluster

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


def malenia(times: WorkerTimes, target: float | None = None) -> Iterator[NaiveStep]:
    cluster, k, discarded, n = NaiveCluster(times), 0, 0, times.num_workers
    while True:
        dispatch_all(cluster, k)
        jobs, received = [], [0] * n
        while True:
            _, job = cluster.next_arrival()
            jobs.append(job)
            received[job[0]] += 1
            if all(received) and n / sum(Fraction(1, b) for b in received) >= Fraction(target or n) / n:
                break
            cluster.dispatch(job[0], k)
        yield k, cluster.now, tuple(jobs), discarded
        k += 1
        discarded = sum(cluster.cancel(worker) is not None for worker in range(n))


def ringleader(times: WorkerTimes) -> Iterator[NaiveStep]:
    cluster, k, jobs = start(times), 0, []
    table, later = set(), set()  # workers with a gradient in the table of this round, and of the next
    while True:
        updated = set()
        while len(updated) < times.num_workers:
            time, job = cluster.next_arrival()
            worker = job[0]
            jobs.append(job)
            (later if worker in updated else table).add(worker)
            if worker in updated or len(table) < times.num_workers:
                cluster.dispatch(worker, job[1])
                continue
            yield k, time, tuple(jobs), 0
            k, jobs = k + 1, []
            updated.add(worker)
            cluster.dispatch(worker, k)
        table, later = later, set()


def iasgd(times: WorkerTimes) -> Iterator[NaiveStep]:
    cluster, k, arrived = start(times), 0, []
    while True:
        time, job = cluster.next_arrival()
        arrived.append(job)
        if k or len({worker for worker, _, _ in arrived}) == times.num_workers:
            used = [job for i, job in enumerate(arrived) if job[0] not in {later[0] for later in arrived[i + 1 :]}]
            yield k, time, tuple(used), len(arrived) - len(used)
            k, arrived = k + 1, []
        cluster.dispatch(job[0], k)


def fedbuff(times: CyclicTimes, buffer: int, local_steps: int) -> Iterator[NaiveStep]:
    def jobs_of(durations: list[float]) -> list[float]:
        several = durations * local_steps  # after so many gradients as well the durations begin anew
        return [sum(several[i : i + local_steps]) for i in range(0, len(several), local_steps)]

    cluster, k, jobs = start(CyclicTimes([jobs_of(list(mine)) for mine in times.durations])), 0, []
    while True:
        time, job = cluster.next_arrival()
        jobs.append(job)
        if len(jobs) == buffer:
            yield k, time, tuple(jobs), 0
            k, jobs = k + 1, []
        cluster.dispatch(job[0], k)
