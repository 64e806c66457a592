"""The end of a round: what all actors have played becomes one boundary.

Each actor commits the turns of its worlds and publishes its part of the snapshot. When all
have, actor 0 seals the rows, hashes them, joins the reports and publishes the rest of the
snapshot. If it is killed on the way, its replacement does all of this again, with the same
result: nothing that it reads is overwritten before the boundary is complete.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import numpy as np

from rookery.actor.metrics import RoundSums, summary
from rookery.actor.reports import PlayedRound, PlayedShare
from rookery.actor.state import BoundaryState
from rookery.algorithms.base import Agent
from rookery.games.episodes import Episode
from rookery.protocol.arena import COMMIT, Arena
from rookery.protocol.shares import Share
from rookery.shm.heartbeat import Heartbeat
from rookery.specs import Array


class Boundary:
    """Completes the boundary of a round once all shares of it are played."""

    def __init__(
        self,
        agents: Sequence[Agent],
        arena: Arena,
        shares: Sequence[Share],
        turns_per_round: int,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._agents, self._arena, self._turns = agents, arena, turns_per_round
        self._rows = [arena.rows(agent.id) for agent in agents]
        self._reports = [arena.share_reports(share) for share in shares]
        self._heartbeat = heartbeat or Heartbeat()

    def begin(self) -> None:
        """Publish boundary 0, at which no round was played."""
        initial = BoundaryState.initial(len(self._agents))
        self._arena.boundary_snapshots().publish(0, initial.arrays())

    def complete(self, number: int) -> PlayedRound:
        """Publish the boundary of a round whose shares are played; return its report."""
        started = time.perf_counter()
        before = BoundaryState.of_snapshot(self._arena.snapshots().read(number - 1))
        self._seal((number - 1) * self._turns, number * self._turns)
        shares = [PlayedShare.from_json(report.read(number)) for report in self._reports]
        sums = RoundSums.joined([share.sums for share in shares])
        state = BoundaryState(
            number * self._turns,
            before.steps + sums.steps.sum(axis=1),
            self._hashes(number, before.hashes),
        )
        lags = shares[0].lags
        report = PlayedRound(
            _in_order(shares),
            summary(self._agents, sums, self._turns, lags, before.steps),
            sum(share.seconds for share in shares) + time.perf_counter() - started,
            any(share.interrupted for share in shares),
        )
        self._arena.actor_reports().write(number, report.to_json())
        self._arena.boundary_snapshots().publish(number, state.arrays())
        return report

    def _seal(self, first: int, last: int) -> None:
        """Seal and commit the rows of a round; a single actor has done so turn by turn."""
        counters = self._arena.counters
        for turn in range(max(first, counters.load(COMMIT)), last):
            self._heartbeat.beat()
            for rows in self._rows:
                rows.seal(turn)
        if counters.load(COMMIT) < last:
            counters.store(COMMIT, last)

    def _hashes(self, number: int, before: Array) -> Array:
        """Return every agent's row hash, with the rows of a round added to it."""
        hashes = before.copy()
        for index, rows in enumerate(self._rows):
            chain = hashlib.sha256(before[index].tobytes())
            for turn in range((number - 1) * self._turns, number * self._turns):
                self._heartbeat.beat()
                chain.update(rows.bytes_of(turn).data)
            hashes[index] = np.frombuffer(chain.digest(), np.uint8)
        return hashes


def _in_order(shares: Sequence[PlayedShare]) -> list[Episode]:
    """Return all episodes, by the turn in which they ended and by world."""
    episodes = [pair for share in shares for pair in share.episodes]
    episodes.sort(key=lambda pair: (pair[0], pair[1].world))
    return [episode for _, episode in episodes]
