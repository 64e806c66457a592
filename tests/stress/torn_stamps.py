"""Rows and states that say themselves whose they are, and the comparison with what is due.

Every number of a row is a function of agent, turn and world, and every number of a state
of agent and version. So whoever reads one can tell the right one from one that is torn
(parts of two), stale (of another turn or version) or foreign (of another agent).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.replay.buffer import Batch
from rookery.specs import AgentSpec, Array, Part

LANES = 8
"""Numbers in what an agent sees of a world."""
ACTIONS = 8
EPISODE = 7
"""Turns from one start of a world to the next; the last one closes."""
N_STEP, DISCOUNT, FRAMES = 2, 0.5, 2
ARRAYS, LENGTH = 8, 512
"""How many arrays a state has, and how many numbers each of them."""
NAMES = tuple(f"weights {i}" for i in range(ARRAYS))
STATE = {name: ((LENGTH,), np.int64) for name in NAMES}
SNAPSHOT = {"life": ((LENGTH,), np.int64)}
NOBODY = 255
"""The place of a state, which is of no world; the agent of a snapshot, which is of none."""

_lanes = np.arange(ARRAYS * LENGTH) << 48


def spec_of(agent: int) -> AgentSpec:
    """Return what an agent sees and can do."""
    parts = {"sight": Part((LANES,), np.dtype(np.int64))}
    return AgentSpec(str(agent), "", parts, tuple("abcdefgh"), masked=True)


def observation(agent: int, turns: Array, worlds: Array) -> Array:
    """Return what an agent sees in some rows, (…, LANES)."""
    stamps = turns << 16 | agent << 8 | worlds
    return stamps[..., None] + _lanes[:LANES]


def age(turns: Array, worlds: Array) -> Array:
    """Return how many rows lie before some rows in their episodes."""
    return np.minimum((turns + worlds) % EPISODE, turns)


def left(turns: Array, worlds: Array) -> Array:
    """Return how many turns it is to the closing rows of episodes."""
    return EPISODE - 1 - (turns + worlds) % EPISODE


def is_active(turns: Array, worlds: Array) -> Array:
    """Return in which rows agents act: in all but the closing ones."""
    return left(turns, worlds) > 0


def terminated(turns: Array, worlds: Array) -> Array:
    """Return which rows end an episode for good; all others that end one cut it off."""
    even = (turns + worlds) // EPISODE % 2 == 0
    return (left(turns, worlds) == 1) & even


def truncated(turns: Array, worlds: Array) -> Array:
    """Return which rows cut an episode off."""
    return (left(turns, worlds) == 1) & ~terminated(turns, worlds)


def legal(turns: Array, worlds: Array) -> Array:
    """Return which actions are legal in some rows."""
    return (turns[:, None] + worlds[:, None] + np.arange(ACTIONS)) % 3 > 0


def action(agent: int, turns: Array, worlds: Array) -> Array:
    """Return what an agent does in some rows."""
    return (turns * 3 + worlds + agent * 5) % ACTIONS


def reward(agent: int, turns: Array, worlds: Array) -> Array:
    """Return what it gets: small whole numbers, so that sums are exact."""
    return ((turns * 7 + worlds * 3 + agent * 11) % 16).astype(np.float32)


def state(agent: int, version: int) -> dict[str, Array]:
    """Return a version of an agent's state."""
    whole = _lanes + (version << 16 | agent << 8 | NOBODY)
    return dict(zip(NAMES, whole.reshape(ARRAYS, LENGTH), strict=True))


def snapshot(boundary: int) -> dict[str, Array]:
    """Return the snapshot of a border."""
    return {"life": _lanes[:LENGTH] + (boundary << 16 | NOBODY << 8 | NOBODY)}


def usable(boundary: int, window: int, worlds: int) -> Array:
    """Return the steps that can be learned from at a border."""
    steps = np.arange(max(0, boundary - window) * worlds, boundary * worlds)
    turns, places = np.divmod(steps, worlds)
    return steps[is_active(turns, places) & (_closes(turns, places) < boundary)]


def _closes(turns: Array, worlds: Array) -> Array:
    return turns + np.minimum(N_STEP, left(turns, worlds))


def judge_state(agent: int, version: int, found: Mapping[str, Array]) -> str | None:
    """Return what is wrong with a state, if something is."""
    whole = np.concatenate([found[name] for name in NAMES])
    return _judge(whole, np.concatenate([*state(agent, version).values()]), _lanes)


def judge_snapshot(boundary: int, found: Mapping[str, Array]) -> str | None:
    """Return what is wrong with a snapshot, if something is."""
    return _judge(found["life"], snapshot(boundary)["life"], _lanes[:LENGTH])


def judge_batch(agent: int, steps: Array, worlds: int, found: Batch) -> str | None:
    """Return what is wrong with a batch of steps, if something is."""
    turns, places = np.divmod(steps, worlds)
    closes = _closes(turns, places)
    lanes = _lanes[:LANES]
    return (
        _judge(found.seen["sight"], _stacked(agent, turns, places), lanes)
        or _judge(found.next_seen["sight"], _stacked(agent, closes, places), lanes)
        or _judge_rest(agent, turns, places, found)
    )


def _judge_rest(agent: int, turns: Array, worlds: Array, found: Batch) -> str | None:
    """Return whether the small columns fit the rows they are said to belong to."""
    closes = _closes(turns, worlds)
    returns = np.zeros(len(turns), np.float32)
    for ahead in range(N_STEP):
        more = DISCOUNT**ahead * reward(agent, turns + ahead, worlds)
        returns += np.where(turns + ahead < closes, more, 0).astype(np.float32)
    over = terminated(closes - 1, worlds)
    whole = (
        np.array_equal(found.actions, action(agent, turns, worlds))
        and np.array_equal(found.returns, returns)
        and np.array_equal(found.discounts, np.where(over, 0, DISCOUNT ** (closes - turns)))
        and found.legal is not None
        and np.array_equal(found.legal, legal(turns, worlds))
        and found.next_legal is not None
        and np.array_equal(found.next_legal, legal(closes, worlds))
    )
    return None if whole else "torn"


def _stacked(agent: int, turns: Array, worlds: Array) -> Array:
    back = np.arange(FRAMES - 1, -1, -1)
    frames = observation(agent, turns[:, None] - back, worlds[:, None])
    frames[back > age(turns, worlds)[:, None]] = 0
    return frames


def _judge(found: Array, due: Array, lanes: Array) -> str | None:
    """Return nothing if all is as due; else what the worst of it is."""
    if np.array_equal(found, due):
        return None
    wrong = (found != due).any(axis=-1)
    stamps = (found - lanes)[wrong]
    if (stamps != stamps[..., :1]).any():
        return "torn"
    other = (stamps >> 8 & NOBODY) != ((due - lanes)[wrong] >> 8 & NOBODY)
    return "foreign" if other.any() else "stale"
