"""Reports: what a process says of a round, on its way to main.

A report is JSON in a slot of fixed size. It is written before the word that publishes the
round, so it is there, whole, when the round is. Report k lies in slot k mod slots; main has
read it before its slot is needed again, since no round starts that main does not allow.
"""

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
    """A report does not fit the place that was made for it."""


class Reports:
    """The newest reports of one writer."""

    def __init__(self, block: Block, writer: str) -> None:
        self._slots = block[writer]

    @staticmethod
    def layout(sizes: Mapping[str, tuple[int, int]]) -> BlockLayout:
        """Return the memory of all reports; writer to how many, and of how many bytes."""
        return BlockLayout(
            {
                writer: ((slots, LENGTH + -(-size // 8) * 8), np.uint8)
                for writer, (slots, size) in sizes.items()
            }
        )

    def write(self, number: int, about: Any) -> None:
        """Write report `number`; it counts once its writer has published the round.

        Raises:
            ReportTooLong: if it has more bytes than were planned.
        """
        data = json.dumps(about, separators=(",", ":")).encode()
        slot = self._slots[number % len(self._slots)]
        if LENGTH + len(data) > len(slot):
            raise ReportTooLong(
                f"the report of round {number} takes {len(data)} bytes, and there is room "
                f"for {len(slot) - LENGTH}: let the algorithm report fewer figures."
            )
        slot[:LENGTH].view(np.int64)[0] = len(data)
        slot[LENGTH : LENGTH + len(data)] = np.frombuffer(data, np.uint8)

    @property
    def count(self) -> int:
        """How many of the newest are kept."""
        return len(self._slots)

    def is_there(self, number: int) -> bool:
        """Whether its slot was ever written; not in memory made for a resumed run."""
        return bool(self._slots[number % len(self._slots)][:LENGTH].any())

    def read(self, number: int) -> Any:
        """Return report `number`, which has been published."""
        slot = self._slots[number % len(self._slots)]
        size = int(slot[:LENGTH].view(np.int64)[0])
        return json.loads(slot[LENGTH : LENGTH + size].tobytes())
