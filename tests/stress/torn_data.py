"""Rows and states whose every number says which row or state it belongs to.

Every number of a row is a function of agent, turn and world; every number of a state is a
function of agent and version. A reader can therefore tell correct data from data that is
torn (parts of two), stale (of another turn or version) or foreign (of another agent).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.replay.buffer import Batch
from rookery.specs import AgentSpec, Array, Part

LANES = 8
"""Numbers in an agent's observation of one world."""
ACTIONS = 8
EPISODE = 7
"""Turns from one reset of a world to the next; the last one only closes the episode."""
N_STEP, DISCOUNT, FRAMES = 2, 0.5, 2
ARRAYS, LENGTH = 8, 512
"""Arrays of a state, and numbers in each of them."""
NAMES = tuple(f"weights {i}" for i in range(ARRAYS))
STATE = {name: ((LENGTH,), np.int64) for name in NAMES}
SNAPSHOT = {"actor": ((LENGTH,), np.int64)}
NONE = 255
"""Stands for the world in a state, and for world and agent in a snapshot."""

_lanes = np.arange(ARRAYS * LENGTH) << 48


def agent_spec(agent: int) -> AgentSpec:
    """Return the spec of an agent."""
    parts = {"view": Part((LANES,), np.dtype(np.int64))}
    return AgentSpec(str(agent), "", parts, tuple("abcdefgh"), masked=True)


def observation(agent: int, turns: Array, worlds: Array) -> Array:
    """Return an agent's observations in some rows, (…, LANES)."""
    stamps = turns << 16 | agent << 8 | worlds
    return stamps[..., None] + _lanes[:LANES]


def age(turns: Array, worlds: Array) -> Array:
    """Return how many rows of the same episode precede some rows."""
    return np.minimum((turns + worlds) % EPISODE, turns)


def turns_left(turns: Array, worlds: Array) -> Array:
    """Return the number of turns to the closing row of the episode."""
    return EPISODE - 1 - (turns + worlds) % EPISODE


def is_active(turns: Array, worlds: Array) -> Array:
    """Return in which rows agents act: in all but the closing ones."""
    return turns_left(turns, worlds) > 0


def terminated(turns: Array, worlds: Array) -> Array:
    """Return which rows terminate an episode: the last acting row of every other one."""
    even = (turns + worlds) // EPISODE % 2 == 0
    return (turns_left(turns, worlds) == 1) & even


def truncated(turns: Array, worlds: Array) -> Array:
    """Return which rows truncate an episode."""
    return (turns_left(turns, worlds) == 1) & ~terminated(turns, worlds)


def legal(turns: Array, worlds: Array) -> Array:
    """Return which actions are legal in some rows."""
    return (turns[:, None] + worlds[:, None] + np.arange(ACTIONS)) % 3 > 0


def action(agent: int, turns: Array, worlds: Array) -> Array:
    """Return an agent's actions in some rows."""
    return (turns * 3 + worlds + agent * 5) % ACTIONS


def reward(agent: int, turns: Array, worlds: Array) -> Array:
    """Return an agent's rewards: small whole numbers, so that sums are exact."""
    return ((turns * 7 + worlds * 3 + agent * 11) % 16).astype(np.float32)


def state(agent: int, version: int) -> dict[str, Array]:
    """Return a version of an agent's state."""
    numbers = _lanes + (version << 16 | agent << 8 | NONE)
    return dict(zip(NAMES, numbers.reshape(ARRAYS, LENGTH), strict=True))


def snapshot(boundary: int) -> dict[str, Array]:
    """Return the snapshot of a boundary."""
    return {"actor": _lanes[:LENGTH] + (boundary << 16 | NONE << 8 | NONE)}


def usable(boundary: int, window: int, worlds: int) -> Array:
    """Return the transitions that can be learned from at a boundary."""
    transitions = np.arange(max(0, boundary - window) * worlds, boundary * worlds)
    turns, in_worlds = np.divmod(transitions, worlds)
    is_complete = _last_turn(turns, in_worlds) < boundary
    return transitions[is_active(turns, in_worlds) & is_complete]


def _last_turn(turns: Array, worlds: Array) -> Array:
    """Return the turn whose observation transitions bootstrap from."""
    return turns + np.minimum(N_STEP, turns_left(turns, worlds))


# What is wrong with data that was read: "torn", "stale", "foreign", or None if nothing is.


def state_error(agent: int, version: int, arrays: Mapping[str, Array]) -> str | None:
    """Compare a state with what it should be."""
    numbers = np.concatenate([arrays[name] for name in NAMES])
    return _error(numbers, np.concatenate([*state(agent, version).values()]), _lanes)


def snapshot_error(boundary: int, arrays: Mapping[str, Array]) -> str | None:
    """Compare a snapshot with what it should be."""
    return _error(arrays["actor"], snapshot(boundary)["actor"], _lanes[:LENGTH])


def batch_error(agent: int, transitions: Array, worlds: int, batch: Batch) -> str | None:
    """Compare a batch of transitions with what it should be."""
    turns, in_worlds = np.divmod(transitions, worlds)
    last = _last_turn(turns, in_worlds)
    lanes = _lanes[:LANES]
    return (
        _error(batch.seen["view"], _stacked(agent, turns, in_worlds), lanes)
        or _error(batch.next_seen["view"], _stacked(agent, last, in_worlds), lanes)
        or _columns_error(agent, turns, in_worlds, batch)
    )


def _columns_error(agent: int, turns: Array, worlds: Array, batch: Batch) -> str | None:
    """Compare the small columns of a batch; whatever differs there counts as torn."""
    last = _last_turn(turns, worlds)
    returns = np.zeros(len(turns), np.float32)
    for ahead in range(N_STEP):
        discounted = DISCOUNT**ahead * reward(agent, turns + ahead, worlds)
        returns += np.where(turns + ahead < last, discounted, 0).astype(np.float32)
    ends = terminated(last - 1, worlds)
    is_right = (
        np.array_equal(batch.actions, action(agent, turns, worlds))
        and np.array_equal(batch.returns, returns)
        and np.array_equal(batch.discounts, np.where(ends, 0, DISCOUNT ** (last - turns)))
        and batch.legal is not None
        and np.array_equal(batch.legal, legal(turns, worlds))
        and batch.next_legal is not None
        and np.array_equal(batch.next_legal, legal(last, worlds))
    )
    return None if is_right else "torn"


def _stacked(agent: int, turns: Array, worlds: Array) -> Array:
    back = np.arange(FRAMES - 1, -1, -1)
    frames = observation(agent, turns[:, None] - back, worlds[:, None])
    frames[back > age(turns, worlds)[:, None]] = 0
    return frames


def _error(actual: Array, expected: Array, lanes: Array) -> str | None:
    """Return None if all numbers are as expected; otherwise the worst error."""
    if np.array_equal(actual, expected):
        return None
    differs = (actual != expected).any(axis=-1)
    stamps = (actual - lanes)[differs]
    if (stamps != stamps[..., :1]).any():
        return "torn"
    agents, expected_agents = stamps >> 8 & 255, (expected - lanes)[differs] >> 8 & 255
    return "foreign" if (agents != expected_agents).any() else "stale"
