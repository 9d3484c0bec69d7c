"""What an offline run of W&B has written: a log in LevelDB's format, in blocks of 32 KiB, of protocol buffers."""

import json
import struct
import time
from pathlib import Path
from typing import Any

BLOCK = 32_768


def records_of(run: Path) -> list[Any]:
    """Every record of a finished run in its folder `offline-run-...`.

    A process of W&B's own writes the file and may be late: the record of the exit is waited for.
    """
    (path,) = run.glob("*.wandb")
    deadline = time.monotonic() + 30
    while True:
        records = _parsed(path.read_bytes())
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            return records
        if time.monotonic() > deadline:
            raise AssertionError(f"no exit record after 30 s in {path}: it holds {len(records)} other records")
        time.sleep(0.1)


def logged_keys(records: list[Any]) -> list[set[str]]:
    """The keys of every row that was logged."""
    rows = ({item.key or item.nested_key[0] for item in record.history.item} for record in records)
    return [row for row in rows if row]


def config_of(records: list[Any]) -> dict[str, Any]:
    """The configuration of a run: what was set when it was begun, and what has been set since."""
    updates = (update for record in records for update in (*record.run.config.update, *record.config.update))
    return {update.key or update.nested_key[0]: json.loads(update.value_json) for update in updates}


def _parsed(data: bytes) -> list[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    at = 7
    records, message = [], b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        length, part = struct.unpack("<HB", data[at + 4 : at + 7])
        if at + 7 + length > len(data):  # the rest is being written
            break
        message += data[at + 7 : at + 7 + length]
        at += 7 + length
        if part in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(message)
            records.append(record)
            message = b""
    return records
