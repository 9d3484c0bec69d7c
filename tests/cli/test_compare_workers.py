"""What the processes that train the runs of a comparison report."""

from __future__ import annotations

import queue
from typing import Any

from lightning_async.cli.compare.workers import Event, progress


def test_a_report_that_arrives_after_the_end_of_its_run_is_no_news() -> None:
    reports: Any = queue.Queue()
    for report in (("running", 3.0), ("ended", 9.0), ("running", 4.0)):
        reports.put(report)
    assert list(progress(reports, {"ended"})) == [Event("running", 3.0), Event("running", 4.0)]
    assert reports.empty()
