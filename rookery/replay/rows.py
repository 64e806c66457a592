"""Rows: one turn of one agent in one world, as stored.

A *slot* holds an agent's rows of one turn, for all worlds, in one contiguous record with a
sequence number and a checksum. Turn t is stored in slot t mod slots. The layout is defined
only here, for the actor that writes rows and the learner that reads them.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from rookery.shm.block import Block, BlockLayout
from rookery.specs import AgentSpec, Array

PART = "part."


def row_dtype(spec: AgentSpec, worlds: int, hidden: int = 0) -> np.dtype[Any]:
    """Return the type of a slot.

    Args:
        spec: the agent.
        worlds: number of worlds.
        hidden: size of the hidden state that a recurrent agent acts with.
    """
    fields: list[tuple[str, Any, Any]] = [
        ("sequence", np.uint64, ()),
        ("checksum", np.uint32, ()),
        ("age", np.int32, (worlds,)),
        ("version", np.int64, ()),
        ("reward", np.float32, (worlds,)),
        ("probability", np.float32, (worlds,)),
        ("action", np.int32, (worlds,)),
        ("active", np.bool_, (worlds,)),
        ("terminated", np.bool_, (worlds,)),
        ("truncated", np.bool_, (worlds,)),
    ]
    for name, part in spec.parts.items():
        fields.append((PART + name, part.dtype, (worlds, *part.shape)))
    if spec.masked:
        fields.append(("legal", np.bool_, (worlds, spec.num_actions)))
    if hidden:
        fields.append(("hidden", np.float32, (worlds, hidden)))
    return np.dtype(fields)


class Rows:
    """One agent's rows, in a block."""

    def __init__(self, block: Block, worlds: slice = slice(None)) -> None:
        """Map the rows.

        Args:
            block: of the rows.
            worlds: which worlds the columns are of; slots are sealed and read as a whole.
        """
        self._block = block
        self.records = block["slots"]
        self.slots = len(self.records)
        columns = {name: self.records[name] for name in self.records.dtype.names or ()}
        self.columns: dict[str, Array] = {
            name: column[:, worlds] if column.ndim > 1 else column
            for name, column in columns.items()
        }
        """Column name to (slots, worlds, …), in place."""
        self.parts = {
            name.removeprefix(PART): column
            for name, column in self.columns.items()
            if name.startswith(PART)
        }
        self.flat_parts = {name: _flat(column) for name, column in self.parts.items()}
        """Part name to (slots, worlds, numbers), in place; bool as uint8."""
        self._bytes = self.records.view(np.uint8).reshape(self.slots, -1)
        self.row_bytes = self._bytes.shape[1]
        checksum = self.records.dtype.fields["checksum"]  # type: ignore[index]
        self._first_byte = checksum[1] + 4
        self._memory = self._bytes.reshape(-1).data
        """All slots, for checksums: cheaper to slice than an array."""
        self._sequences, self._checksums = (
            self.columns["sequence"],
            self.columns["checksum"],
        )

    @staticmethod
    def layout(spec: AgentSpec, worlds: int, slots: int, hidden: int = 0) -> BlockLayout:
        """Return the layout of one agent's rows."""
        return BlockLayout({"slots": ((slots,), row_dtype(spec, worlds, hidden))})

    def seal(self, turn: int) -> None:
        """Write the sequence number and the checksum of a finished slot."""
        slot = turn % self.slots
        self._sequences[slot] = sequence_of(turn)
        self._checksums[slot] = self._checksum(slot)

    def is_whole(self, turn: int) -> bool:
        """Whether the slot of a turn holds that turn, undamaged."""
        slot = turn % self.slots
        if self._sequences[slot] != sequence_of(turn):
            return False
        return bool(self._checksums[slot] == self._checksum(slot))

    def _checksum(self, slot: int) -> int:
        start = slot * self.row_bytes
        return zlib.crc32(self._memory[start + self._first_byte : start + self.row_bytes])

    def bytes_of(self, turn: int) -> Array:
        """Return the bytes of a turn's slot after its header, for hashing."""
        return self._bytes[turn % self.slots, self._first_byte :]

    def raw(self, turns: range, data: Array | None = None) -> Array:
        """Return the slots of some turns as bytes; with `data`, overwrite them first."""
        slots = np.arange(turns.start, turns.stop) % self.slots
        if data is not None:
            self._bytes[slots] = data
        return self._bytes[slots]

    def prepend(self, data: Array) -> int:
        """Write slots of another run before turn 0; return the turn of the first.

        The last of them closes all open transitions, so that none joins two runs.
        """
        turns = range(-len(data), 0)
        self.raw(turns, data)
        self.columns["truncated"][-2 % self.slots] |= (
            self.columns["age"][-1 % self.slots] > 0
        )
        self.columns["active"][-1 % self.slots] = False
        for turn in turns:
            self.seal(turn)
        return turns.start


def _flat(part: Array) -> Array:
    flat = part.reshape(*part.shape[:2], math.prod(part.shape[2:]))
    return flat.view(np.uint8) if flat.dtype == np.bool_ else flat


def sequence_of(turn: int) -> int:
    """Return a turn's sequence number; turns of an earlier run are below 0."""
    return (turn + 1) % 2**64


def hidden_at(rows: Rows, turn: int) -> Array:
    """Return the hidden state that a recurrent agent acts with, (worlds, units)."""
    hidden: Array = rows.columns["hidden"][turn % rows.slots]
    return hidden
