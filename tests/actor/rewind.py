"""Bringing a run back to an earlier boundary, as if it had been killed and resumed."""

from __future__ import annotations

from collections.abc import Mapping

from rookery.actor.actor import Actor
from rookery.protocol.arena import COMMIT, Arena
from rookery.specs import Array


def rewind(
    arena: Arena, actor: Actor, boundary: int, snapshot: Mapping[str, Array]
) -> None:
    """Continue from a snapshot, without the rounds that were committed after it."""
    arena.snapshots().publish(boundary, snapshot)
    arena.counters.store(COMMIT, int(snapshot["life/turn"][0]))
    arena.begin_shares()
    assert actor.begin() == boundary
