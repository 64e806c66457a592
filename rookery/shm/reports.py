"""Reports: what a process measured in a round, for main to log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.errors import RookeryError
from rookery.shm.block import Block, BlockLayout

LENGTH = 8
"""Bytes in front of a report, for its length."""


class ReportTooLong(RookeryError):
    """A report is longer than its slot."""


class Reports:
    """The newest reports of one writer, as JSON in slots of fixed size.

    Report k is in slot k mod slots. The one rule: a report is written before the counter
    that publishes its round. So it is complete when the round is; and main has read it
    before its slot is reused, since no round starts that main has not allowed.
    """

    def __init__(self, block: Block, writer: str, joined: slice | None = None) -> None:
        """Map the reports of a writer.

        Args:
            block: of all reports.
            writer: whose reports.
            joined: slots that are used as a single one.
        """
        slots = block[writer]
        self._slots = slots if joined is None else slots[joined].reshape(1, -1)

    @staticmethod
    def layout(sizes: Mapping[str, tuple[int, int]]) -> BlockLayout:
        """Return the layout of all reports; writer to number of slots and bytes of each."""
        return BlockLayout(
            {
                writer: ((slots, LENGTH + -(-size // 8) * 8), np.uint8)
                for writer, (slots, size) in sizes.items()
            }
        )

    def write(self, number: int, report: Any) -> None:
        """Write report `number`; it is valid once its writer has published the round.

        Raises:
            ReportTooLong: if it does not fit into its slot.
        """
        data = json.dumps(report, separators=(",", ":")).encode()
        slot = self._slots[number % len(self._slots)]
        if LENGTH + len(data) > len(slot):
            raise ReportTooLong(
                f"the report of round {number} has {len(data)} bytes, but its slot only "
                f"{len(slot) - LENGTH}: have the algorithm report fewer metrics."
            )
        slot[:LENGTH].view(np.int64)[0] = len(data)
        slot[LENGTH : LENGTH + len(data)] = np.frombuffer(data, np.uint8)

    @property
    def count(self) -> int:
        """How many of the newest reports are kept."""
        return len(self._slots)

    def read(self, number: int) -> Any:
        """Return report `number`, whose round must have been published."""
        slot = self._slots[number % len(self._slots)]
        size = int(slot[:LENGTH].view(np.int64)[0])
        return json.loads(slot[LENGTH : LENGTH + size].tobytes())

    def read_round(self, number: int) -> Any:
        """Return the report of a round that need not have one; None if it has not.

        The slot may hold the report of an earlier round, and after a resume none at all.
        """
        report = (
            self.read(number) if self._slots[number % self.count][:LENGTH].any() else {}
        )
        return report if report.get("round") == number else None
