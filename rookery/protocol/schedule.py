"""When a round can start: the rules of boundaries, the same for playing and learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rookery.config.run import Config
from rookery.protocol.arena import COMMIT, GATE, HANDED, SNAPSHOT
from rookery.protocol.shares import snapshot_counter
from rookery.shm.counters import Counters, version_of
from rookery.shm.heartbeat import Heartbeat

TICK = 0.2
"""Seconds between signs of life while waiting."""


class RoundSchedule:
    """Decides when rounds start and boundaries are complete.

    Boundary k is the end of round k. It is complete when the actor has committed the turns
    of round k and published its snapshot, and every learner has published version k. The
    one rule: each process reads the counters itself, and waits for the missing ones one
    after the other, since counters only grow.
    """

    def __init__(
        self,
        config: Config,
        counters: Counters,
        learning: Sequence[str],
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._counters, self._heartbeat = counters, heartbeat or Heartbeat()
        self._versions = [version_of(agent) for agent in learning]
        self._turns, self._schedule = config.turns_per_round, config.schedule
        self._ahead, self._rounds = rounds_ahead(config), config.rounds

    # For main.

    def open(self, recorded: int) -> None:
        """Raise the gate: allow the rounds after a boundary that has been recorded."""
        self._counters.store(GATE, recorded + max(2, self._ahead))

    @property
    def last_opened(self) -> int:
        """The last boundary that main has certainly recorded; 0 if none."""
        return max(0, self._counters.load(GATE) - max(2, self._ahead))

    @property
    def last_allowed(self) -> int:
        """The last round that can start."""
        return min(self._counters.load(GATE), self._rounds)

    def is_complete(self, boundary: int) -> bool:
        """Whether a boundary is complete."""
        needed = self._needed_for(boundary)
        return all(self._counters.load(name) >= value for name, value in needed)

    def wait_complete(self, boundary: int, seconds: float) -> bool:
        """Wait for a boundary, so long per counter; return whether it is complete."""
        for name, value in self._needed_for(boundary):
            if not self._counters.wait(name, value, seconds):
                return False
        return True

    # For the actor and the workers.

    def await_begin(self, generation: int) -> None:
        """Wait until main has handed over to the processes of a generation."""
        self._until(HANDED, generation)

    def await_playing(self, number: int) -> None:
        """Wait until round `number` can be played."""
        self._until(GATE, number)
        if self._schedule == "async":
            for version in self._versions:
                self._until(version, number - self._ahead + 1)
        else:
            self._until_complete(number - 1)

    def await_learning(
        self, number: int, on_policy: bool, agents: Sequence[str] = ()
    ) -> int:
        """Wait until some agents can learn round `number`; return up to which turn of rows.

        What the round needs is the agents' own last versions and the rows. Other agents can
        still be learning the round before.
        """
        self._until(GATE, number)
        if self._schedule == "async":
            return self._await_rows(number, on_policy)
        for agent in agents:
            self._until(version_of(agent), number)
        boundary = number if self._schedule == "sync" else number - 1
        self._until(COMMIT, boundary * self._turns)
        return boundary * self._turns

    def await_shares(self, number: int, shares: int) -> None:
        """Wait until all shares of a round are played."""
        for share in range(shares):
            self._until(snapshot_counter(share), number + 1)

    def can_publish(self, number: int) -> bool:
        """Whether version `number` can be published.

        It overwrites version `number` - 2, which a restarted actor or a checkpoint can need
        until boundary `number` - 1 is complete. In async they use the newest version.
        """
        return self._schedule == "async" or self.is_complete(number - 1)

    def await_publishing(self, number: int) -> None:
        """Wait until version `number` can be published."""
        if self._schedule != "async":
            self._until_complete(number - 1)

    def await_end(self, rounds: int) -> None:
        """Wait until the last boundary is complete."""
        self._until_complete(rounds)

    def _await_rows(self, number: int, on_policy: bool) -> int:
        """Wait for the rows that a round of updates needs; return how many turns to use.

        Off-policy learners use all rows there are, on-policy learners each round once.
        """
        needed = number if on_policy else number - 1
        self._until(COMMIT, needed * self._turns)
        return needed * self._turns if on_policy else self._counters.load(COMMIT)

    def _needed_for(self, boundary: int) -> Iterator[tuple[str, int]]:
        """Return the counters of a boundary, and what they must have reached."""
        yield COMMIT, boundary * self._turns
        yield SNAPSHOT, boundary + 1
        for version in self._versions:
            yield version, boundary + 1

    def _until_complete(self, boundary: int) -> None:
        for name, value in self._needed_for(boundary):
            self._until(name, value)

    def _until(self, name: str, value: int) -> None:
        if self._counters.load(name) >= value:
            return
        with self._heartbeat.spending("wait"):
            while not self._counters.wait(name, value, TICK):
                self._heartbeat.beat()


def rounds_ahead(config: Config) -> int:
    """Return how many rounds playing can be ahead of learning."""
    return config.max_lag if config.schedule == "async" else 1
