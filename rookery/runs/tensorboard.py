"""Figures for TensorBoard, in the file that it reads.

Written here and now: the usual writer does so in a thread of its own, and what goes wrong
there, such as a full disk, ends in a traceback that nobody asked for.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rookery.storage.files import append_whole

VERSION = "brain.Event:2"
"""What a file of events begins with."""


class Board:
    """Writes figures into a file of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        now, place = int(time.time()), f"{socket.gethostname()}.{os.getpid()}"
        self._path = folder / f"events.out.tfevents.{now:010d}.{place}.0"
        self._begun = False

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add figures of one step."""
        records = io.BytesIO()
        if not self._begun:
            self._path.parent.mkdir(exist_ok=True)
            _add(records, Event(wall_time=time.time(), file_version=VERSION))
        shown = [Summary.Value(tag=k, simple_value=float(v)) for k, v in values.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=shown))
        _add(records, event)
        append_whole(self._path, records.getvalue())
        self._begun = True


def _add(records: io.BytesIO, event: Event) -> None:
    RecordWriter(records).write(event.SerializeToString())
