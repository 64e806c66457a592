"""The actor: stage 2 of the data path, one process that plays all worlds.

It takes the weights for a round, plays the round's turns, writes a row per agent, world
and turn, and commits each turn for all agents and worlds at once. At the boundary it
publishes a snapshot: everything needed to continue from there.

An actor that is restarted resumes from the newest snapshot. It first replays the turns
that were committed after it, without touching their rows, and then plays on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.actor.metrics import RoundMetrics
from rookery.actor.policies import PolicyRunner, Weights, exploration_of
from rookery.actor.recovery import InterruptedGame, can_restore
from rookery.actor.state import ActorState, snapshot_of
from rookery.algorithms.base import Agent
from rookery.games.base import Game, Observations, Outcome
from rookery.games.episodes import Episode
from rookery.games.player_guard import actions_of, forget
from rookery.games.players import Observation, Player
from rookery.protocol.arena import COMMIT, Arena, first_row
from rookery.replay.buffer import ReplayWriter, check_whole
from rookery.shm.heartbeat import Heartbeat
from rookery.specs import Array, under

REFRESH_TURNS = 8
"""In async, the actor checks for newer weights every so many turns."""


@dataclass
class PlayedRound:
    """The actor's report of one round."""

    episodes: list[Episode] = field(default_factory=list)
    """The episodes that ended in this round."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0
    interrupted: bool = False
    """Whether the game could not be restored and was started again."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "metrics": self.metrics,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "episodes": [episode.to_json() for episode in self.episodes],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlayedRound:
        """Return a report from what `to_json` returned."""
        episodes = [Episode.from_json(episode) for episode in data["episodes"]]
        return cls(episodes, data["metrics"], data["seconds"], data["interrupted"])


class Actor:
    """Plays a game for all agents in all worlds, one round at a time.

    `begin` restores the newest snapshot, then `play_round` is called once per round. A
    turn is the usual loop of observing, acting and stepping; `_play_turn` has all of it.
    """

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
        """Connect a game, the agents that act in it, and the memory for their rows.

        Args:
            game: in its first turn.
            agents: all agents of the game, in its order.
            players: of scripted agents, by agent number.
            arena: the run's shared memory.
            policies: of all other agents.
            turns_per_round: how many turns a round has.
            heartbeat: gets a beat every turn.
        """
        self._game, self._agents, self._players = game, agents, players
        self._arena, self._policies = arena, policies
        self._turns = turns_per_round
        self._heartbeat = heartbeat or Heartbeat()
        self._writers = {
            agent.number: ReplayWriter(arena.rows(agent.id)) for agent in agents
        }
        self._rows = {number: writer.rows for number, writer in self._writers.items()}
        self.state = ActorState(agents, game)
        self._versions: dict[int, int] = {}
        self._committed = 0
        """The number of turns that were committed before this actor began."""
        self._was_interrupted = False
        """Whether the game was started again, and no report has said so yet."""

    def begin(self) -> int:
        """Restore the newest snapshot, or publish the first; return its boundary."""
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
        refresh: Callable[[], Weights] | None = None,
    ) -> PlayedRound:
        """Play a round, report it, and publish a snapshot at its boundary.

        Args:
            number: of the round.
            weights: what agents act with.
            refresh: called every few turns; returns weights published since.
        """
        started = time.perf_counter()
        self._game.begin_round(number)
        self._versions = dict(weights.versions)
        self._policies.begin_round(number, weights.arrays)
        metrics = RoundMetrics(self._agents, number)
        report = PlayedRound(interrupted=self._was_interrupted)
        self._was_interrupted = False
        for turn in range(self._turns):
            if refresh is not None and turn % REFRESH_TURNS == 0:
                newer = refresh()
                self._versions |= newer.versions
                self._policies.update_weights(newer.arrays)
            metrics.add_versions(self._versions)
            report.episodes += self._play_turn(metrics)
        self._hash_rows()
        report.metrics = metrics.summary(self._agents, self.state.steps)
        report.seconds = time.perf_counter() - started
        self._arena.actor_reports().write(number, report.to_json())
        snapshot = snapshot_of(self._game, self.state, self._players)
        self._arena.snapshots().publish(number, snapshot)
        return report

    def _play_turn(self, metrics: RoundMetrics) -> list[Episode]:
        """Advance every world by one turn; return the episodes that ended."""
        self._heartbeat.beat()
        for phase in self._game.begin_turn():
            observations = self._game.observe(phase)
            if not self._is_replaying:
                self._write_observations(phase, observations)
            actions = self._select_actions(phase, observations, metrics)
            self._game.act(phase, actions)
        outcome = self._game.end_turn()
        if not self._is_replaying:
            self._write_outcome_and_commit(outcome)
        metrics.add_rewards(outcome.rewards)
        self.state.turn += 1
        starting, ended = self.state.episodes.add(outcome)
        if np.count_nonzero(starting):
            self.state.forget(starting)
            for player in self._players.values():
                forget(player, starting)
        return ended

    @property
    def _is_replaying(self) -> bool:
        """Whether this turn was committed before: its rows are read, not written."""
        return self.state.turn < self._committed

    def _write_observations(self, phase: Sequence[int], observations: Observations) -> None:
        for index, i in enumerate(phase):
            self._writers[i].write_observation(
                self.state.turn,
                observations.parts[index],
                observations.active[index],
                observations.legal[index],
                self.state.episodes.age,
                self.state.hidden.get(i),
            )

    def _select_actions(
        self, phase: Sequence[int], observations: Observations, metrics: RoundMetrics
    ) -> Array:
        """Return the actions of a phase, (worlds, agents of the phase), and write them.

        In a replayed turn, policies and players act as well, so that hidden states,
        players' memory and metrics come out the same; the actions are the stored ones.
        """
        turn = self.state.turn
        actions = np.zeros((self._game.worlds, len(phase)), np.int64)
        legal = {i: observations.legal[index] for index, i in enumerate(phase)}
        outputs = self._policies.act(phase, self._rows, legal, turn, self._exploration)
        for index, i in enumerate(phase):
            active = observations.active[index]
            probabilities: Array | float
            if i in self._players:
                observation = Observation(observations.parts[index], active, legal[i])
                selected = actions_of(self._players[i], observation, turn)
                probabilities = 1.0
            else:
                output = outputs[i]
                selected, probabilities = output.actions, output.probabilities
                metrics.add_output(i, output.values, output.entropies, active)
                if output.hidden is not None:
                    self.state.carry(i, output.hidden, active)
            if self._is_replaying:
                stored = self._rows[i].columns["action"]
                actions[:, index] = stored[turn % self._rows[i].slots]
            else:
                actions[:, index] = np.where(active, selected, 0)
                version = self._versions.get(i, 0)
                self._writers[i].write_action(
                    turn, actions[:, index], probabilities, version
                )
            self.state.steps[i] += np.count_nonzero(active)
        return actions

    def _exploration(self, number: int) -> float:
        return exploration_of(self._agents[number], int(self.state.steps[number]))

    def _write_outcome_and_commit(self, outcome: Outcome) -> None:
        """Complete every agent's row of this turn, then commit all of them at once."""
        for i, writer in self._writers.items():
            writer.write_outcome(
                self.state.turn,
                outcome.rewards[:, i],
                outcome.terminated[:, i],
                outcome.truncated[:, i],
            )
        self._arena.counters.store(COMMIT, self.state.turn + 1)

    def _hash_rows(self) -> None:
        """Add the round's rows to every agent's row hash."""
        for index, rows in enumerate(self._rows.values()):
            chain = hashlib.sha256(self.state.hashes[index].tobytes())
            for turn in range(self.state.turn - self._turns, self.state.turn):
                chain.update(rows.bytes_of(turn).data)
            self.state.hashes[index] = np.frombuffer(chain.digest(), np.uint8)

    def _check_rows(self) -> None:
        """Verify the rows that will be replayed, and the frames stacked before them.

        Raises:
            DamagedRow: if one is damaged. Learners verify all rows, but only after the
                round.
        """
        for agent in self._agents:
            oldest_frame = self.state.turn - agent.settings.frames + 1
            first = max(self._arena.counters.load(first_row(agent.id)), oldest_frame)
            turns = range(first, self._committed)
            rows = self._rows[agent.number]
            check_whole(agent.id, rows, turns, self._heartbeat.beat)

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore a snapshot; a game that cannot be restored is started again."""
        self.state.restore(under("life/", arrays))
        for i, player in self._players.items():
            for name, array in under(f"player {i}/", arrays).items():
                player.memory[name][...] = array
        game_arrays = under("game/", arrays)
        if can_restore(self._game, game_arrays):
            self._game.restore(game_arrays)
        elif self._committed > 0:
            turns = range(self.state.turn, self._committed)
            rows = list(self._rows.values())
            self._game = InterruptedGame(self._game, rows, turns, self.state.episodes)
            self._was_interrupted = True
