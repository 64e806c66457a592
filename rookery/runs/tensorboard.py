"""Event files for TensorBoard.

TensorBoard's usual writer works in a thread, where an error such as a full disk ends in a
traceback. This one writes at once, so that the caller sees the error.
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
"""The version that an event file starts with."""
CURRENT = ".turns"
"""The end of the names of event files whose axis is turns; in older ones it is rounds."""
OLDER = "rounds"
"""The folder for older event files; TensorBoard shows it as a run of its own."""


class Board:
    """Writes scalars to a new event file in a folder."""

    def __init__(self, folder: Path) -> None:
        now, source = int(time.time()), f"{socket.gethostname()}.{os.getpid()}"
        self._folder = folder
        self._path = folder / f"events.out.tfevents.{now:010d}.{source}{CURRENT}"
        self._is_new = True

    def set_aside_older(self) -> bool:
        """Move event files whose axis is rounds to their own folder; return if any."""
        older = [
            path
            for path in sorted(self._folder.glob("events.out.tfevents.*"))
            if not path.name.endswith(CURRENT)
        ]
        for path in older:
            (self._folder / OLDER).mkdir(exist_ok=True)
            path.rename(self._folder / OLDER / path.name)
        return bool(older)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append the values of one step."""
        records = io.BytesIO()
        if self._is_new:
            self._path.parent.mkdir(exist_ok=True)
            _add(records, Event(wall_time=time.time(), file_version=VERSION))
        scalars = [Summary.Value(tag=k, simple_value=float(v)) for k, v in values.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=scalars))
        _add(records, event)
        append_whole(self._path, records.getvalue())
        self._is_new = False


def _add(records: io.BytesIO, event: Event) -> None:
    RecordWriter(records).write(event.SerializeToString())
