"""The actor: stage 2 of the data path, one process that plays all worlds.

It takes the weights of a round, plays the round's turns, writes every agent's rows and
commits each turn for all agents and worlds at once. At the boundary it leaves a snapshot:
everything needed to play on from there. An actor that starts anew goes on from the newest
one: it repeats the committed turns, whose rows it does not touch, and then plays on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.actor.metrics import RoundMetrics
from rookery.actor.policies import PolicyRunner, exploration_of
from rookery.actor.recovery import InterruptedGame, can_restore
from rookery.actor.state import ActorState, snapshot_of
from rookery.actor.weights import Weights
from rookery.algorithms.base import Agent
from rookery.games.base import Game, Observations, Outcome
from rookery.games.episodes import Episode
from rookery.games.players import Observation, Player
from rookery.protocol.arena import COMMIT, Arena, first_row
from rookery.replay.buffer import ReplayWriter, check_whole
from rookery.shm.heartbeat import Heartbeat
from rookery.specs import Array, under

RENEW_TURNS = 8
"""Turns from one look for newer weights to the next, in async."""


@dataclass
class Played:
    """What a round of playing brought."""

    episodes: list[Episode] = field(default_factory=list)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0
    interrupted: bool = False
    """Whether the game could not be brought back, and began anew."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "metrics": self.metrics,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "episodes": [episode.to_json() for episode in self.episodes],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Played:
        """Return what `to_json` described."""
        episodes = [Episode.from_json(one) for one in data["episodes"]]
        return cls(episodes, data["metrics"], data["seconds"], data["interrupted"])


class Actor:
    """Plays rounds."""

    def __init__(
        self,
        game: Game,
        agents: Sequence[Agent],
        players: Mapping[int, Player],
        arena: Arena,
        policies: PolicyRunner,
        turns_per_round: int,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self._game, self._agents, self._players = game, agents, players
        self._arena, self._policies = arena, policies
        self._turns = turns_per_round
        self._heartbeat = heartbeat or Heartbeat()
        self._numbers = [agent.number for agent in agents]
        self._writers = {
            agent.number: ReplayWriter(arena.rows(agent.id)) for agent in agents
        }
        self._rows = {number: writer.rows for number, writer in self._writers.items()}
        self.state = ActorState(agents, game)
        self._versions: dict[int, int] = {}
        self._committed = 0
        """Turns that were committed before this actor started."""
        self._was_interrupted = False
        """Whether the game could not be brought back, and main has not been told."""

    def begin(self) -> int:
        """Go on from the newest snapshot, or leave the first; return its boundary."""
        snapshots = self._arena.snapshots()
        self._committed = self._arena.counters.load(COMMIT)
        if snapshots.version < 0:
            snapshots.publish(0, snapshot_of(self._game, self.state, self._players))
        else:
            self._restore(snapshots.read(snapshots.version))
            self._check_rows()
        return snapshots.version

    def play_round(
        self,
        number: int,
        weights: Weights,
        renew: Callable[[], Weights] | None = None,
    ) -> Played:
        """Play a round with the given weights, and leave a snapshot at its boundary.

        With `renew` newer weights are looked for every few turns.
        """
        started = time.perf_counter()
        self._game.begin_round(number)
        self._versions = dict(weights.versions)
        self._policies.begin_round(number, weights.arrays)
        metrics = RoundMetrics(self._agents, number)
        played = Played(interrupted=self._was_interrupted)
        self._was_interrupted = False
        for turn in range(self._turns):
            if renew is not None and turn % RENEW_TURNS == 0:
                self._renew(renew())
            metrics.add_versions(self._versions)
            played.episodes += self._play_turn(metrics)
        self._hash_rows()
        played.metrics = metrics.summary(self._agents, self.state.steps)
        played.seconds = time.perf_counter() - started
        self._arena.actor_reports().write(number, played.to_json())
        snapshot = snapshot_of(self._game, self.state, self._players)
        self._arena.snapshots().publish(number, snapshot)
        return played

    def _renew(self, weights: Weights) -> None:
        self._versions |= weights.versions
        self._policies.renew(weights.arrays)

    def _play_turn(self, metrics: RoundMetrics) -> list[Episode]:
        self._heartbeat.beat()
        for phase in self._game.begin_turn():
            seen = self._game.observe(phase)
            if self._is_new:
                self._write_seen(phase, seen)
            actions = self._choose(phase, seen, metrics)
            self._game.act(phase, actions)
        outcome = self._game.end_turn()
        if self._is_new:
            self._commit(outcome)
        self.state.turn += 1
        starting, ended = self.state.episodes.add(outcome)
        if np.count_nonzero(starting):
            self.state.forget(starting)
            for player in self._players.values():
                player.forget(starting)
        metrics.add_rewards(outcome.rewards)
        return ended

    @property
    def _is_new(self) -> bool:
        """Whether the turn at hand is not one that is only repeated."""
        return self.state.turn >= self._committed

    def _commit(self, outcome: Outcome) -> None:
        """Finish every agent's row of this turn, and commit them as one."""
        for i in self._numbers:
            columns = (outcome.rewards, outcome.terminated, outcome.truncated)
            self._writers[i].write_outcome(
                self.state.turn, *(column[:, i] for column in columns)
            )
        self._arena.counters.store(COMMIT, self.state.turn + 1)

    def _write_seen(self, phase: Sequence[int], seen: Observations) -> None:
        for place, i in enumerate(phase):
            self._writers[i].write_observation(
                self.state.turn,
                seen.parts[place],
                seen.active[place],
                seen.legal[place],
                self.state.episodes.age,
                self.state.hidden.get(i),
            )

    def _choose(
        self, phase: Sequence[int], seen: Observations, metrics: RoundMetrics
    ) -> Array:
        """Let everybody in a phase choose, and write what they did."""
        actions = np.zeros((self._game.worlds, len(phase)), np.int64)
        legal = {i: seen.legal[place] for place, i in enumerate(phase)}
        acted = self._policies.act(
            phase, self._rows, legal, self.state.turn, self._exploration
        )
        for place, i in enumerate(phase):
            active = seen.active[place]
            if i in self._players:
                observation = Observation(seen.parts[place], active, seen.legal[place])
                chosen = self._players[i].act(observation, self.state.turn)
                probabilities: Array | float = 1.0
            else:
                chosen, probabilities = acted[i].actions, acted[i].probabilities
                metrics.add_choice(i, acted[i].values, acted[i].entropies, active)
                if (hidden := acted[i].hidden) is not None:
                    self.state.carry(i, hidden, active)
            actions[:, place] = self._act(i, np.where(active, chosen, 0), probabilities)
            self.state.steps[i] += np.count_nonzero(active)
        return actions

    def _act(self, i: int, actions: Array, probabilities: Array | float) -> Array:
        """Write what an agent does; in a turn that is repeated, it does what it did."""
        if not self._is_new:
            return self._rows[i].columns["action"][self.state.turn % self._rows[i].slots]
        self._writers[i].write_action(
            self.state.turn, actions, probabilities, self._versions.get(i, 0)
        )
        return actions

    def _exploration(self, number: int) -> float:
        agent = self._agents[number]
        return exploration_of(agent, int(self.state.steps[number]))

    def _hash_rows(self) -> None:
        """Take the round's rows into every agent's row hash."""
        for place, i in enumerate(self._numbers):
            chain = hashlib.sha256(self.state.hashes[place].tobytes())
            for turn in range(self.state.turn - self._turns, self.state.turn):
                chain.update(self._rows[i].bytes_of(turn).data)
            self.state.hashes[place] = np.frombuffer(chain.digest(), np.uint8)

    def _check_rows(self) -> None:
        """See that the rows to be repeated, and frames before them, are what was written.

        Raises:
            DamagedRow: if not. Learners look at all rows, but only after the round.
        """
        for agent, i in zip(self._agents, self._numbers, strict=True):
            oldest_frame = self.state.turn - agent.settings.frames + 1
            first = max(self._arena.counters.load(first_row(agent.id)), oldest_frame)
            turns = range(first, self._committed)
            check_whole(agent.id, self._rows[i], turns, self._heartbeat.beat)

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        """Go back to where a snapshot was taken."""
        self.state.restore(under("life/", arrays))
        for i, player in self._players.items():
            for name, array in under(f"player {i}/", arrays).items():
                player.memory[name][...] = array
        self._go_back(under("game/", arrays))

    def _go_back(self, arrays: Mapping[str, Array]) -> None:
        """Bring the game back; what cannot be is closed, and the game begins anew."""
        if can_restore(self._game, arrays):
            self._game.restore(arrays)
        elif self._committed > 0:
            turns = range(self.state.turn, self._committed)
            rows = [self._rows[i] for i in self._numbers]
            self._game = InterruptedGame(self._game, rows, turns, self.state.episodes)
            self._was_interrupted = True
