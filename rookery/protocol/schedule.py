"""When a round may start: the rules of boundaries, the same for whoever plays or learns.

Border k is the end of round k. It is complete when the actor has committed its turns and
left its snapshot, and every learner has published version k. Everybody reads the words
for themselves, and waits for those that are missing, one after the other: words only grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rookery.config.run import Config
from rookery.protocol.arena import COMMIT, GATE, HANDED, SNAPSHOT
from rookery.shm.counters import Counters
from rookery.shm.heartbeat import Heartbeat

TICK = 0.2
"""Seconds of waiting from one sign of life to the next."""


class RoundSchedule:
    """Says when rounds start and boundaries are complete."""

    def __init__(
        self,
        config: Config,
        counters: Counters,
        learning: Sequence[str],
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._counters, self._heartbeat = counters, heartbeat or Heartbeat()
        self._versions = [f"version {agent}" for agent in learning]
        self._turns, self._schedule = config.turns_per_round, config.schedule
        self._ahead, self._rounds = rounds_ahead(config), config.rounds

    # What main looks at.

    def open(self, recorded: int) -> None:
        """Allow the rounds after a boundary that has been recorded."""
        self._counters.store(GATE, recorded + max(2, self._ahead))

    @property
    def last_opened(self) -> int:
        """The last boundary that main has recorded for sure; 0 if none."""
        return max(0, self._counters.load(GATE) - max(2, self._ahead))

    @property
    def last_allowed(self) -> int:
        """The last round that may start."""
        return min(self._counters.load(GATE), self._rounds)

    def is_complete(self, boundary: int) -> bool:
        """Whether everything of a boundary is there."""
        return all(self._counters.load(name) >= x for name, x in self._of_border(boundary))

    def wait_a_little(self, boundary: int, seconds: float) -> bool:
        """Wait for a boundary, but not long; return whether it is complete."""
        for name, value in self._of_border(boundary):
            if not self._counters.wait(name, value, seconds):
                return False
        return True

    # What players and learners wait for.

    def await_begin(self, generation: int) -> None:
        """Wait until main has handed over to the processes of a generation."""
        self._until(HANDED, generation)

    def await_playing(self, number: int) -> None:
        """Wait until round `number` may be played."""
        self._until(GATE, number)
        if self._schedule == "async":
            for version in self._versions:
                self._until(version, number - self._ahead + 1)
        else:
            self._until_complete(number - 1)

    def await_learning(self, number: int, on_policy: bool) -> int:
        """Wait until round `number` may be learned; return up to which turn of rows."""
        self._until(GATE, number)
        if self._schedule == "async":
            return self._await_rows(number, on_policy)
        self._until_complete(number - 1)
        boundary = number if self._schedule == "sync" else number - 1
        self._until(COMMIT, boundary * self._turns)
        return boundary * self._turns

    def await_end(self, rounds: int) -> None:
        """Wait until the last boundary is complete."""
        self._until_complete(rounds)

    def _await_rows(self, number: int, on_policy: bool) -> int:
        """Wait for as much experience as a round of updates needs, and take all there is.

        On-policy learners take every round whole, and once.
        """
        needed = number if on_policy else number - 1
        self._until(COMMIT, needed * self._turns)
        return needed * self._turns if on_policy else self._counters.load(COMMIT)

    def _of_border(self, boundary: int) -> Iterator[tuple[str, int]]:
        yield COMMIT, boundary * self._turns
        yield SNAPSHOT, boundary + 1
        for version in self._versions:
            yield version, boundary + 1

    def _until_complete(self, boundary: int) -> None:
        for name, value in self._of_border(boundary):
            self._until(name, value)

    def _until(self, name: str, value: int) -> None:
        if self._counters.load(name) >= value:
            return
        with self._heartbeat.spending("wait"):
            while not self._counters.wait(name, value, TICK):
                self._heartbeat.beat()


def rounds_ahead(config: Config) -> int:
    """Return how many rounds playing may be ahead of learning."""
    return config.max_lag if config.schedule == "async" else 1
