"""Drawing: from sampled transitions to the inputs of networks, in compiled loops.

`follow` finds the rows at which transitions open and close, `fill` writes their stacked
observations into inputs, also when agents act. An input has bit for bit what `stack` and
`scale_into` (frames.py) give, but no array is made in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from rookery.kernels import kernel
from rookery.replay.frames import scale_into, stack
from rookery.replay.row_access import CACHE_LINE, contiguous, prefetch
from rookery.replay.rows import Rows
from rookery.specs import Array

SLOT, WORLD, FRAMES = range(3)
"""The address of a row: its slot, its world, and how many rows its episode has up to it."""
NEVER = np.iinfo(np.int64).min
"""The turn in which a transition closes, in rows in which none opened."""
OUTCOME = np.dtype(
    [
        ("closes", np.int64),
        ("returns", np.float32),
        ("discounts", np.float32),
        ("action", np.int32),
        ("age", np.int32),
    ],
    align=True,
)
"""A row, and the outcome of the transition that opens in it.

What `follow` needs of a row is side by side: it jumps from row to row, and so spends its
time waiting for memory.
"""
ROWS_AHEAD = 8
"""How long before a row is read its memory is asked for."""
COMPILED = {np.dtype(f"{kind}{size}") for kind in "ui" for size in (1, 2, 4, 8)} | {
    np.dtype(np.float32),
    np.dtype(np.float64),
}
"""The types of observations that `fill` compiles a loop for; the rest is left to numpy."""


@dataclass(frozen=True)
class Paths:
    """The paths of a group that begin with sampled transitions, for several passes.

    A path is a transition and those of the agent that follow it, up to a number of `ends`:
    the rows in which they close. With a single end, it is the transition alone. Ends come
    transition by transition. Where a path is shorter, its last transition is repeated.
    """

    addresses: Array
    """(passes, agents, batch × (1 + ends), 3) int32: all opening rows, then all ends."""
    actions: Array
    """(passes, agents, batch): the actions taken where paths open."""
    returns: Array
    """(passes, agents, batch × ends) float32: the discounted rewards before each end."""
    discounts: Array
    """(passes, agents, batch × ends) float32: the factor for the value of each end."""
    taken: Array
    """(passes, agents, batch × ends): the action that was taken there."""
    continues: Array
    """(passes, agents, batch × ends) bool: whether the path continues from there."""
    legal: Array | None
    """(passes, agents, batch, actions) bool where paths open; None: all actions are."""
    next_legal: Array | None
    """(passes, agents, batch × ends, actions): the same at each end."""

    @classmethod
    def empty(
        cls, passes: int, agents: int, batch: int, ends: int, masked_actions: int | None
    ) -> Paths:
        """Return paths to be filled in; all actions are legal in those that are not."""
        each, closing = (passes, agents, batch), (passes, agents, batch * ends)
        legal, next_legal = (
            None if masked_actions is None else np.ones((*shape, masked_actions), np.bool_)
            for shape in (each, closing)
        )
        return cls(
            addresses=np.zeros((passes, agents, batch * (1 + ends), 3), np.int32),
            actions=np.zeros(each, np.int64),
            returns=np.zeros(closing, np.float32),
            discounts=np.zeros(closing, np.float32),
            taken=np.zeros(closing, np.int64),
            continues=np.zeros(closing, np.bool_),
            legal=legal,
            next_legal=next_legal,
        )

    def first(self, passes: int) -> Paths:
        """Return a view of the first passes."""
        if passes == len(self.actions):
            return self
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        present = {name: array for name, array in arrays.items() if array is not None}
        return replace(self, **{name: array[:passes] for name, array in present.items()})


@kernel
def follow(
    transitions: Array,
    agent: int,
    outcomes: Array,
    factor: np.float32,
    addresses: Array,
    actions: Array,
    returns: Array,
    discounts: Array,
    taken: Array,
    continues: Array,
) -> None:
    """Fill in one agent's paths.

    Args:
        transitions: (passes × batch) those that paths begin with.
        agent: the agent's place in the group.
        outcomes: (slots, worlds) of the agent's rows.
        factor: scale of the returns.
        addresses: the arrays of `Paths`, like the rest.
        actions: …
        returns: …
        discounts: …
        taken: …
        continues: …
    """
    slots, worlds = outcomes.shape
    passes, _, batch = actions.shape
    ends = returns.shape[2] // batch
    for k in range(passes):
        for j in range(batch):
            transition = transitions[k * batch + j]
            world, slot = transition % worlds, transition // worlds % slots
            addresses[k, agent, j, SLOT] = slot
            addresses[k, agent, j, WORLD] = world
            prefetch(outcomes, slot, world, 0)
        for j in range(batch):
            slot, world = addresses[k, agent, j, SLOT], addresses[k, agent, j, WORLD]
            prefetch(outcomes, outcomes[slot, world].closes % slots, world, 0)
        for j in range(batch):
            slot, world = addresses[k, agent, j, SLOT], addresses[k, agent, j, WORLD]
            row = outcomes[slot, world]
            addresses[k, agent, j, FRAMES] = row.age + 1
            actions[k, agent, j] = row.action
            path_return, path_discount = row.returns, row.discounts
            for end in range(j * ends, (j + 1) * ends):
                turn = row.closes
                closing_slot = turn % slots
                closing = outcomes[closing_slot, world]
                addresses[k, agent, batch + end, SLOT] = closing_slot
                addresses[k, agent, batch + end, WORLD] = world
                addresses[k, agent, batch + end, FRAMES] = closing.age + 1
                returns[k, agent, end] = path_return * factor
                discounts[k, agent, end] = path_discount
                taken[k, agent, end] = closing.action
                # An entry that an earlier turn left in this slot has closed before.
                is_followed = closing.closes > turn
                continues[k, agent, end] = is_followed and end + 1 < (j + 1) * ends
                if is_followed:
                    row = closing
                path_return += path_discount * row.returns
                path_discount *= row.discounts


def addresses_of(rows: Rows, turns: Array, worlds: Array) -> Array:
    """Return the addresses of some rows, (n, 3) int32."""
    addresses = np.empty((len(turns), 3), np.int32)
    _locate(rows.columns["age"], turns, worlds, addresses)
    return addresses


@kernel
def _locate(ages: Array, turns: Array, worlds: Array, addresses: Array) -> None:
    for i in range(len(turns)):
        slot = turns[i] % len(ages)
        addresses[i, SLOT] = slot
        addresses[i, WORLD] = worlds[i]
        addresses[i, FRAMES] = ages[slot, worlds[i]] + 1


class RowObservations(Mapping[str, Array]):
    """The observations in some rows: part name to (n, frames, *shape).

    A part is stacked when it is read. Networks' inputs are filled straight from the rows
    (`Features.draw`), as in learning.
    """

    def __init__(self, rows: Rows, turns: Array, worlds: Array, frames: int) -> None:
        self.rows, self._frames = rows, frames
        self._turns, self._worlds = turns, worlds

    @property
    def addresses(self) -> Array:
        """The addresses of the rows."""
        return addresses_of(self.rows, self._turns, self._worlds)

    def __getitem__(self, name: str) -> Array:
        return stack(self.rows, name, self._turns, self._worlds, self._frames)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows.parts)

    def __len__(self) -> int:
        return len(self.rows.parts)


def fill(
    inputs: Array,
    start: int,
    rows: Rows,
    name: str,
    addresses: Array,
    frames: int,
    scale: float,
) -> None:
    """Write a part of the observations in some rows into network inputs.

    Args:
        inputs: (n, width) float32; contiguous.
        start: the first column to write to.
        rows: an agent's rows.
        name: the part of the observation.
        addresses: (n, 3) of the rows to read.
        frames: how many rows to stack, oldest first; zeros before the episode's first.
        scale: factor for the part's numbers.
    """
    part = rows.flat_parts[name]
    if part.dtype in COMPILED:
        # numpy multiplies float32 in single precision, and everything else in double.
        factor = np.float32(scale) if part.dtype == np.float32 else scale
        _fill(inputs, start, part, addresses, frames, factor)
    else:
        stacked = stack(rows, name, addresses[:, SLOT], addresses[:, WORLD], frames)
        flat = stacked.reshape(len(inputs), frames * part.shape[2])
        scale_into(inputs[:, start : start + flat.shape[1]], flat, scale)


@kernel
def _slot_before(slot: int, back: int, slots: int) -> int:
    return slot - back if slot >= back else slot - back + slots


@kernel
def _prefetch_frames(part: Array, address: Array, frames: int) -> None:
    slots, _, size = part.shape
    for back in range(min(frames, address[FRAMES])):
        slot = _slot_before(address[SLOT], back, slots)
        for offset in range(0, size * part.itemsize, CACHE_LINE):
            prefetch(part, slot, address[WORLD], offset)


@kernel
def _fill(
    inputs: Array,
    start: int,
    part: Array,
    addresses: Array,
    frames: int,
    factor: float | np.float32,
) -> None:
    slots, _, size = part.shape
    blank = np.float32(0) * factor  # -0.0 if the factor is negative
    for i in range(len(addresses)):
        if i + ROWS_AHEAD < len(addresses):
            _prefetch_frames(part, addresses[i + ROWS_AHEAD], frames)
        slot, world, present = addresses[i, SLOT], addresses[i, WORLD], addresses[i, FRAMES]
        for frame in range(frames):
            first = start + frame * size
            target = inputs[i, first : first + size]
            back = frames - 1 - frame
            if back >= present:
                for k in range(size):
                    target[k] = blank
                continue
            source = contiguous(part, _slot_before(slot, back, slots), world)
            if factor == 1:
                for k in range(size):
                    target[k] = source[k]
            else:
                for k in range(size):
                    target[k] = source[k] * factor


@kernel
def add_nonzero(
    part: Array,
    addresses: Array,
    frames: int,
    start: int,
    indices: Array,
    values: Array,
    counts: Array,
) -> None:
    """Add the numbers of a part that are not 0 to those of parts before it.

    Args:
        part: (slots, worlds, size) of an agent's rows.
        addresses: (n, 3) of the rows to read.
        frames: how many rows to stack, as in `fill`.
        start: the first column of the part in inputs.
        indices: (n, columns): the columns of a row's numbers that are not 0.
        values: (n, columns): these numbers.
        counts: (n,): how many of them there are.
    """
    slots, _, size = part.shape
    for i in range(len(addresses)):
        if i + ROWS_AHEAD < len(addresses):
            _prefetch_frames(part, addresses[i + ROWS_AHEAD], frames)
        slot, world, present = addresses[i, SLOT], addresses[i, WORLD], addresses[i, FRAMES]
        index, value, count = indices[i], values[i], counts[i]
        for frame in range(frames):
            back = frames - 1 - frame
            if back >= present:
                continue
            source = contiguous(part, _slot_before(slot, back, slots), world)
            first = start + frame * size
            # Most are 0: compared eight at a time.
            words = source[: size // 8 * 8].view(np.uint64)
            for word in range(len(words)):
                if words[word]:
                    for k in range(8 * word, 8 * word + 8):
                        # Written in any case: that is faster than a branch.
                        index[count], value[count] = first + k, source[k]
                        count += source[k] != 0
            for k in range(8 * len(words), size):
                index[count], value[count] = first + k, source[k]
                count += source[k] != 0
        counts[i] = count
